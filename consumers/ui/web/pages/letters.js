// Dead letters: what could not be used, why, and the command that gives it another chance.
import { html, useState } from "../lib/preact.js";
import { api, useGet } from "../lib/api.js";
import { Link, to, setQuery } from "../lib/router.js";
import { Page, Section, Table, Badge, Command, Empty, ErrorBox, Loading, Num, Tabs, Time, bytes, int, none } from "../lib/ui.js";

/** The pages at /r/RUN/letters and /r/RUN/letters/N. */
export default function Letters({ run, params, query }) {
  return params.n ? html`<${One} run=${run} n=${params.n} />` : html`<${List} run=${run} query=${query} />`;
}

function List({ run, query }) {
  const { stage = "", producer = "", q = "", cursor = "" } = query;
  const list = useGet(api("runs", run, "deadletters", { stage, producer, q, cursor }), { every: cursor ? 0 : 5 });
  const letters = list.data?.letters ?? [], filtered = stage || producer || q;
  return html`<${Page} title="Dead letters" lead="What could not be used, with its reason and its bytes. Nothing here was trained on.">
    <${Filter} value=${{ stage, producer, q }} letters=${letters} />
    ${list.error && html`<${ErrorBox} error=${list.error} retry=${list.reload} />`}
    ${!list.data && list.loading && html`<${Loading} />`}
    ${list.data && (letters.length ? html`<div class="panel"><${Table} caption=${`Dead letters of ${run}`} hideCaption columns=${columns(run)} rows=${letters} rowKey=${(l) => l.number} /></div>`
      : html`<${Empty} title=${filtered ? "No dead letter passes these filters" : "No dead letter"}>${filtered ? html`<button type="button" onClick=${() => setQuery({ stage: "", producer: "", q: "", cursor: "" })}>Show all</button>` : "Everything that arrived could be read and used, or is counted where it belongs."}</${Empty}>`)}
    ${(cursor || list.data?.next) && html`<p class="pager">${cursor && html`<button type="button" onClick=${() => setQuery({ cursor: "" })}>First page</button>`}
      ${list.data?.next && html`<button type="button" onClick=${() => setQuery({ cursor: list.data.next }, { replace: false })}>Next page</button>`}</p>`}
  </${Page}>`;
}

function Filter({ value, letters }) {
  const known = (key) => [...new Set([value[key], ...letters.map((l) => l[key])].filter(Boolean))].sort();
  const pick = (key, all) => html`<label>${key} <select value=${value[key]} onChange=${(e) => setQuery({ [key]: e.target.value, cursor: "" })}>
    <option value="" selected=${!value[key]}>${all}</option>${known(key).map((v) => html`<option key=${v} value=${v} selected=${v === value[key]}>${v}</option>`)}</select></label>`;
  return html`<form class="filters" role="search" aria-label="Filter dead letters" onSubmit=${(e) => e.preventDefault()}><div class="row">
    <label class="wide">reason <input type="search" value=${value.q} placeholder="part of the reason" onChange=${(e) => setQuery({ q: e.target.value.trim(), cursor: "" })} /></label>
    ${pick("stage", "any stage")}${pick("producer", "any producer")}</div></form>`;
}

const columns = (run) => [
  { key: "number", label: "number", head: true, render: (l) => html`<${Link} to=${to("r", run, "letters", l.number)}>${int(l.number)}</${Link}>` },
  { key: "reason", wide: true, label: "reason", render: (l) => html`<bdi>${l.reason || none}</bdi> <${Fate} letter=${l} />` },
  { key: "stage", label: "stage", title: "Who could not use it", render: (l) => html`<bdi>${l.stage || none}</bdi>` },
  { key: "trajectory", label: "trajectory", title: "Group, slot and attempt, where they could be read", render: (l) => html`<${Trajectory} run=${run} id=${l.trajectory} />` },
  { key: "producer", label: "producer", render: (l) => html`<bdi>${l.producer || html`<${Num} value=${null} why="not known any more" />`}</bdi>` },
  { key: "bytes", label: "bytes", num: true, render: (l) => html`<${Num} value=${l.bytes} as=${bytes} title=${l.original > l.bytes ? `of ${bytes(l.original)} that it had` : "all that it had"} />` },
  { key: "at", label: "at", num: true, render: (l) => html`<span class="nowrap"><${Time} at=${moment(l.at)} /></span>` },
];

// moment takes both forms of a time: Unix seconds, or RFC 3339.
const moment = (at) => (typeof at === "string" ? Date.parse(at) / 1000 : at);

const Fate = ({ letter: l }) => html`${l.requeued?.length ? html`<${Badge} kind="good" title=${`As message ${l.requeued.join(", ")} of ROLLOUTS`}>requeued</${Badge}>` : null}
  ${l.dropped ? html`<${Badge} title=${`Its bytes were dropped at ${l.dropped}`}>dropped</${Badge}>` : null}`;

function Trajectory({ run, id }) {
  if (!id) return html`<${Num} value=${null} why="could not be read from it" />`;
  const at = id.split("/");
  return at.length === 3 ? html`<${Link} to=${to("r", run, "g", at[0])} title="Its group"><bdi>${id}</bdi></${Link}>` : html`<bdi>${id}</bdi>`;
}

function One({ run, n }) {
  const { data: l, error, loading, reload } = useGet(api("runs", run, "deadletters", n));
  return html`<${Page} title=${`Dead letter ${n}`} lead=${html`<${Link} to=${to("r", run, "letters")}>All dead letters</${Link}>`}>
    ${error && html`<${ErrorBox} error=${error} retry=${reload} />`}${!l && loading && html`<${Loading} />`}
    ${l && html`<div class="stack"><${Facts} run=${run} letter=${l} /><${Again} run=${run} letter=${l} /><${Preview} letter=${l} /><${Headers} headers=${l.headers ?? {}} /></div>`}
  </${Page}>`;
}

function Facts({ run, letter: l }) {
  const facts = [
    ["stage", html`<bdi>${l.stage}</bdi>`], ["trajectory", html`<${Trajectory} run=${run} id=${l.trajectory} />`], ["producer", html`<bdi>${l.producer || none}</bdi>`],
    ["came from", html`<bdi>${l.source || none}</bdi>${l.sequence ? ` message ${int(l.sequence)}` : ""}${l.item >= 0 ? `, item ${l.item}` : ", the whole message"}`],
    ["bytes", html`${bytes(l.bytes)}${l.original > l.bytes ? ` of ${bytes(l.original)}` : ""}${l.from ? html` <span class="muted">from ${l.from}</span>` : ""}`], ["at", html`<${Time} at=${moment(l.at)} />`],
  ];
  return html`<${Section} title="Why"><p class="say"><bdi>${l.reason}</bdi> <${Fate} letter=${l} /></p>
    ${l.fault && html`<p>It decodes up to byte <b class="num">${l.fault_at >= 0 ? int(l.fault_at) : none}</b>: <bdi>${l.fault}</bdi></p>`}
    <p class="muted">${l.now ? html`This build still finds: <bdi>${l.now}</bdi>` : l.now === "" ? "This build finds nothing wrong with it: requeued, it would pass." : ""}</p>
    <dl class="pairs">${facts.map(([k, v]) => html`<div key=${k}><dt>${k}</dt><dd>${v}</dd></div>`)}</dl></${Section}>`;
}

const Again = ({ run, letter: l }) => html`<${Section} title="What can be done" note="Commands for a shell; this page itself changes nothing.">
  <div class="stack"><${Command} text=${`headrace deadletter requeue ${quote(run)} ${l.number} --check`} /><${Command} text=${`headrace deadletter requeue ${quote(run)} ${l.number}`} />
  <${Command} text=${`headrace deadletter show ${quote(run)} ${l.number} --raw letter.bin`} /></div></${Section}>`;

const quote = (text) => (/^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

function Preview({ letter: l }) {
  const [tab, set] = useState("hex");
  const hex = l.preview_hex ?? "";
  return html`<${Section} title="Bytes" aside=${hex ? `the first ${bytes(hex.length / 2)}` : null}>
    ${hex === "" ? html`<p class="hollow">Its bytes are not there any more.</p>` : html`<${Tabs} label="How the bytes are shown" value=${tab} onChange=${set} tabs=${[{ id: "hex", label: "Hex" }, { id: "text", label: "Text" }]}>
      <div class="scroll tall" tabindex="0" role="region" aria-label=${tab === "hex" ? "Bytes in hex" : "Bytes as text"}><pre class=${tab === "hex" ? "hex" : ""}>${tab === "hex" ? dump(hex) : l.preview_text ?? ""}</pre></div></${Tabs}>`}</${Section}>`;
}

// dump writes bytes as people read them: offset, sixteen bytes, and their letters.
function dump(hex) {
  const lines = [];
  for (let i = 0; i < hex.length; i += 32) {
    const pairs = hex.slice(i, i + 32).match(/../g) ?? [];
    const text = pairs.map((p) => { const c = parseInt(p, 16); return c > 31 && c < 127 ? String.fromCharCode(c) : "·"; }).join("");
    lines.push(`${(i / 2).toString(16).padStart(6, "0")}  ${pairs.slice(0, 8).join(" ").padEnd(23)}  ${pairs.slice(8).join(" ").padEnd(23)}  ${text}`);
  }
  return lines.join("\n");
}

function Headers({ headers }) {
  const rows = Object.entries(headers).map(([name, values]) => ({ name, value: [].concat(values).join(", ") }));
  return html`<${Section} title="Headers"><${Table} caption="Headers of the message" hideCaption rows=${rows} rowKey=${(r) => r.name} empty="It has none." columns=${[
    { key: "name", label: "header", head: true, render: (r) => html`<bdi>${r.name}</bdi>` }, { key: "value", wide: true, label: "value", render: (r) => html`<code class="mono"><bdi>${r.value}</bdi></code>` }]} /></${Section}>`;
}

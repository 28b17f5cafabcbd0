// The inference engines: what each is doing, and how it took each version of the weights.
import { html } from "../../lib/preact.js";
import { Section, Table, Badge, Bar, Num, Time, int, short, seconds, percent, ago, plural } from "../../lib/ui.js";

/** A table of engines with a bar of where each one's time goes. */
export function Engines({ s }) {
  const engines = s.engines ?? [];
  return html`<${Section} wide title="Engines" aside=${plural(engines.length, "engine")}>
    <${Table} caption="Engines of the run" hideCaption columns=${columns(s)} rows=${engines} few=${16} rowKey=${(e) => e.name} empty="No engine has registered yet: the trainer announces version 0 first, then engines load it." />
  </${Section}>`;
}

const num = (key, label, title, as, why = "the engine does not say", unit) => ({ key, label, title, num: true, render: (e) => html`<${Num} value=${e[key]} as=${as} title=${title} why=${why} unit=${unit} />` });

const columns = (s) => [
  { key: "name", label: "engine", head: true, render: (e) => html`<bdi>${e.name}</bdi> ${!e.ready && html`<${Badge} kind="warn" title="It does not serve now">not ready</${Badge}>`}<br /><small class="muted"><bdi>${e.url}</bdi></small>` },
  { key: "version", label: "version", num: true, title: "Policy version it serves", render: (e) => html`<${Version} version=${e.version} newest=${s.trainer?.version} />` },
  { key: "time", wide: true, label: "where its time goes", title: "Computing in the last ten seconds, paused for new weights in the last minute", render: (e) => html`<${Time10} e=${e} />` },
  num("running", "running", "Requests it generates for at this moment", int),
  num("waiting", "waiting", "Requests in its queue", int),
  num("tokens_per_second", "tokens/s", "Tokens it sampled per second", short),
  num("cache_hit", "cache hits", "Part of the prompt tokens of the last minute that its prefix cache had", percent),
  num("token_usage", "cache used", "Part of its cache for tokens in use", percent),
  num("row_fill", "rows filled", "Part of the rows of its device calls that were in use, last minute", percent, "only the engine that comes with Headrace says"),
  { key: "heard", label: "heard", num: true, title: "When it last said something", render: (e) => html`<span class=${e.heard > 10 ? "late num" : "num"}>${ago(e.heard)}</span>` },
];

function Version({ version, newest }) {
  if (version === null || version === undefined || version < 0) return html`<${Num} value=${null} why="it serves none yet" />`;
  const behind = newest > version ? newest - version : 0;
  return html`<${Num} value=${version} as=${int} title=${behind ? `${behind} behind the newest` : "the newest"} />${behind > 0 && html`<small class="muted"> −${behind}</small>`}`;
}

function Time10({ e }) {
  if (e.busy === null || e.busy === undefined) return html`<${Num} value=${null} why="it does not say how busy its device is" />`;
  const paused = Math.min(e.paused_fraction ?? 0, 1 - e.busy);
  return html`<${Bar} small legend=${false} label=${`Time of ${e.name}`} total=${1} parts=${[{ label: "computes", value: e.busy, colour: "--c2" }, { label: "paused for weights", value: paused, colour: "--c3" }]} />
    <small class="muted num">${percent(e.busy)} busy${paused > 0.001 ? `, ${percent(paused)} paused` : ""}</small>`;
}

const phases = [["pause", "--c3"], ["load", "--c1"], ["verify", "--c4"], ["resume", "--c2"]];

/** The last updates of weights, each with its phases. */
export function Syncs({ s }) {
  const syncs = s.syncs ?? [];
  const longest = Math.max(...syncs.map((x) => x.seconds ?? 0), 0);
  return html`<${Section} title="Weight updates" aside=${html`<span class="legend inline">${phases.map(([p, c]) => html`<span key=${p}><i style=${`background:var(${c})`}></i>${p}</span>`)}</span>`}>
    <${Table} caption="The newest weight updates of engines" hideCaption rows=${syncs} few=${8} rowKey=${(x) => `${x.version}/${x.engine}/${x.at}`} empty="No engine has loaded weights yet." columns=${[
      { key: "version", label: "version", num: false, head: true, render: (x) => int(x.version) },
      { key: "engine", label: "engine", render: (x) => html`<bdi class="nowrap">${x.engine}</bdi>` },
      { key: "phases", wide: true, label: "phases", title: "Paused, loading, verifying, resuming; drawn to the longest of these", render: (x) => (x.error
        ? html`<span class="bad">${x.error}</span>`
        : html`<${Bar} small legend=${false} as=${seconds} label=${`Version ${x.version} on ${x.engine}`} total=${longest} parts=${phases.map(([p, c]) => ({ label: p, value: x[p], colour: c }))} />`) },
      { key: "seconds", label: "took", num: true, render: (x) => html`<${Num} value=${x.seconds} as=${seconds} title="From pause to resume" why="it failed" />` },
      { key: "at", label: "at", num: true, render: (x) => html`<span class="nowrap"><${Time} at=${x.at} now=${s.now} /></span>` },
    ]} />
  </${Section}>`;
}

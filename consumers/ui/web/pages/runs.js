// All runs that the server knows: which live, how far they are, how well they do.
import { html } from "../lib/preact.js";
import { useGet } from "../lib/api.js";
import { Link, to } from "../lib/router.js";
import { Page, Table, Badge, Bar, Empty, ErrorBox, Loading, Num, Time, Command, bytes, fixed, int, plural, words } from "../lib/ui.js";

const states = {
  live: { kind: "good", title: "A role was heard in the last 10 s" },
  ended: { kind: "plain", title: "The run's end is recorded" },
  stopped: { kind: "warn", title: "No role is heard, and no end is recorded: it can be gone on with" },
};

/** The page at /. */
export default function Runs() {
  const { data, error, loading, reload } = useGet("api/runs", { every: 3 });
  const runs = data?.runs ?? [];
  return html`<${Page} title="Runs" lead=${data && plural(runs.length, "run")}>
    ${error && html`<${ErrorBox} error=${error} retry=${reload} />`}
    ${!data && loading && html`<${Loading} />`}
    ${data && (runs.length ? html`<div class="panel"><${Table} caption="Runs, newest first" hideCaption columns=${columns} rows=${runs} rowKey=${(r) => r.run} /></div>` : html`<${Start} />`)}
  </${Page}>`;
}

const columns = [
  { key: "run", label: "run", head: true, render: (r) => html`<${Link} to=${to("r", r.run)}><bdi>${r.run}</bdi></${Link}>` },
  { key: "state", label: "state", render: (r) => html`<${Badge} kind=${states[r.state]?.kind} title=${states[r.state]?.title}>${r.state}</${Badge}>${r.end && html` <small class="muted">${words(r.end)}</small>`}` },
  { key: "recipe", label: "recipe", render: (r) => html`<bdi>${r.recipe || "–"}</bdi>` },
  { key: "step", label: "step", num: true, title: "Steps the trainer has applied, of those the recipe asks for", render: (r) => html`<${Steps} run=${r} />` },
  { key: "reward", label: "reward", num: true, title: "Mean reward of the last batches trained on", render: (r) => html`<${Num} value=${r.reward} as=${(v) => fixed(v, 3)} title="Mean reward of the last batches" why="no batch was trained yet" />` },
  { key: "bytes", label: "on disk", num: true, title: "Bytes of the run's streams", render: (r) => html`<${Num} value=${r.bytes} as=${bytes} title="Bytes of the run's streams" why="the server does not say" />` },
  { key: "created", label: "created", num: true, render: (r) => html`<span class="nowrap"><${Time} at=${r.created} /></span>` },
  { key: "where", wide: true, label: "where", render: (r) => html`<small class="muted"><bdi>${r.where || "–"}</bdi></small>` },
];

function Steps({ run: r }) {
  if (!r.max_steps) return html`<${Num} value=${r.step} as=${int} title="Steps applied; the recipe sets no limit" />`;
  return html`<div class="progress"><span class="num">${int(r.step)} <span class="unit">of ${int(r.max_steps)}</span></span>
    <${Bar} small legend=${false} label="Steps applied" total=${r.max_steps} as=${int} parts=${[{ label: "applied", value: Math.min(r.step, r.max_steps), colour: "--accent" }]} /></div>`;
}

const Start = () => html`<${Empty} title="No run yet">
  <p>Start one; it appears here by itself. This one learns a small game on a laptop's processor, within minutes:</p>
  <${Command} text="headrace up recipes/frozenlake" />
</${Empty}>`;

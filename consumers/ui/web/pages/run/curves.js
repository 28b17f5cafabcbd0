// Curves over steps and over time. Arrays are made anew only when their source is, so that charts draw only then.
import { html, useMemo } from "../../lib/preact.js";
import { Section, Choice, figures, short, percent, seconds, fixed, words, plural } from "../../lib/ui.js";
import { Chart } from "../../lib/chart.js";
import { maxSteps } from "../../lib/columns.js";

/** Reward of training, and of what was held out. */
export function Reward({ live }) {
  const steps = live.steps.value, evals = live.state.value.evals ?? [];
  const newest = evals.at(-1);
  const c = useMemo(() => curve(steps, evals), [pace(steps), evals.length, newest?.sampled, newest?.greedy]);
  const failed = evals.reduce((sum, e) => sum + (e.failed ?? 0), 0);
  return html`<div class="two-thirds"><${Section} title="Reward" aside=${steps.step.length >= maxSteps ? `the last ${maxSteps} steps` : null}
    note=${failed ? `${plural(failed, "evaluation episode")} failed and count in no mean.` : null}>
    <${Chart} title="mean reward of each batch, ± its standard deviation; held-out tasks as points" x=${c.x} xKind="step" height=${260} as=${(v) => fixed(v, 2)} empty="The first batch draws the first point."
      series=${[{ label: "training", values: c.mean, colour: "--c1", band: c.band }, { label: "held out, sampled", values: c.sampled, colour: "--c3", points: true }, { label: "held out, greedy", values: c.greedy, colour: "--c2", points: true }]} />
    </${Section}></div>`;
}

// curve lays steps and evaluation rounds on one axis.
function curve(steps, evals) {
  const x = [...new Set([...steps.step, ...evals.map((e) => e.round)])].sort((a, b) => a - b);
  const place = new Map(x.map((v, i) => [v, i]));
  const lay = (keys, values) => { const out = new Array(x.length).fill(null); keys.forEach((k, i) => { out[place.get(k)] = values[i] ?? null; }); return out; };
  const mean = lay(steps.step, steps.reward ?? []), std = lay(steps.step, steps.reward_std ?? []);
  const off = (sign) => mean.map((v, i) => (v === null || std[i] === null ? null : v + sign * std[i]));
  const rounds = evals.map((e) => e.round);
  return { x, mean, band: [off(-1), off(1)], sampled: lay(rounds, evals.map((e) => e.sampled)), greedy: lay(rounds, evals.map((e) => e.greedy)) };
}

const spans = [{ id: 600, label: "10 min", title: "A point a second" }, { id: 43200, label: "12 h", title: "Means of ten seconds" }];

// column is a column of the series, empty where the server sends none.
const column = (series, name) => series[name] ?? series.at.map(() => null);

/** Trajectories and tokens per second over time. */
export function Throughput({ live }) {
  const series = live.series.value;
  const shared = { x: series.at, xKind: "time", group: "time", height: 120, min: 0 };
  const cols = useMemo(() => ({ tr: column(series, "trajectories_per_second"), tok: column(series, "tokens_per_second"), trained: column(series, "trained_tokens_per_second") }), [series]);
  return html`<${Section} title="Throughput" aside=${html`<${Choice} label="How far back" options=${spans} value=${live.span.value} onChange=${live.setSpan} />`}>
    <${Chart} title="trajectories per second" ...${shared} as=${figures} unit="/s" series=${[{ label: "trajectories", values: cols.tr, colour: "--c1" }]} />
    <${Chart} title="tokens per second" ...${shared} as=${short} unit="/s" series=${[{ label: "sampled", values: cols.tok, colour: "--c2" }, { label: "trained on", values: cols.trained, colour: "--c4" }]} />
  </${Section}>`;
}

/** Where time and room go over time: waiting, computing, what stands in between. */
export function Fractions({ live }) {
  const series = live.series.value;
  const shared = { x: series.at, xKind: "time", group: "time", height: 120, min: 0 };
  const cols = useMemo(() => Object.fromEntries(["trainer_wait", "engine_busy", "in_flight", "open_groups", "kept_groups", "batches_ready"].map((n) => [n, column(series, n)])), [series]);
  return html`<${Section} title="Waiting, and what waits">
    <${Chart} title="trainer waits for a batch, engines compute: parts of the time" ...${shared} max=${1} as=${percent}
      series=${[{ label: "trainer waits", values: cols.trainer_wait, colour: "--c3" }, { label: "engines busy", values: cols.engine_busy, colour: "--c2" }]} />
    <${Chart} title="episodes in flight, groups open and kept, batches ready" ...${shared} as=${figures}
      series=${[{ label: "in flight", values: cols.in_flight, colour: "--c6" }, { label: "open", values: cols.open_groups, colour: "--c1" }, { label: "kept", values: cols.kept_groups, colour: "--c4" }, { label: "batches", values: cols.batches_ready, colour: "--c7" }]} />
  </${Section}>`;
}

const first = ["loss", "kl", "entropy", "grad_norm", "learning_rate"];
const own = { tokens: short, rows: figures, groups: figures, zero_variance: figures, staleness_mean: figures, train_seconds: seconds, wait_seconds: seconds };
const units = (name) => (name.endsWith("seconds") ? seconds : name === "tokens" ? short : figures);

/** All that a step reports, as small charts that share a cursor. */
export function Metrics({ live }) {
  const steps = live.steps.value;
  const charts = useMemo(() => ({ x: steps.step, trainer: reported(steps), batch: measured(steps) }), [pace(steps)]);
  return html`<${Section} wide title="Each step">
    <h3>What the trainer reports</h3><${Multiples} x=${charts.x} charts=${charts.trainer} empty="It has applied no step yet." />
    <h3>What its batch was</h3><${Multiples} x=${charts.x} charts=${charts.batch} empty="No batch was cut yet." />
  </${Section}>`;
}

const Multiples = ({ x, charts, empty }) => (charts.length === 0 ? html`<p class="hollow">${empty}</p>` : html`<div class="multiples">${charts.map((c) => html`
  <${Chart} key=${c.name} small group="steps" title=${c.name} x=${x} xKind="step" as=${c.as} series=${[{ label: c.name, values: c.values, colour: c.colour, width: 1.25 }]} />`)}</div>`);

// pace is what the charts are made anew for: each change, or of a long run every five seconds.
const pace = (steps) => (steps.step.length > 2000 ? Math.floor(Date.now() / 5000) : steps);

const some = (values) => values?.some((v) => v !== null);

function reported(steps) {
  const names = Object.keys(steps.metrics).filter((n) => !again.includes(n) && some(steps.metrics[n]));
  names.sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1));
  return names.map((n) => ({ name: words(n), values: steps.metrics[n], as: units(n), colour: "--c4" }));
}

const measured = (steps) => Object.keys(own).filter((n) => some(steps[n])).map((n) => ({ name: titles[n] ?? words(n), values: steps[n], as: own[n], colour: "--c6" }));

// again are metrics that the batch's own columns have too.
const again = ["rows", "staleness_mean", "reward_mean"];
const titles = { tokens: "tokens", rows: "rows", groups: "groups", zero_variance: "groups dropped for equal rewards", staleness_mean: "mean staleness, steps", train_seconds: "time training", wait_seconds: "time waiting" };
const rank = (name) => { const at = first.indexOf(name); return at < 0 ? first.length : at; };

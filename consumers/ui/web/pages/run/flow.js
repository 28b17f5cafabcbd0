// The run as a channel: how much stands between the stages, drawn as wide as it is. A channel that swells before a station
// and is thin behind it shows where the run is held up.
import { html } from "../../lib/preact.js";
import { Section, Num, int, bytes, seconds, percent, figures, plural } from "../../lib/ui.js";

const high = 64, low = 3; // px

/** The diagram of what waits where, from tasks to trainer and the weights' way back. */
export function Flow({ s }) {
  const stations = [...between(s), trainer(s)];
  const counts = stations.map((p) => p.n);
  const top = Math.max(...counts.map((n) => n ?? 0), 1);
  const heights = counts.map((n) => (n ? low + (high - low) * Math.sqrt(n / top) : low));
  heights[heights.length - 1] = heights[heights.length - 2]; // what is ready flows into the trainer
  const versions = (s.engines ?? []).filter((e) => e.version >= 0).map((e) => e.version);
  return html`<${Section} wide title="From task to trainer" aside="the channel is as wide as the square root of the trajectories that stand there">
    <div class="flow" style=${`--n:${stations.length}`}>
      <svg class="river" viewBox=${`0 0 ${stations.length * 100} ${high + 4}`} preserveAspectRatio="none" aria-hidden="true"><path d=${river(heights)} /></svg>
      <ol aria-label="What waits at each station, in the order a trajectory passes them">${stations.map((p, i) => html`<li key=${p.key} title=${p.title}>
        <span class="label">${p.label}</span>
        <strong>${p.show ?? html`<${Num} value=${p.n} as=${int} title=${p.title} why=${p.why ?? "nobody says"} />`}</strong>
        <small class="muted">${p.sub ?? html`<${Num} value=${p.bytes} as=${bytes} title="Bytes of these trajectories" why=${p.noBytes ?? "not known"} />`}</small>
        <span class="level" aria-hidden="true"><i style=${`width:${((100 * heights[i]) / (high + low)).toFixed(1)}%`}></i></span></li>`)}</ol>
      <p class="back"><span aria-hidden="true">◂</span> weights: version <b class="num">${versionText(s.trainer?.version)}</b> published${versions.length ? html`, engines at <b class="num">${span(versions)}</b>` : ", no engine serves any yet"}</p>
    </div></${Section}>`;
}

// between lists the stations before the trainer: the server's queues, and after the tasks what is being played.
function between(s) {
  const queue = (name) => (s.queues ?? []).find((q) => q.name === name) ?? { trajectories: null, bytes: null };
  const one = (name, label, title, more) => ({ key: name, label, title, n: queue(name).trajectories, bytes: queue(name).bytes, ...more });
  const producers = s.producers ?? [];
  const playing = producers.length ? producers.reduce((sum, p) => sum + (p.heard < 10 ? p.live ?? 0 : 0), 0) : null;
  return [
    one("tasks", "tasks", "Tasks handed out and not played to the end: what is being played is among them", { sub: "handed out" }),
    { key: "playing", label: "playing", title: "Episodes that producers play at this moment", n: playing, why: "no producer is heard", sub: plural(s.producers_total ?? producers.length, "producer") },
    one("publisher", "to publish", "Played, not yet on the bus"),
    one("rollouts", "open groups", "Arrived, in groups that are not full yet"),
    one("kept", "kept groups", "In whole groups that wait for a batch"),
    one("ready", "batches ready", "In batches that are cut and that the trainer has not taken"),
  ];
}

function trainer(s) {
  const t = s.trainer ?? {};
  return { key: "trainer", label: "trainer", n: null, title: t.connected ? "Trainers at the bridge, and what the newest step took" : "No trainer is connected to the bridge",
    show: t.step_seconds ? html`<span class="num">${seconds(t.step_seconds)}</span><span class="unit"> a step</span>` : html`<span class="num none">–</span>`,
    sub: t.connected ? (t.step_seconds ? `waits ${percent(t.recent?.wait ?? t.wait_fraction)}` : "connected") : s.end ? "gone" : "not connected" };
}

// river is the outline of the channel through the stations, symmetric about its middle.
function river(heights) {
  const mid = (high + 4) / 2, x = (i) => i * 100 + 50, end = heights.length * 100;
  const side = (sign, points) => points.map(([at, h], i) => {
    const y = (mid + (sign * h) / 2).toFixed(1);
    if (i === 0) return `${at} ${y}`;
    const before = points[i - 1], half = (before[0] + at) / 2;
    return `C${half} ${(mid + (sign * before[1]) / 2).toFixed(1)} ${half} ${y} ${at} ${y}`;
  }).join("");
  const points = [[0, heights[0]], ...heights.map((h, i) => [x(i), h]), [end, heights.at(-1)]];
  return `M${side(-1, points)}L${side(1, [...points].reverse())}Z`;
}

const versionText = (v) => (v === undefined || v === null || v < 0 ? "–" : figures(v));
const span = (versions) => { const lo = Math.min(...versions), hi = Math.max(...versions); return lo === hi ? int(lo) : `${int(lo)} to ${int(hi)}`; };

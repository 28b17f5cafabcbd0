// What became of groups and trajectories; how old both are.
import { html } from "../../lib/preact.js";
import { Link, to } from "../../lib/router.js";
import { Section, Num, int, seconds, percent, words, part } from "../../lib/ui.js";
import { Histogram } from "../../lib/chart.js";

// What each verdict on a group means, and the colour it has everywhere.
const verdicts = {
  open: ["--c6", "Not decided yet"], kept: ["--c2", "Whole, into a batch"], partial: ["--c7", "Into a batch with fewer members than it asked for"],
  zero_variance: ["--c3", "All rewards equal: nothing to learn"], stale: ["--c5", "Older than the staleness bound when its batch was cut"],
  expired: ["--c8", "Its deadline passed below the minimum"], too_few: ["--c8", "Too many slots failed for good"], cancelled: ["--c6", "The run ended first"],
};
const statuses = ["failed", "aborted", "overlong"];
const leftOver = ["late", "duplicate", "surplus", "unused"]; // of groups that closed without them

/** Verdicts of groups, and fates of trajectories; each leads to the groups it counts. */
export function Outcomes({ run, s }) {
  const g = s.groups ?? {}, t = s.trajectories ?? {};
  const groups = Object.entries({ open: g.open ?? 0, ...g.outcomes }).filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  const closed = Object.values(g.outcomes ?? {}).reduce((a, b) => a + b, 0);
  return html`<div class="quarter"><${Section} title="Groups by verdict" aside=${`${int(g.issued)} opened`}>
    <${Counts} caption="Groups by verdict" total=${closed + (g.open ?? 0)} rows=${groups.map(([o, n]) => ({ name: words(o), n, colour: verdicts[o]?.[0] ?? "--c6", title: verdicts[o]?.[1], link: to("r", run, "groups", { outcome: o }) }))} />
    <p class="facts"><span>retried slots <${Num} value=${g.retries} as=${int} title="Slots handed out again because their trajectory came to nothing" /></span></p></${Section}></div>
  <div class="quarter"><${Section} title="Trajectories by fate" aside=${`${int(t.produced)} produced`}>
    <${Counts} caption="Trajectories by fate" total=${t.produced} rows=${[
      { name: "trained on", n: t.trained, colour: "--c2", title: "Members of batches", link: to("r", run, "groups", { outcome: "kept" }) },
      { name: "open", n: t.open, colour: "--c6", title: "Arrived, not decided yet", link: to("r", run, "groups", { outcome: "open" }) },
      ...Object.entries(t.dropped ?? {}).sort((a, b) => b[1] - a[1]).map(([why, n]) => ({ name: words(why), n, colour: verdicts[why]?.[0] ?? "--c8", title: `Not trained on: ${words(why)}`, link: reasonLink(run, why) })),
    ]} />
    <p class="facts"><span>evaluation, not used <${Num} value=${t.evaluation_unused} as=${int} title="Trajectories of evaluations that no score needed" /></span></p>
  </${Section}></div>`;
}

// reasonLink finds the groups behind a reason, or the dead letters.
function reasonLink(run, why) {
  if (why in verdicts) return to("r", run, "groups", { outcome: why });
  if (statuses.includes(why)) return to("r", run, "groups", { status: why });
  if (leftOver.includes(why)) return to("r", run, "groups", { unused: "yes" });
  return why === "rejected" ? to("r", run, "letters") : null;
}

function Counts({ caption, rows, total }) {
  const top = Math.max(...rows.map((r) => r.n ?? 0), 1);
  if (!rows.some((r) => r.n > 0)) return html`<p class="hollow">None yet.</p>`;
  return html`<table class="plain counts"><caption class="sr">${caption}</caption><tbody>${rows.map((r) => html`<tr key=${r.name} title=${r.title}>
    <th scope="row">${r.link ? html`<${Link} to=${r.link}>${r.name}</${Link}>` : r.name}</th>
    <td class="fill" aria-hidden="true"><span style=${`width:${(100 * (r.n ?? 0)) / top}%;background:var(${r.colour})`}></span></td>
    <td class="right"><${Num} value=${r.n} as=${int} title=${total ? part(r.n, total) : ""} /></td>
    <td class="right muted">${total ? percent((r.n ?? 0) / total) : ""}</td></tr>`)}</tbody></table>`;
}

/** How many steps the members of the last batches were behind. */
export function Staleness({ s }) {
  const { versions = [], trajectories = [] } = s.staleness ?? {}, max = s.staleness_max_allowed;
  const bins = versions.map((v, i) => ({ label: i === versions.length - 1 && i > 0 ? `${v}+` : String(v), value: trajectories[i] ?? 0, mark: max > 0 && v > max, title: `${int(trajectories[i])} trajectories, ${v} steps behind` }));
  const all = trajectories.reduce((a, b) => a + b, 0);
  const mean = all ? versions.reduce((sum, v, i) => sum + v * trajectories[i], 0) / all : null;
  return html`<div class="quarter"><${Section} title="Staleness" aside=${max > 0 ? `at most ${max} steps` : "no bound set"} note="Trajectories of the last 50 batches, by how many steps their oldest token was behind.">
    <${Histogram} title="Trajectories by staleness in steps" bins=${trim(bins)} as=${int} colour="--c4" empty="No batch was cut yet." />
    ${mean !== null && html`<p class="facts"><span>mean <${Num} value=${mean} as=${(v) => v.toFixed(2)} unit="steps" /></span></p>`}</${Section}></div>`;
}

// trim leaves out the empty classes behind the last that has something.
function trim(bins) {
  const last = bins.findLastIndex((b) => b.value > 0);
  return bins.slice(0, Math.max(last + 2, 4));
}

/** How long groups were open, of those that closed lately. */
export function Ages({ s }) {
  const { edges = [], counts = [] } = s.groups?.ages ?? {};
  const bins = counts.map((value, i) => {
    const from = i === 0 ? 0 : edges[i - 1], to_ = edges[i];
    return { label: to_ === undefined ? `>${tick(from)}` : tick(to_), value, title: `${int(value)} groups, ${to_ === undefined ? `more than ${seconds(from)}` : `${seconds(from)} to ${seconds(to_)}`}` };
  });
  const lo = Math.max(0, bins.findIndex((b) => b.value > 0)), hi = bins.findLastIndex((b) => b.value > 0);
  return html`<div class="quarter"><${Section} title="Group ages" aside=${s.groups?.oldest_seconds ? `oldest open: ${seconds(s.groups.oldest_seconds)}` : null} note="Groups that closed in the last ten minutes, by the time from opened to closed; each class up to the time below it.">
    <${Histogram} title="Groups by time from opened to closed" bins=${bins.slice(lo, hi + 1)} as=${int} colour="--c1" empty="No group has closed lately." /></${Section}></div>`;
}

// tick is a duration as short as an axis needs it: 0.5s, 30s, 5m.
const tick = (v) => (v < 60 ? `${v}s` : v < 3600 ? `${Math.round(v / 6) / 10}m` : `${Math.round(v / 360) / 10}h`);

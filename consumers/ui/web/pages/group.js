/** One group: its trajectories side by side, and why it was kept or dropped. */
import { html, useState } from "../lib/preact.js";
import { api, useGet } from "../lib/api.js";
import { Link, to, useRoute } from "../lib/router.js";
import { ErrorBox, Fold, Loading, Page, Section, Time, int, seconds } from "../lib/ui.js";
import { Member } from "./parts/member.js";
import { Outcome, meanStd, reward, span } from "./parts/names.js";
import { RewardStrip } from "./parts/strip.js";
import { Traits } from "./parts/traits.js";

/** The page at /r/RUN/g/GROUP. */
export default function Group() {
  const { parts } = useRoute();
  const [, run, , name] = parts;
  const [open, setOpen] = useState(false);
  const { data: g, error, loading, reload } = useGet(api("runs", run, "groups", name), { every: open ? 3 : 0 });
  const now = g?.group === name && unsettled(g);
  if (now !== open) setOpen(now);
  if (error && g?.group !== name) return html`<${Page} title=${`Group ${name}`}><${ErrorBox} error=${error} retry=${reload} /><//>`;
  if (g?.group !== name) return html`<${Page} title=${`Group ${name}`}>${loading && html`<${Loading}>Reading the group and its trajectories…<//>`}<//>`;
  return html`<${Page} title=${`Group ${name}`} lead=${html`<${Outcome} outcome=${g.outcome} /> <bdi>${g.environment}</bdi>`}>
    <p class="verdict">${g.verdict?.text ?? "No verdict yet."}</p>
    <${Facts} group=${g} run=${run} />
    <${Task} task=${g.task} />
    ${g.left_out && html`<p class="muted">${g.left_out}</p>`}
    <${Members} key=${name} run=${run} title=${g.outcome === "open" ? "Trajectories so far" : "Trajectories"} members=${g.members ?? []} unused=${Array.isArray(g.unused) ? g.unused : []} />
  <//>`;
}

/** Whether more is to come of it: trajectories, a verdict, or its batch. */
function unsettled(g) {
  if (g.outcome === "open") return true;
  return (g.outcome === "kept" || g.outcome === "partial") && !g.step && Date.now() / 1000 - g.closed < 600;
}

function Facts({ group: g, run }) {
  return html`<${Traits} of=${[
    ["step", g.step ? html`<${Link} to=${to("r", run, "groups", { step: `${g.step}..${g.step}` })} title="the groups of this step">${int(g.step)}<//>` : "", "in no batch"],
    ["rewards", html`<${RewardStrip} rewards=${g.rewards} open=${g.outcome === "open"} />`],
    ["mean ± std", meanStd(g), "no reward yet"],
    ["arrived", `${int(g.arrived)} of ${int(g.size)}`],
    ["versions", span(g.min_version, g.max_version), "nothing was sampled"],
    ["staleness", g.staleness === null || g.staleness === undefined ? "" : int(g.staleness), "known once it is in a batch"],
    ["opened", html`<${Time} at=${g.opened} />`],
    ["took", g.closed ? seconds(g.closed - g.opened) : "", "still open"],
    ["ledger entry", g.verdict?.ledger_seq ? int(g.verdict.ledger_seq) : "", "none yet"],
  ]} />`;
}

function Task({ task }) {
  if (task === null || task === undefined) return html`<p class="muted">Its task is its seed alone, or not known.</p>`;
  const text = typeof task === "string" ? task : JSON.stringify(task, null, 2);
  return html`<${Fold} summary="Task" open=${text.length < 600}><pre class="raw" dir="auto" tabindex="0">${text}</pre><//>`;
}

function Members({ run, members, unused, title }) {
  const [picked, setPicked] = useState([]);
  const all = [...members, ...unused];
  const [chosen, setChosen] = useState(all[0]?.id);
  const pick = (id) => setPicked((old) => (old.includes(id) ? old.filter((p) => p !== id) : [...old, id].slice(0, 2)));
  const column = (m) => html`<${Member} key=${m.id} run=${run} member=${m} chosen=${(chosen ?? all[0].id) === m.id} picked=${picked.includes(m.id)} full=${picked.length >= 2} onPick=${() => pick(m.id)} />`;
  if (!all.length) return html`<p class="muted">No trajectory has arrived yet.</p>`;
  return html`
    <nav class="switcher" aria-label="Which trajectory to show: slot and reward">${all.map((m) => html`<button type="button" key=${m.id} aria-pressed=${(chosen ?? all[0].id) === m.id} onClick=${() => setChosen(m.id)}><span class="sr">slot </span>${m.slot}${m.attempt ? "." + m.attempt : ""}<span class="sr">, reward</span> <small class="muted">${reward(m)}</small></button>`)}</nav>
    <${Side} title=${`${title}, best reward first`} list=${members} column=${column} />
    ${unused.length > 0 && html`<${Side} title="Arrived, and no member of the group" list=${unused} column=${column} />`}
    ${picked.length > 0 && html`<div class="compare" role="status">${picked.length === 2
      ? html`<${Link} class="button" to=${to("r", run, "diff", ...picked[0].split("/"), ...picked[1].split("/"))}>Compare ${picked[0]} and ${picked[1]}<//>`
      : html`<span>Choose a second trajectory to compare with ${picked[0]}.</span>`}
      <button type="button" onClick=${() => setPicked([])}>Clear</button></div>`}`;
}

function Side({ title, list, column }) {
  if (!list.length) return null;
  return html`<${Section} title=${title} wide><div class="members" role="region" tabindex="0" aria-label=${`${title}, side by side`}>${list.map(column)}</div><//>`;
}

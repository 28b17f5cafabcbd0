// Where the trainer's seconds go: now, and since the run began.
import { html } from "../../lib/preact.js";
import { Section, Bar, Num, int, short, seconds, percent } from "../../lib/ui.js";

// What a trainer does, in the order it does it, and what each word means.
const does = [
  ["wait", "waits", "--c3", "Waits for a batch: what comes before the trainer is slower than it"],
  ["prepare", "prepares", "--c6", "Makes arrays of a batch"],
  ["train", "trains", "--c1", "Computes gradients and steps"],
  ["compile", "compiles", "--c5", "Compiles for a shape it has not seen"],
  ["publish", "publishes", "--c2", "Writes and announces weights"],
  ["checkpoint", "checkpoints", "--c4", "Writes a checkpoint"],
  ["start", "starts", "--c8", "From the process's start to the first batch"],
];

/** The trainer's time as stacked bars. */
export function TrainerTime({ s }) {
  const t = s.trainer ?? {};
  const parts = (times) => does.map(([key, label, colour, title]) => ({ label, colour, title, value: times?.[key] ?? null }));
  const total = does.reduce((sum, [key]) => sum + (t.seconds?.[key] ?? 0), 0);
  const since = parts(t.seconds).map((p) => ({ ...p, value: p.value === null || total === 0 ? null : p.value / total }));
  const lately = t.recent_seconds > 61 ? `last ${seconds(t.recent_seconds)}` : "last minute"; // longer where steps are
  return html`<div class="third"><${Section} title="Where the trainer's seconds go" aside=${t.connected ? `${int(t.connected)} connected` : "none connected"}>
    <h3>${s.end ? `Its ${lately}` : `L${lately.slice(1)}`}</h3><${Bar} label=${`The trainer's ${lately}`} parts=${parts(t.recent)} legend=${false} total=${1} />
    <h3>Since the start <span class="unit">${total ? seconds(total) : ""}</span></h3><${Bar} label="The trainer's time since the run's start" parts=${since} legend=${false} total=${1} />
    <table class="plain times"><caption class="sr">The trainer's time by what it did</caption>
      <thead><tr><th scope="col">the trainer</th><th scope="col" class="right">${lately}</th><th scope="col" class="right">since start</th><th scope="col" class="right">time</th></tr></thead>
      <tbody>${does.map(([key, label, colour, title]) => html`<tr key=${key} title=${title}><th scope="row"><i class="dot" style=${`background:var(${colour})`}></i>${label}</th>
        <td class="right"><${Num} value=${t.recent?.[key]} as=${percent} why="no trainer has said" /></td>
        <td class="right"><${Num} value=${total && t.seconds?.[key] !== null && t.seconds?.[key] !== undefined ? t.seconds[key] / total : null} as=${percent} why="no trainer has said" /></td>
        <td class="right"><${Num} value=${t.seconds?.[key]} as=${seconds} why="no trainer has said" /></td></tr>`)}</tbody></table>
    <p class="facts"><span>median step <${Num} value=${t.step_seconds} as=${seconds} title="Median of the last 20 steps" why="no step yet" /></span>
      <span>trains on <${Num} value=${t.tokens_per_second} as=${short} unit="tokens/s" title="Tokens of batches per second of the trainer" why="no step yet" /></span>
      <span>compiled <${Num} value=${t.compiles} as=${int} unit="×" title="Programs compiled since the start" /></span>
      <span>resumed <${Num} value=${t.resumes} as=${int} unit="×" title="Starts of a trainer after the first" /></span>
      <span>checkpoint covers step <${Num} value=${t.checkpoint > 0 ? t.checkpoint : null} as=${int} title="The last step that a checkpoint covers" why="no checkpoint yet" /></span></p>
  </${Section}></div>`;
}

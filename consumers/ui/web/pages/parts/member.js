/** One trajectory of a group, as a column to read beside the others. */
import { html } from "../../lib/preact.js";
import { Link } from "../../lib/router.js";
import { Fold, int, seconds } from "../../lib/ui.js";
import { answer } from "./blocks.js";
import { Conversation } from "./conversation.js";
import { Status, points, reward, sentence, span, trajectoryAddress } from "./names.js";
import { Traits } from "./traits.js";

/** Conversations longer than this are folded until one opens them. */
const MANY = 40;

/**
 * @param {{run: string, member: object, chosen: boolean, picked: boolean, onPick: function, full: boolean}} props
 *   member of the group's JSON; chosen: shown on a phone; picked: to be compared; full: there is room for nothing else
 */
export function Member({ run, member: m, chosen, picked, onPick, full }) {
  const said = answer(m.messages) || m.final;
  return html`<article class=${"column" + (chosen ? " chosen" : "")} aria-label=${`trajectory ${m.id}`} id=${"m-" + m.id}>
    <h3><${Link} to=${trajectoryAddress(run, m.id)}><bdi>${m.id}</bdi><//> <${Status} status=${m.status} reason=${m.reason} /></h3>
    <div><span class="reward" title=${m.used ? "reward" : "a trajectory that failed has no reward"}>${reward(m)}</span> <span class="muted">reward</span>${
      m.advantage === null || m.advantage === undefined ? "" : html` · <b title="what its tokens count for in the loss">${points(m.advantage, true)}</b> <span class="muted">advantage</span>`}</div>
    <p class="why">${m.used ? (m.masked ? "In the batch for its reward alone: its tokens are masked." : "Used.") : sentence(m.why) || "Not used."}${m.reason ? html` <span class="muted">(<bdi>${m.reason}</bdi>)</span>` : ""}</p>
    <label class="pick"><input type="checkbox" checked=${picked} disabled=${full && !picked} onChange=${onPick} /> compare</label>
    <${Seconds} member=${m} />
    <${Traits} of=${[
      ...Object.entries(m.components ?? {}).map(([name, v]) => [name, points(v)]),
      ["turns", int(m.turns)],
      ["tokens", `${int(m.tokens)}, ${int(m.sampled_tokens)} sampled`],
      ["versions", span(m.min_version, m.max_version), "nothing was sampled"],
      ["engine", m.engine && html`<bdi>${m.engine}</bdi>`, "none answered"],
    ]} />
    <div class="final"><h4>Final answer</h4>${said ? html`<div class="text" dir="auto">${said.length > 400 ? said.slice(0, 400) + "…" : said}</div>` : html`<p class="muted">– (it said nothing)</p>`}</div>
    ${m.error && html`<p class="why">Only what the index knows is here: ${m.error}.</p>`}
    <${Fold} summary=${`Conversation, ${int(m.messages?.length)} messages`} open=${(m.messages?.length ?? 0) <= MANY}>
      ${() => html`<${Conversation} messages=${m.messages} label=${`Conversation of ${m.id}`} />`}<//>
  </article>`;
}

function Seconds({ member: m }) {
  const total = Math.max(m.seconds || 0, (m.generate_seconds || 0) + (m.env_seconds || 0));
  const words = `${seconds(m.seconds)}: generating ${seconds(m.generate_seconds)}, environment ${seconds(m.env_seconds)}`;
  const share = (v) => `width:${total > 0 ? (100 * (v || 0)) / total : 0}%`;
  return html`<div class="split" role="img" aria-label=${words} title=${words}>
    <span class="turn-generate" style=${share(m.generate_seconds)}></span><span class="turn-environment" style=${share(m.env_seconds)}></span></div>
    <small class="muted">${words}</small>`;
}

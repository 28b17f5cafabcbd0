/** Where the seconds of an episode went, turn by turn. */
import { html, useState } from "../../lib/preact.js";
import { seconds } from "../../lib/format.js";

const parts = [["queued", "queued"], ["generate", "generating"], ["environment", "environment"]];
const MOST = 200;

/**
 * One row a turn: its bar begins where the turn before ended.
 * @param {{turns: object[], spent: {queued:number, generate:number, environment:number}[]}} props of the trajectory's JSON
 */
export function Timeline({ turns, spent }) {
  const [at, setAt] = useState(-1);
  const [all, setAll] = useState(false);
  if (!turns?.length) return html`<p class="muted">No turn was played.</p>`;
  const rows = layout(turns, spent ?? []);
  const total = rows.at(-1).end || 1;
  const shown = all ? rows : rows.slice(0, MOST);
  return html`<ul class="hues" aria-label="What the colours mean">
      ${parts.map(([key, name]) => html`<li><span class=${"swatch turn-" + key} aria-hidden="true"></span>${name} ${seconds(rows.reduce((n, r) => n + r[key], 0))}</li>`)}
    </ul>
    <ol class="timeline" aria-label="Turns">
      ${shown.map((r, i) => html`<li>
        <button type="button" aria-expanded=${at === i} onFocus=${() => setAt(i)} onPointerEnter=${() => setAt(i)} onClick=${() => setAt(i)}>
          <span><span class="sr">Turn </span>${i + 1}</span>
          <svg width="100%" height="16" aria-hidden="true">${bars(r, total)}</svg>
          <span class="num">${seconds(r.end - r.start)}</span>
        </button>
      </li>`)}
    </ol>
    ${shown.length < rows.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${rows.length} turns</button>`}
    <output class="turn-detail">${at < 0 ? "Point at a turn or walk with Tab for its numbers." : sentence(rows[at], at)}</output>`;
}

function layout(turns, spent) {
  let now = 0;
  return turns.map((turn, i) => {
    const s = spent[i] ?? {};
    const row = { turn, start: now };
    for (const [key] of parts) {
      row[key + "At"] = now;
      row[key] = Math.max(0, s[key] ?? 0);
      now += row[key];
    }
    row.end = now;
    return row;
  });
}

function bars(row, total) {
  return parts.filter(([key]) => row[key] > 0).map(([key]) =>
    html`<rect class=${"turn-" + key} x=${(100 * row[key + "At"]) / total + "%"} width=${Math.max(0.2, (100 * row[key]) / total) + "%"} y="1" height="14" />`);
}

function sentence(row, i) {
  const t = row.turn, prompt = t.prompt[1] - t.prompt[0], sampled = t.completion[1] - t.completion[0];
  const times = parts.map(([key, name]) => `${name} ${seconds(row[key])}`).join(", ");
  return `Turn ${i + 1}: ${times}; ${prompt} tokens came in, ${sampled} sampled, ${t.cached} from the prefix cache; ` +
    `ended by ${t.finish || "nothing said"}${t.reward ? `; reward ${+t.reward.toFixed(4)}` : ""}; segment ${t.segment}.`;
}

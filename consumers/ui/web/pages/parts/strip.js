/** The rewards of a group as one small bar a slot. */
import { html } from "../../lib/preact.js";

const BAR = 7, GAP = 2, HIGH = 24, MOST = 64;

/**
 * @param {{rewards:(number|null)[], open?:boolean}} props null: nothing came of the slot, or not yet
 */
export function RewardStrip({ rewards, open }) {
  const shown = (rewards ?? []).slice(0, MOST);
  const known = shown.filter((r) => r !== null);
  const low = Math.min(0, ...known), high = Math.max(0, ...known), range = high - low || 1;
  const y = (r) => 1 + (HIGH - 2) * (1 - (r - low) / range);
  const words = shown.map((r) => (r === null ? "–" : +r.toFixed(3))).join(", ");
  return html`<svg class="strip" width=${shown.length * (BAR + GAP)} height=${HIGH} role="img" aria-label=${`rewards by slot: ${words}`}>
    <title>${`rewards by slot: ${words}`}</title>
    <line class="zero" x1="0" x2="100%" y1=${y(0)} y2=${y(0)} />
    ${shown.map((r, i) => slot(r, i * (BAR + GAP), y, open))}
  </svg>`;
}

function slot(r, x, y, open) {
  if (r !== null) {
    const top = Math.min(y(r), y(0)), tall = Math.max(1.5, Math.abs(y(r) - y(0)));
    return html`<rect class=${r < 0 ? "negative" : ""} x=${x} y=${Math.min(top, HIGH - 2)} width=${BAR} height=${tall} />`;
  }
  if (open) return html`<circle class="awaited" cx=${x + BAR / 2} cy=${y(0) - 3} r="1.5" />`;
  return html`<path class="failed" d=${`M${x + 1} ${y(0) - 8}l5 5m0 -5l-5 5`} />`;
}

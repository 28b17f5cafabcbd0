// A stacked bar with its legend: shares of one whole, each with a word, a number and a colour.
import { html } from "./preact.js";
import { percent } from "./format.js";

/**
 * @param {{label: string, parts: {label: string, value: ?number, colour: string, title?: string}[], total?: number,
 *   as?: function, legend?: boolean, small?: boolean}} props
 *   total: what the whole width stands for (their sum unless told); as: how a part's value is written
 */
export function Bar({ label, parts, total, as = percent, legend = true, small = false }) {
  const known = parts.filter((p) => p.value > 0);
  const whole = total ?? known.reduce((sum, p) => sum + p.value, 0);
  const text = known.map((p) => `${p.label} ${as(p.value)}`).join(", ") || "nothing yet";
  return html`<div class=${"bar" + (small ? " small" : "")}>
    <div class="track" role="img" aria-label=${`${label}: ${text}`} title=${small ? `${label}: ${text}` : undefined}>
      ${whole > 0 && known.map((p) => html`<span key=${p.label} title=${`${p.label}: ${as(p.value)}${p.title ? ` (${p.title})` : ""}`}
        style=${`width:${(100 * p.value) / whole}%;background:var(${p.colour})`}></span>`)}</div>
    ${legend && html`<ul class="legend">${parts.map((p) => html`<li key=${p.label} title=${p.title}>
      <i style=${`background:var(${p.colour})`}></i>${p.label} <b class="num">${as(p.value)}</b></li>`)}</ul>`}
  </div>`;
}

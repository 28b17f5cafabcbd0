/** Facts as a list of names and values, where "–" always says why. */
import { html } from "../../lib/preact.js";
import { none } from "../../lib/ui.js";

/**
 * @param {{of: [string, any, string?][]}} props name, value, and why there is none
 */
export function Traits({ of }) {
  return html`<dl class="traits">${of.map(([name, value, why]) => html`<div key=${name}>
    <dt>${name}</dt><dd>${missing(value) ? html`<span title=${why}>${none}</span> ${why && html`<small class="muted">${why}</small>`}` : value}</dd></div>`)}</dl>`;
}

const missing = (v) => v === null || v === undefined || v === "" || v === none;

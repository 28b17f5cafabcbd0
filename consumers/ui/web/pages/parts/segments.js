/** Which segment forked from which, and after how many tokens. */
import { html } from "../../lib/preact.js";

/**
 * A small tree: each bar is a segment, as long as its tokens; what it shares
 * with its parent is dim.
 * @param {{segments: {tokens:number[], parent:number, shared:number}[]}} props
 */
export function SegmentTree({ segments }) {
  if (segments.length < 2) return null;
  const longest = Math.max(1, ...segments.map((s) => s.tokens.length));
  const depth = depths(segments);
  const share = (n) => (100 * n) / longest + "%";
  return html`<ul class="forks" aria-label="Segments and where they fork">
    ${segments.map((s, i) => html`<li style=${`padding-inline-start:${Math.min(depth[i], 6)}rem`}>
      <a href=${"#segment-" + i} onClick=${(e) => jump(e, i)}>segment ${i}</a>
      <svg width="100%" height="12" role="img" aria-label=${words(s, i)}>
        <title>${words(s, i)}</title>
        <rect class="whole" width=${share(s.tokens.length)} height="12" />
        ${s.parent >= 0 && html`<rect class="dim" width=${share(s.shared)} height="12" />
          <rect class="fork" x=${share(s.shared)} width="2" height="12" />`}
      </svg>
      <small class="muted">${s.parent < 0 ? `${s.tokens.length} tokens` : `${s.shared} shared with segment ${s.parent}, then ${s.tokens.length - s.shared} of its own`}</small>
    </li>`)}
  </ul>`;
}

function words(s, i) {
  return s.parent < 0 ? `segment ${i}: ${s.tokens.length} tokens` : `segment ${i}: forks from segment ${s.parent} after ${s.shared} of ${s.tokens.length} tokens`;
}

/** How many forks lead to each segment; a parent that is no earlier segment counts as none. */
function depths(segments) {
  const out = [];
  segments.forEach((s, i) => out.push(s.parent >= 0 && s.parent < i ? out[s.parent] + 1 : 0));
  return out;
}

function jump(e, i) {
  e.preventDefault(); // a bare #… would leave the page: the base address is another
  const heading = document.getElementById("segment-" + i);
  heading?.scrollIntoView({ block: "start" });
  heading?.parentElement.querySelector(".token-text")?.focus({ preventScroll: true });
}

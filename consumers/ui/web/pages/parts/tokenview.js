/** The token view: every segment's tokens, coloured by what one asks about them. */
import { html, useLayoutEffect, useMemo, useRef, useState } from "../../lib/preact.js";
import { classes, columns, versionsOf } from "./columns.js";
import { CHUNK, TokenText, visible } from "./tokentext.js";

const modes = [["loss", "loss mask"], ["logprob", "log-probability"], ["version", "policy version"]];

/**
 * All segments of a trajectory, with one switch for their colours.
 * @param {{segments: object[], text?: {segment:number, pieces:string[]}[]}} props of the trajectory's JSON
 */
export function TokenView({ segments, text }) {
  const [mode, setMode] = useState("loss");
  const all = useMemo(() => segments.map((s, i) => columns(s, text?.find((t) => t.segment === i)?.pieces)), [segments, text]);
  const versions = useMemo(() => [...new Set(all.flatMap(versionsOf))].sort((a, b) => a - b), [all]);
  if (!all.length) return html`<p class="muted">Nothing was sampled: the episode ended before the engine answered.</p>`;
  return html`
    <fieldset class="switch"><legend>Colour tokens by</legend>
      ${modes.map(([key, name]) => html`<label><input type="radio" name="token-mode" value=${key} checked=${mode === key} onChange=${() => setMode(key)} /> ${name}</label>`)}
    </fieldset>
    <${Legend} mode=${mode} versions=${versions} />
    ${all.every((c) => !c.pieces) && html`<p class="muted">The vocabulary is not at hand, so ids stand where text would.</p>`}
    ${all.map((c, i) => html`<${SegmentText} key=${i} index=${i} columns=${c} segment=${segments[i]} mode=${mode} versions=${versions} />`)}`;
}

function Legend({ mode, versions }) {
  const entries = mode === "loss" ? [["in", "in the loss"], ["out", "sampled, not in the loss"]]
    : mode === "version" ? versions.map((v, i) => ["v" + (i % 8), "version " + v])
    : classes.map(([, name], i) => ["p" + i, name]);
  return html`<ul class="hues" aria-label="What the colours mean">
    ${entries.map(([look, name]) => html`<li><span class=${"swatch " + look} aria-hidden="true"></span>${name}</li>`)}
    <li><span class="swatch" aria-hidden="true"></span>prompt or environment</li>
  </ul>`;
}

function SegmentText({ index, columns: c, segment, mode, versions }) {
  const root = useRef(null), view = useRef(null);
  const [at, setAt] = useState(-1);
  useLayoutEffect(() => {
    view.current = new TokenText(root.current, c);
    return () => view.current.close();
  }, [c]);
  useLayoutEffect(() => view.current.paint(mode, versions), [c, mode, versions]);
  const go = (i, scroll) => {
    view.current.mark(i, scroll);
    setAt(i);
  };
  const point = (e) => e.target.dataset?.i !== undefined && go(Number(e.target.dataset.i), false);
  const key = (e) => {
    const next = step(e.key, at, c.length);
    if (next === null) return;
    e.preventDefault();
    go(next, true);
  };
  const sampled = useMemo(() => c.version.reduce((n, v) => n + (v >= 0), 0), [c]);
  const id = `segment-${index}`;
  return html`<section class="segment" aria-labelledby=${id}>
    <h3 id=${id}>Segment ${index} <small class="muted">${c.length.toLocaleString("en")} tokens, ${sampled.toLocaleString("en")} sampled${
      segment.parent >= 0 ? `; forks from segment ${segment.parent} after ${c.shared.toLocaleString("en")}` : ""}</small></h3>
    <div class="token-text" ref=${root} tabindex="0" role="group" aria-label=${`Tokens of segment ${index}: arrow keys go from token to token`}
      onPointerOver=${point} onClick=${point} onKeyDown=${key} onFocus=${() => at < 0 && c.length && go(0, false)}></div>
    <output class="token-detail">${at < 0 ? "Point at a token, tap it, or walk with the arrow keys." : html`<${Detail} c=${c} i=${at} />`}</output>
  </section>`;
}

function step(key, at, length) {
  const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 16, ArrowUp: -16, PageDown: CHUNK, PageUp: -CHUNK, Home: -length, End: length };
  if (!(key in moves) || !length) return null;
  return Math.max(0, Math.min(length - 1, at + moves[key]));
}

function Detail({ c, i }) {
  const sampled = c.version[i] >= 0, lp = c.logprob[i];
  const facts = [
    ["position", i], ["id", c.ids[i]],
    ["text", c.pieces ? html`<bdi>${JSON.stringify(visible(c.pieces[i], c.ids[i]).replace(/⏎\n/g, "\n").replace(/⇥\t/g, "\t"))}</bdi>` : "– (no vocabulary)"],
    ["logprob", sampled ? (Number.isNaN(lp) ? "– (not a number)" : `${(lp || 0).toFixed(4).replace(/^-(0\.0+)$/, "$1")} (p ${Math.exp(lp).toPrecision(3)})`) : "– (not sampled)"],
    ["version", sampled ? c.version[i] : "– (not sampled)"],
    ["loss", c.loss[i] ? "counts" : "does not count"],
  ];
  return facts.map(([name, value]) => html`<span><b>${name}</b> ${value}</span>`);
}

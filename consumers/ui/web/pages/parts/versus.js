/** The facts of two trajectories side by side, and where their tokens part. */
import { html } from "../../lib/preact.js";
import { int, none, seconds } from "../../lib/ui.js";
import { firstDifference } from "./columns.js";
import { points, reward, span } from "./names.js";
import { visible } from "./tokentext.js";

/**
 * @param {{a: object, b: object, names: any[]}} props two trajectories of the JSON, and links to them
 */
export function Facts({ a, b, names }) {
  const parts = [...new Set([...Object.keys(a.components ?? {}), ...Object.keys(b.components ?? {})])].sort();
  const rows = [
    ["reward", reward],
    ...parts.map((p) => [p, (t) => points(t.components?.[p])]),
    ["advantage", (t) => points(t.advantage, true)],
    ["status", (t) => t.status + (t.reason ? `: ${t.reason}` : "")],
    ["used", (t) => (t.used ? (t.step ? `in step ${t.step}` : "yes") : t.why || "no")],
    ["environment", (t) => t.environment], ["task", (t) => (t.task === undefined ? none : JSON.stringify(t.task))],
    ["seed", (t) => String(t.seed)],
    ["turns", (t) => int(t.turns?.length ?? 0)], ["segments", (t) => int(t.segments?.length ?? 0)],
    ["tokens", (t) => int(total(t))], ["versions", (t) => versions(t)],
    ["generating", (t) => seconds(sum(t.turn_seconds, "generate"))], ["environment's time", (t) => seconds(sum(t.turn_seconds, "environment"))],
    ["producer", (t) => t.producer || none], ["engine", (t) => t.engine || none],
  ];
  return html`<table class="traits-table"><caption class="sr">Facts of both</caption>
    <thead><tr><th scope="col"><span class="sr">fact</span></th>${names.map((n) => html`<th scope="col">${n}</th>`)}</tr></thead>
    <tbody>${rows.map(([name, of]) => {
      const x = of(a), y = of(b);
      return html`<tr key=${name} class=${x === y ? "" : "differs"}><th scope="row">${name}${x === y ? "" : html`<span class="sr"> (differs)</span>`}</th><td><bdi>${x}</bdi></td><td><bdi>${y}</bdi></td></tr>`;
    })}</tbody></table>`;
}

const total = (t) => (t.segments ?? []).reduce((n, s) => n + s.tokens.length, 0);
const sum = (list, key) => (list ?? []).reduce((n, s) => n + (s[key] ?? 0), 0);

function versions(t) {
  const all = (t.segments ?? []).flatMap((s) => s.versions ?? []).map((v) => v.version);
  return all.length ? span(Math.min(...all), Math.max(...all)) : none;
}

/** Where the token sequences part, segment by segment, with a few tokens of context. */
export function Tokens({ a, b, names }) {
  const n = Math.min(a.segments?.length ?? 0, b.segments?.length ?? 0);
  if (!n) return html`<p class="muted">One of them has no tokens.</p>`;
  return Array.from({ length: n }, (_, i) => html`<${Part} key=${i} index=${i} a=${a} b=${b} names=${names} />`);
}

function Part({ index, a, b, names }) {
  const x = a.segments[index].tokens, y = b.segments[index].tokens;
  const at = firstDifference(x, y);
  if (at < 0) return html`<p>Segment ${index}: all ${int(x.length)} tokens are the same.</p>`;
  return html`<p>Segment ${index}: the first ${int(at)} tokens are the same; <b>token ${int(at)} is the first that differs</b>.</p>
    <div class="versus">${[[a, x], [b, y]].map(([t, ids], k) => html`<div class="said"><div class="who"><bdi>${names[k]}</bdi></div>
      <div class="text code"><${Around} ids=${ids} pieces=${t.text?.find((p) => p.segment === index)?.pieces} at=${at} /></div></div>`)}</div>`;
}

function Around({ ids, pieces, at }) {
  const word = (i) => visible(pieces?.[i], ids[i]);
  const slice = (from, to) => ids.slice(from, to).map((_, k) => html`<bdi>${word(from + k)}</bdi>`);
  const from = Math.max(0, at - 12);
  if (at >= ids.length) return html`${from > 0 ? "…" : ""}${slice(from, at)}<span class="muted">‹end›</span>`;
  return html`${from > 0 ? "…" : ""}${slice(from, at)}<mark title=${`id ${ids[at]}`}><bdi>${word(at)}</bdi></mark>${slice(at + 1, at + 12)}${at + 12 < ids.length ? "…" : ""}`;
}

// The parts pages are made of. Each takes plain values; none fetches anything.
import { html, useState, useId, useEffect } from "./preact.js";
import { clock, utc, seconds, percent, none } from "./format.js";
export * as format from "./format.js";
export { int, fixed, figures, short, bytes, seconds, percent, clock, utc, words, plural, none } from "./format.js";
export { Bar } from "./bar.js";
export { Table } from "./table.js";

/** A page's frame: its heading, what stands beside it, and the document's title. */
export function Page({ title, lead, actions, children }) {
  useEffect(() => { document.title = `${title} · Headrace`; }, [title]);
  return html`
    <div class="page-head">
      <h1 tabindex="-1">${title}</h1>
      ${lead && html`<p class="lead">${lead}</p>`}
      ${actions && html`<div class="actions">${actions}</div>`}
    </div>
    ${children}`;
}

/** A part of a page with a heading (level 2 unless told otherwise), a note and what stands at its right. */
export function Section({ title, note, aside, level = 2, wide, children, id }) {
  const own = useId();
  return html`
    <section class=${"panel" + (wide ? " wide" : "")} aria-labelledby=${id ?? own}>
      <header>${level === 3 ? html`<h3 id=${id ?? own}>${title}</h3>` : html`<h2 id=${id ?? own}>${title}</h2>`}
        ${aside && html`<div class="aside">${aside}</div>`}</header>
      ${note && html`<p class="note">${note}</p>`}
      ${children}
    </section>`;
}

/**
 * One number with its unit and a title that explains it; null shows "–" and why.
 * @param {{value: ?number, as?: function, unit?: string, title?: string, why?: string}} props
 */
export function Num({ value, as = String, unit = "", title = "", why = "not known yet" }) {
  if (value === null || value === undefined || Number.isNaN(value)) {
    return html`<span class="num none" title=${title ? `${title}: ${why}` : why}>${none}<span class="sr"> ${why}</span></span>`;
  }
  return html`<span class="num" title=${title}>${as(value)}${unit && html`<span class="unit"> ${unit}</span>`}</span>`;
}

/** A labelled number in large type, for the top of a page; `sub` is the small line below. */
export function Stat({ label, sub, children, ...num }) {
  return html`<div class="stat"><dt>${label}</dt><dd>${children ?? html`<${Num} ...${num} />`}${sub && html`<small>${sub}</small>`}</dd></div>`;
}

/** A short word with a meaning: kind is good, bad, warn, accent or plain. */
export const Badge = ({ kind = "plain", title, children }) => html`<span class=${"badge " + kind} title=${title}>${children}</span>`;

/** What to say where nothing is, with what to do about it as children. */
export const Empty = ({ title = "Nothing here yet", children }) =>
  html`<div class="empty"><p><strong>${title}</strong></p>${children && html`<div>${children}</div>`}</div>`;

/** An error as a sentence, with a button to try again. */
export function ErrorBox({ error, retry }) {
  return html`<div class="error" role="alert"><p><${Ticks} text=${error?.message ?? error} /></p>
    ${retry && html`<button type="button" onClick=${retry}>Try again</button>`}</div>`;
}

/** A quiet word while something loads. */
export const Loading = ({ children = "Loading…" }) => html`<p class="loading" role="status">${children}</p>`;

/** A moment: the reader's clock (or "12 s ago" with `now`), the full UTC time in its title. */
export function Time({ at, now }) {
  if (!at) return html`<span class="num none" title="not yet">${none}</span>`;
  const text = now ? ago(now - at) : clock(at);
  return html`<time class="num" datetime=${utc(at)} title=${utc(at)}>${text}</time>`;
}

/** 12.3 → "12 s ago"; small and negative ages are "now". */
export const ago = (s) => (s === null || s === undefined ? none : s < 1.5 ? "now" : `${s < 60 ? `${Math.round(s)} s` : seconds(s)} ago`);

/** What can be opened; its children are made when it is. */
export function Fold({ summary, open = false, children, ...rest }) {
  const [shown, show] = useState(open);
  return html`<details open=${shown} onToggle=${(e) => show(e.currentTarget.open)} ...${rest}>
    <summary>${summary}</summary>${shown && html`<div class="folded">${typeof children === "function" ? children() : children}</div>`}</details>`;
}

/**
 * Tabs with arrow keys. The caller holds which is chosen.
 * @param {{label: string, tabs: {id: string, label: any}[], value: string, onChange: function, children: any}} props children: the chosen panel
 */
export function Tabs({ label, tabs, value, onChange, children }) {
  const own = useId();
  const move = (e) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step) return;
    const at = (tabs.findIndex((t) => t.id === value) + step + tabs.length) % tabs.length;
    onChange(tabs[at].id);
    e.currentTarget.children[at].focus();
    e.preventDefault();
  };
  return html`<div class="tabs">
    <div role="tablist" aria-label=${label} onKeyDown=${move}>${tabs.map((t) => html`
      <button type="button" role="tab" key=${t.id} id=${`${own}-${t.id}`} aria-selected=${t.id === value} aria-controls=${own + "-panel"}
        tabindex=${t.id === value ? 0 : -1} onClick=${() => onChange(t.id)}>${t.label}</button>`)}</div>
    <div role="tabpanel" id=${own + "-panel"} aria-labelledby=${`${own}-${value}`}>${children}</div></div>`;
}

/** A choice of a few, as buttons in a row: options [{id, label, title, name?: what a glyph is called}]. */
export function Choice({ label, options, value, onChange }) {
  return html`<div class="choice" role="group" aria-label=${label}>${options.map((o) => html`
    <button type="button" key=${o.id} aria-pressed=${o.id === value} title=${o.title} aria-label=${o.name} onClick=${() => onChange(o.id)}>${o.label}</button>`)}</div>`;
}

/** A button that copies a text and says so. */
export function Copy({ text, label = "Copy", title = "Copy to the clipboard" }) {
  const [said, say] = useState("");
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => say(""), 1500);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => put(text).then(() => say("Copied"), () => say("Not allowed"));
  return html`<button type="button" class="copy" title=${title} onClick=${copy}><span aria-live="polite">${said || label}</span></button>`;
}

async function put(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = Object.assign(document.createElement("textarea"), { value: text });
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy"); // the only way without https
  area.remove();
  if (!done) throw new Error("copy");
}

/** A command of the shell with its copy button. */
export const Command = ({ text }) => html`<div class="command"><code>${text}</code><${Copy} text=${text} title="Copy the command" /></div>`;

/** Sets what stands between back quotes as code: sentences of the program name commands and keys so. */
export const Ticks = ({ text }) => String(text ?? "").split("`").map((t, i) => (i % 2 ? html`<code>${t}</code>` : t));

/** A share as text for titles: part(3, 12) → "3 of 12 (25 %)". */
export const part = (n, of) => `${n} of ${of}${of ? ` (${percent(n / of)})` : ""}`;

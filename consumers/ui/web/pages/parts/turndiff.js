/** Two conversations, message by message, with the words that differ marked. */
import { html, useMemo, useState } from "../../lib/preact.js";
import { role, Text } from "./conversation.js";
import { wordDiff } from "./words.js";

const MOST = 60;

/** The first message that is not the same in both, -1 if there is none. */
export function firstMessage(a, b) {
  const n = Math.max(a.length, b.length);
  for (let i = 0; i < n; i++) if (!same(a[i], b[i])) return i;
  return -1;
}

const same = (x, y) => x && y && x.role === y.role && x.content === y.content && (x.name ?? "") === (y.name ?? "");

/**
 * @param {{a: object[], b: object[], names: [string, string]}} props messages of the two, and how they are called
 */
export function TurnDiff({ a, b, names }) {
  const [all, setAll] = useState(false);
  const first = firstMessage(a, b);
  const n = Math.max(a.length, b.length), shown = all ? n : Math.min(n, MOST);
  return html`<ol class="turn-diff" aria-label="Messages, aligned">
      ${Array.from({ length: shown }, (_, i) => html`<li key=${i} class=${i === first ? "first" : ""}>
        ${i === first && html`<p class="mark" id="first-difference">First difference: message ${i + 1}</p>`}
        <${Pair} x=${a[i]} y=${b[i]} names=${names} /></li>`)}
    </ol>
    ${shown < n && html`<button type="button" onClick=${() => setAll(true)}>Show all ${n} messages</button>`}`;
}

function Pair({ x, y, names }) {
  if (same(x, y)) return html`<div class="versus same"><${Side} message=${x} who=${x.role + ", the same in both"}><${Text} text=${x.content} /><//></div>`;
  const runs = useMemo(() => wordDiff(x?.content ?? "", y?.content ?? ""), [x?.content, y?.content]);
  return html`<div class="versus">
    <${Side} message=${x} who=${`${names[0]}${x ? ", " + x.role : ""}`}>${x && html`<${Marked} runs=${runs} leave="new" />`}<//>
    <${Side} message=${y} who=${`${names[1]}${y ? ", " + y.role : ""}`}>${y && html`<${Marked} runs=${runs} leave="gone" />`}<//>
  </div>`;
}

function Side({ message, who, children }) {
  if (!message) return html`<div class="said"><div class="who">${who}</div><p class="muted">– (it had ended)</p></div>`;
  return html`<div class=${"said role-" + role(message)}><div class="who"><bdi>${who}</bdi></div>${children}</div>`;
}

function Marked({ runs, leave }) {
  return html`<div class="text" dir="auto">${runs.filter((r) => r.kind !== leave).map((r) =>
    (r.kind === "same" ? r.text : r.kind === "gone" ? html`<del>${r.text}</del>` : html`<ins>${r.text}</ins>`))}</div>`;
}

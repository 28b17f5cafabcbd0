/** A conversation as a conversation: what was thought and which tools were called is folded. */
import { html, useState } from "../../lib/preact.js";
import { plural } from "../../lib/format.js";
import { blocks } from "./blocks.js";

/** A text longer than this is cut until one asks for the rest. */
const LONG = 1500;
const names = { reasoning: "Reasoning", call: "Tool call", result: "Result" };

/**
 * @param {{messages: {role:string, content:string, name?:string}[], label?: string, most?: number}} props
 *   most: messages drawn before one asks for the rest
 */
export function Conversation({ messages, label = "Conversation", most = 100 }) {
  const [all, setAll] = useState(false);
  if (!messages?.length) return html`<p class="muted">No text was kept.</p>`;
  const shown = all ? messages : messages.slice(0, most);
  return html`<ol class="talk" aria-label=${label}>
      ${shown.map((m, i) => html`<li key=${i} class=${"said role-" + role(m)}><${Message} message=${m} /></li>`)}
    </ol>
    ${shown.length < messages.length && html`<button type="button" onClick=${() => setAll(true)}>Show all ${messages.length} messages</button>`}`;
}

/** The class of a message's role; an unknown one looks like the environment's. */
export const role = (m) => (["system", "user", "assistant", "tool"].includes(m.role) ? m.role : "other");

function Message({ message }) {
  const parts = blocks(message);
  return html`<div class="who"><bdi>${message.role || "no role"}</bdi>${message.name && html` <bdi>${message.name}</bdi>`}</div>
    ${parts.length === 0 && html`<p class="muted">– (empty)</p>`}
    ${parts.map((b, i) => (b.kind === "text" ? html`<${Text} key=${i} text=${b.text} />`
      : html`<details key=${i} class=${"fold-" + b.kind} open=${b.kind === "result" && b.text.length < 200}>
          <summary>${names[b.kind]}${b.name ? html`: <bdi>${b.name}</bdi>` : ""} <small class="muted">${size(b.text)}</small></summary>
          <${Text} text=${b.text} code=${b.kind !== "reasoning"} /></details>`))}`;
}

const size = (text) => (text.length < 1000 ? plural(text.length, "character") : `${(text.length / 1000).toFixed(1)}k characters`);

/**
 * A text in its own direction, folded where it is very long.
 * @param {{text:string, code?:boolean}} props code: in a fixed width, left to right
 */
export function Text({ text, code }) {
  const [all, setAll] = useState(false);
  const cut = !all && text.length > LONG * 1.5;
  return html`<div class=${code ? "text code" : "text"} dir=${code ? "ltr" : "auto"}>${cut ? text.slice(0, LONG) + "…" : text}</div>
    ${cut && html`<button type="button" class="more" onClick=${() => setAll(true)}>Show all ${text.length.toLocaleString("en")} characters</button>`}`;
}

/**
 * A message as blocks: what was said, what was thought, which tools were
 * called. Models write all three into one text; a reader folds two of them.
 */

/**
 * @typedef {object} Block
 * @property {"text"|"reasoning"|"call"|"result"} kind
 * @property {string} text
 * @property {string} [name] the tool's
 */

const marks = /<(think|thinking|reasoning|tool_call|tool_response)>([\s\S]*?)(?:<\/\1>|$)/g;
const kinds = { tool_call: "call", tool_response: "result" };

/**
 * Cut a message at the marks that models use. A mark that is never closed
 * reaches to the end: the token budget cut it.
 * @param {{role:string, content:string, name?:string}} message
 * @returns {Block[]}
 */
export function blocks(message) {
  const text = message.content ?? "";
  if (message.role === "tool") return [{ kind: "result", text: pretty(text), name: message.name }];
  if (!message.role?.startsWith("assistant")) return [{ kind: "text", text }];
  const out = [];
  let from = 0;
  const say = (part) => part.trim() && out.push({ kind: "text", text: part.trim() });
  // Some templates put the opening mark into the prompt: what is before a lone closing one was thought.
  const lone = /^(?:(?!<think>)[\s\S])*?<\/think>/.exec(text);
  if (lone) {
    out.push({ kind: "reasoning", text: text.slice(0, lone[0].length - "</think>".length).trim() });
    from = lone[0].length;
  }
  for (const m of text.slice(from).matchAll(marks)) {
    const at = m.index + (lone ? lone[0].length : 0);
    say(text.slice(from, at));
    from = at + m[0].length;
    const kind = kinds[m[1]] ?? "reasoning";
    out.push(kind === "call" ? call(m[2]) : { kind, text: m[2].trim() });
  }
  say(text.slice(from));
  return out;
}

function call(text) {
  try {
    const { name, arguments: args } = JSON.parse(text);
    const given = typeof args === "string" ? JSON.parse(args) : args;
    return { kind: "call", name: String(name), text: given === undefined ? "" : JSON.stringify(given, null, 2) };
  } catch {
    return { kind: "call", text: text.trim() };
  }
}

/**
 * JSON with line breaks, or the text as it is.
 * @param {string} text
 * @returns {string}
 */
export function pretty(text) {
  if (!/^\s*[[{]/.test(text)) return text;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/**
 * What was said, without what was thought and called: an answer in one line.
 * @param {{role:string, content:string}[]} messages
 * @returns {string} of the last message of the assistant that says anything
 */
export function answer(messages) {
  for (const message of [...(messages ?? [])].reverse()) {
    if (!message.role?.startsWith("assistant")) continue;
    const said = blocks(message).filter((b) => b.kind === "text").map((b) => b.text).join(" ").trim();
    if (said) return said;
  }
  return "";
}

/**
 * The tokens of one segment, drawn without a component per token: chunks are
 * filled when they come near the screen and emptied when they leave it, so that
 * 32k tokens cost what a screenful costs.
 */
import { colour } from "./columns.js";

/** Tokens in a chunk; each begins a line with its position in the margin. */
export const CHUNK = 256;

const controls = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g;
const joiners = /^[\u00ad\u034f\u061c\u200b-\u200d\u2060-\u2064\ufe00-\ufe0f]+$/; // all of a token, not within a word or a face
const mark = /^\p{M}/u;
const code = (c) => `‹${c.codePointAt(0).toString(16).padStart(2, "0")}›`;

/**
 * A token's text with what cannot be seen made visible.
 * @param {string|null|undefined} piece
 * @param {number} id shown where the text is not known
 */
export function visible(piece, id) {
  if (piece === null || piece === undefined) return `${id} `;
  if (piece === "") return "∅";
  if (joiners.test(piece)) return [...piece].map(code).join("");
  return (mark.test(piece) ? "◌" + piece : piece).replace(controls, code).replace(/\t/g, "⇥\t").replace(/\r?\n/g, "⏎\n");
}

/** Draws one segment into an element. Make it once, `paint` it at every change of colours, `close` it at the end. */
export class TokenText {
  /**
   * @param {HTMLElement} root scrolls
   * @param {import("./columns.js").Columns} columns
   */
  constructor(root, columns) {
    this.root = root;
    this.columns = columns;
    this.at = -1;
    this.chunks = [];
    root.replaceChildren();
    for (let from = 0; from < columns.length; from += CHUNK) {
      const chunk = document.createElement("div");
      chunk.className = "chunk";
      chunk.dataset.from = from;
      chunk.style.minHeight = "6rem"; // until it is known
      root.append(chunk);
      this.chunks.push(chunk);
    }
    this.follow = false; // the current token stays in view while chunks around it are filled
    for (const kind of ["wheel", "pointerdown", "touchmove"]) root.addEventListener(kind, () => { this.follow = false; }, { passive: true });
    this.observer = new IntersectionObserver((seen) => seen.forEach((e) => this.turn(e.target, e.isIntersecting)), { root, rootMargin: "400px" });
    this.chunks.forEach((c) => this.observer.observe(c));
  }

  /** Colour by mode; `versions` are those of the legend. */
  paint(mode, versions) {
    this.mode = mode;
    this.versions = versions;
    for (const span of this.root.querySelectorAll(".chunk > b")) span.className = this.look(Number(span.dataset.i));
  }

  /** Mark one token as the current one and bring it into view. -1 marks none. */
  mark(i, scroll) {
    this.span(this.at)?.classList.remove("at");
    this.at = i;
    if (i < 0) return;
    const chunk = this.chunks[Math.floor(i / CHUNK)];
    if (!chunk.firstChild) this.fill(chunk);
    const span = this.span(i);
    span.classList.add("at");
    this.follow = scroll;
    if (scroll) this.reveal(span);
  }

  /** Scrolls the region alone, never the page. */
  reveal(span) {
    const box = this.root.getBoundingClientRect(), s = span.getBoundingClientRect();
    if (s.top < box.top + 8 || s.bottom > box.bottom - 8) this.root.scrollTop += s.top - box.top - box.height / 3;
  }

  close() {
    this.observer.disconnect();
    this.root.replaceChildren();
  }

  span(i) {
    return i < 0 ? null : this.root.querySelector(`b[data-i="${i}"]`);
  }

  turn(chunk, near) {
    if (near && !chunk.firstChild) this.fill(chunk);
    else if (!near && chunk.firstChild && !chunk.contains(this.span(this.at))) {
      chunk.style.minHeight = chunk.offsetHeight + "px";
      chunk.replaceChildren();
    }
    if (this.follow) this.reveal(this.span(this.at));
  }

  fill(chunk) {
    const from = Number(chunk.dataset.from), to = Math.min(from + CHUNK, this.columns.length);
    const margin = document.createElement("i");
    margin.textContent = from;
    margin.setAttribute("aria-hidden", "true");
    const all = document.createDocumentFragment();
    all.append(margin);
    for (let i = from; i < to; i++) {
      const span = document.createElement("b");
      span.dataset.i = i;
      span.className = this.look(i);
      span.textContent = visible(this.columns.pieces?.[i], this.columns.ids[i]);
      all.append(span);
    }
    chunk.append(all);
    chunk.style.minHeight = "";
  }

  look(i) {
    const c = this.columns;
    const parts = [colour(c, i, this.mode ?? "loss", this.versions ?? [])];
    if (i < c.shared) parts.push("shared");
    if (i === this.at) parts.push("at");
    return parts.filter(Boolean).join(" ");
  }
}

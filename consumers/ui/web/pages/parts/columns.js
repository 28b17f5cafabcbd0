/**
 * The tokens of a segment as columns, so that a colour or a detail of any of
 * 32k tokens is one array access and no object per token is made.
 */

/**
 * @typedef {object} Columns
 * @property {number} length tokens
 * @property {number[]} ids
 * @property {(string|null)[]|null} pieces the text of each, null where the vocabulary is not known
 * @property {Uint8Array} loss 1: the trainer's loss counts it
 * @property {Float64Array} logprob NaN where the model did not sample it
 * @property {Int32Array} version policy that sampled it, -1: none did
 * @property {number} shared leading tokens that it has in common with its parent
 */

/**
 * Spread a segment's spans over its tokens. Spans of hostile data are cut to
 * what is there.
 * @param {object} segment of the trajectory's JSON
 * @param {(string|null)[]|null} pieces
 * @returns {Columns}
 */
export function columns(segment, pieces) {
  const ids = segment.tokens ?? [];
  const n = ids.length;
  const out = {
    length: n,
    ids,
    pieces: pieces?.length ? pieces : null,
    loss: new Uint8Array(n),
    logprob: new Float64Array(n).fill(NaN),
    version: new Int32Array(n).fill(-1),
    shared: Math.min(n, segment.shared ?? 0),
  };
  for (const [start, end] of segment.loss_mask ?? []) out.loss.fill(1, Math.max(0, start), Math.max(0, end));
  let next = 0; // the logprob of the first token of the span
  for (const { start, end, version } of segment.versions ?? []) {
    for (let i = Math.max(0, start); i < Math.min(n, end); i++) {
      out.version[i] = version;
      out.logprob[i] = segment.logprobs?.[next + i - start] ?? NaN;
    }
    next += Math.max(0, end - start);
  }
  return out;
}

/** Lower bounds of the probability classes, and how the legend names them. */
export const classes = [
  [0.9, "p ≥ 0.9"],
  [0.5, "0.5 to 0.9"],
  [0.1, "0.1 to 0.5"],
  [0.01, "0.01 to 0.1"],
  [0, "p < 0.01"],
];

/**
 * The class of a log-probability: 0 for what the model was sure of, 4 for a surprise.
 * @param {number} logprob in nats
 */
export function classOf(logprob) {
  const p = Math.exp(logprob);
  return classes.findIndex(([from]) => p >= from);
}

/**
 * The policy versions that sampled a token, ascending: the colours of a legend.
 * @param {Columns} c
 * @returns {number[]}
 */
export function versionsOf(c) {
  return [...new Set(c.version)].filter((v) => v >= 0).sort((a, b) => a - b);
}

/**
 * The CSS class of token i when coloured by mode.
 * @param {Columns} c
 * @param {number} i
 * @param {"loss"|"logprob"|"version"} mode
 * @param {number[]} versions of versionsOf
 */
export function colour(c, i, mode, versions) {
  if (c.version[i] < 0) return "";
  if (mode === "loss") return c.loss[i] ? "in" : "out";
  if (mode === "version") return "v" + (versions.indexOf(c.version[i]) % 8);
  return Number.isNaN(c.logprob[i]) ? "" : "p" + classOf(c.logprob[i]);
}

/**
 * The first position at which two id sequences differ, -1 if neither does.
 * @param {number[]} a
 * @param {number[]} b
 */
export function firstDifference(a, b) {
  const n = Math.min(a.length, b.length);
  for (let i = 0; i < n; i++) if (a[i] !== b[i]) return i;
  return a.length === b.length ? -1 : n;
}

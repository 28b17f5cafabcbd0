/**
 * A word-level difference of two texts: Myers' greedy algorithm (An O(ND)
 * Difference Algorithm, 1986), bounded, so that a hostile pair of texts costs
 * some milliseconds and no more.
 */

/** More edits than this are shown as one replacement. */
const MOST_EDITS = 600;

/**
 * Words, runs of blanks and single signs, in order; joined they are the text.
 * @param {string} text
 * @returns {string[]}
 */
export function split(text) {
  return text.match(/\s+|[\p{L}\p{M}\p{N}_]+|[^\s\p{L}\p{M}\p{N}_]/gu) ?? [];
}

/**
 * What turns text a into text b, as runs.
 * @param {string} a
 * @param {string} b
 * @returns {{kind:"same"|"gone"|"new", text:string}[]}
 */
export function wordDiff(a, b) {
  const x = split(a), y = split(b);
  let start = 0;
  while (start < x.length && start < y.length && x[start] === y[start]) start++;
  let end = 0;
  while (end < x.length - start && end < y.length - start && x[x.length - 1 - end] === y[y.length - 1 - end]) end++;
  const inner = edits(x.slice(start, x.length - end), y.slice(start, y.length - end));
  return merge([
    ...x.slice(0, start).map((text) => ({ kind: "same", text })),
    ...inner,
    ...x.slice(x.length - end).map((text) => ({ kind: "same", text })),
  ]);
}

function edits(x, y) {
  const replaced = () => [...x.map((text) => ({ kind: "gone", text })), ...y.map((text) => ({ kind: "new", text }))];
  if (!x.length || !y.length) return replaced();
  const trail = frontier(x, y);
  return trail ? walk(x, y, trail) : replaced();
}

/** The furthest reach on each diagonal after d edits, for d = 0, 1, … until the end is reached. */
function frontier(x, y) {
  const most = Math.min(x.length + y.length, MOST_EDITS);
  let reach = new Map([[1, 0]]);
  const trail = [];
  for (let d = 0; d <= most; d++) {
    trail.push(new Map(reach));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
      let i = down ? reach.get(k + 1) : reach.get(k - 1) + 1;
      while (i < x.length && i - k < y.length && x[i] === y[i - k]) i++;
      reach.set(k, i);
      if (i >= x.length && i - k >= y.length) return trail;
    }
  }
  return null;
}

function walk(x, y, trail) {
  const out = [];
  let i = x.length, j = y.length;
  for (let d = trail.length - 1; d >= 0; d--) {
    const reach = trail[d], k = i - j;
    const down = k === -d || (k !== d && (reach.get(k - 1) ?? -1) < (reach.get(k + 1) ?? -1));
    const from = down ? reach.get(k + 1) : reach.get(k - 1);
    const origin = from - (down ? k + 1 : k - 1);
    while (i > Math.max(from, 0) && j > Math.max(origin, 0) && i > (down ? from : from + 1)) out.push({ kind: "same", text: x[--i] }), j--;
    while (d === 0 && i > 0 && j > 0) out.push({ kind: "same", text: x[--i] }), j--;
    if (d > 0) out.push(down ? { kind: "new", text: y[--j] } : { kind: "gone", text: x[--i] });
  }
  return out.reverse();
}

function merge(runs) {
  const out = [];
  for (const run of runs) {
    const last = out.at(-1);
    if (last?.kind === run.kind) last.text += run.text;
    else out.push({ ...run });
  }
  return out;
}

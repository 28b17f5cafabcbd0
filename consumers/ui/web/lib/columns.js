// Tables held as columns, as the API sends them: {step: […], reward: […], metrics: {loss: […]}}. Bounded, and never changed
// in place: whoever holds an array may compare it by identity.

/** The most steps a page keeps; older ones are let go. */
export const maxSteps = 20000;

/** Columns of no step. */
export const noSteps = () => ({ step: [], metrics: {} });

/**
 * Puts new or changed steps into what is held, in step order; answers new columns.
 * @param {object} held columns with step ascending
 * @param {object} fresh columns of some steps, ascending
 */
export function mergeSteps(held, fresh) {
  if (!fresh?.step?.length) return held;
  const flat = { ...plain(held), ...metrics(held) }, more = { ...plain(fresh), ...metrics(fresh) };
  const step = union(held.step, fresh.step).slice(-maxSteps);
  const at = places(step, held.step), to = places(step, fresh.step);
  const next = { step, metrics: {} };
  for (const name of new Set([...Object.keys(flat), ...Object.keys(more)])) {
    const column = new Array(step.length).fill(null);
    lay(column, flat[name], at);
    lay(column, more[name], to);
    if (name.startsWith("metrics/")) next.metrics[name.slice(8)] = column;
    else next[name] = column;
  }
  return next;
}

const plain = ({ step, metrics: _, ...rest }) => rest;
const metrics = (columns) => Object.fromEntries(Object.entries(columns.metrics ?? {}).map(([k, v]) => ["metrics/" + k, v]));

// union merges two ascending lists; the usual case, new steps behind the held ones, is one copy.
function union(a, b) {
  if (a.length === 0 || a.at(-1) < b[0]) return a.concat(b);
  return [...new Set([...a, ...b])].sort((x, y) => x - y);
}

// places says where in `all` each of `some` stands (-1: let go); both ascend.
function places(all, some) {
  const found = new Int32Array(some.length);
  for (let i = 0, k = 0; i < some.length; i++) {
    while (k < all.length && all[k] < some[i]) k++;
    found[i] = all[k] === some[i] ? k : -1;
  }
  return found;
}

function lay(column, values, at) {
  if (!values) return;
  for (let i = 0; i < at.length; i++) if (at[i] >= 0) column[at[i]] = values[i] ?? null;
}

/** Adds one row to a series and forgets what is more than `span` seconds older; answers new columns. */
export function addPoint(columns, row, span) {
  const size = columns.at?.length ?? 0;
  let old = 0;
  while (old < size && columns.at[old] < row.at - span) old++;
  const next = {};
  for (const name of new Set([...Object.keys(columns), ...Object.keys(row)])) {
    if (name === "n") continue;
    const column = Array.isArray(columns[name]) ? columns[name].slice(old) : new Array(size - old).fill(null);
    column.push(row[name] ?? null);
    next[name] = column;
  }
  return next;
}

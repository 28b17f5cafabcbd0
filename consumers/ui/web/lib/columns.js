// Tables held as columns, as the API sends them: {step: […], reward: […], metrics: {loss: […]}}. All bounded.

/** The most steps a page keeps; older ones are let go. */
export const maxSteps = 20000;

/** Columns of no step. */
export const noSteps = () => ({ step: [], metrics: {} });

/**
 * Puts new or changed steps into what is held, in step order, and answers a new object around the same arrays.
 * @param {object} held columns with step ascending
 * @param {object} fresh columns of some steps
 */
export function mergeSteps(held, fresh) {
  const next = { ...held, metrics: { ...held.metrics } };
  const rows = fresh.step?.length ?? 0;
  for (let i = 0; i < rows; i++) {
    const at = slot(next, fresh.step[i]);
    for (const name in fresh) if (name !== "metrics" && name !== "step") put(next, name, at, fresh[name]?.[i]);
    for (const name in fresh.metrics ?? {}) put(next.metrics, name, at, fresh.metrics[name]?.[i]);
  }
  level(next);
  return next.step.length > maxSteps * 1.1 ? last(next, maxSteps) : next;
}

// slot finds the row of a step, or makes one where it belongs.
function slot(columns, step) {
  const steps = columns.step;
  let at = steps.length;
  while (at > 0 && steps[at - 1] > step) at--;
  if (at > 0 && steps[at - 1] === step) return at - 1;
  each(columns, (column, holder, name) => {
    while (column.length < steps.length && name !== "step") column.push(null);
    column.splice(at, 0, name === "step" && holder === columns ? step : null);
  });
  return at;
}

function put(holder, name, at, value) {
  const column = (holder[name] ??= []);
  while (column.length <= at) column.push(null);
  column[at] = value ?? null;
}

// level makes all columns as long as the steps.
function level(columns) {
  each(columns, (column) => { while (column.length < columns.step.length) column.push(null); });
}

function each(columns, visit) {
  for (const name in columns) if (name !== "metrics") visit(columns[name], columns, name);
  for (const name in columns.metrics) visit(columns.metrics[name], columns.metrics, name);
}

function last(columns, n) {
  const cut = (group) => Object.fromEntries(Object.entries(group).filter(([k]) => k !== "metrics").map(([k, v]) => [k, v.slice(-n)]));
  return { ...cut(columns), metrics: cut(columns.metrics) };
}

/** Adds one row to a series and forgets what is older than `span` seconds before it. */
export function addPoint(columns, row, span) {
  const next = { ...columns };
  const size = next.at?.length ?? 0;
  for (const name of new Set([...Object.keys(next), ...Object.keys(row)])) {
    if (name === "n") continue;
    const column = (next[name] ??= []);
    while (column.length < size) column.push(null);
    column.push(row[name] ?? null);
  }
  let old = 0;
  while (old < next.at.length && next.at[old] < row.at - span) old++;
  if (old > 0) for (const name in next) next[name].splice(0, old);
  return next;
}

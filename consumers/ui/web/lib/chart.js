// Charts drawn by uPlot, kept up in place: new data never makes a new chart. Each has a sentence and a table for those who
// cannot see it, and takes its colours from the theme.
import { html, useEffect, useMemo, useRef, useState, useId } from "./preact.js";
import { theme, colour } from "./theme.js";
import { figures, clock } from "./format.js";
import uPlot from "../vendor/uplot.js";

const none = "–";

/**
 * A line chart.
 * @param {{title: string, x: (number|null)[], xKind?: "time"|"step", series: Series[], height?: number, min?: ?number, max?: ?number,
 *   as?: function, unit?: string, small?: boolean, group?: string, empty?: string}} props
 *   x ascending (Unix seconds for "time"); Series: {label, values, colour: "--c1", dash?: number[], points?: boolean (points
 *   without a line), band?: [lower, upper] (two arrays drawn as a veil), width?: number}; as(value) writes a value;
 *   group: charts of one name share their cursor. It redraws when an array is another one, so build them with useMemo.
 */
export function Chart(props) {
  const { title, x, series, small, empty = "No points yet." } = props;
  const box = useRef(null), held = useRef(null), legend = useRef(null);
  const [table, showTable] = useState(false);
  const own = useId();
  const shape = series.map((s) => [s.label, s.colour, s.points, !!s.band].join()).join(";") + theme.value;
  const hollow = x.length === 0;

  useEffect(() => {
    if (hollow) return undefined;
    const plot = make(box.current, legend.current, () => held.current?.props, props);
    held.current = { plot, props };
    const watch = new ResizeObserver(([entry]) => {
      const width = Math.floor(entry.contentRect.width);
      if (width > 0 && width !== plot.width) plot.setSize({ width, height: plot.height });
    });
    watch.observe(box.current);
    return () => { watch.disconnect(); plot.destroy(); held.current = null; };
  }, [shape, hollow]);

  const values = [x, ...series.flatMap((s) => [s.values, ...(s.band ?? [])])];
  const text = useMemo(() => summary(props), values);
  useEffect(() => {
    if (!held.current) return;
    held.current.props = props;
    held.current.plot.setData(data(props));
    if (held.current.plot.cursor.idx === null || held.current.plot.cursor.idx === undefined) write(legend.current, props, x.length - 1);
  }, [...values, shape]);

  return html`<figure class=${"chart" + (small ? " small" : "")} aria-labelledby=${own}>
    <figcaption id=${own}><span class="name">${title}</span><span class="sr">: ${text}</span>
      ${!small && !hollow && html`<button type="button" class="quiet" aria-expanded=${table} onClick=${() => showTable(!table)}>${table ? "hide table" : "show as table"}</button>`}</figcaption>
    ${hollow ? html`<p class="hollow">${empty}</p>` : html`<div class="legend" ref=${legend} aria-hidden="true"></div><div class="plot" ref=${box} aria-hidden="true"></div>`}
    ${table && html`<${DataTable} ...${props} />`}
  </figure>`;
}

function data({ x, series }) {
  const columns = [x];
  for (const s of series) {
    columns.push(s.values);
    if (s.band) columns.push(s.band[0], s.band[1]);
  }
  return columns;
}

function make(box, legend, now, props) {
  const { xKind = "step", height = props.small ? 84 : 190, min = null, max = null, as = figures, small } = props;
  const lines = [{}], bands = [];
  for (const s of props.series) {
    lines.push(line(s));
    if (!s.band) continue;
    bands.push({ series: [lines.length + 1, lines.length], fill: colour(s.colour, 0.16) });
    lines.push(veil(), veil());
  }
  const axis = { stroke: colour("--muted"), font: "11px system-ui, sans-serif", ticks: { show: false }, grid: { stroke: colour("--line"), width: 1 } };
  return new uPlot({
    width: Math.max(80, box.clientWidth), height,
    padding: [6, 8, 0, 0],
    series: lines, bands,
    legend: { show: false },
    cursor: { y: false, points: { size: 6 }, drag: { x: false, y: false }, sync: props.group ? { key: props.group } : undefined },
    scales: { x: { time: xKind === "time", range: (u, lo, hi) => (lo === hi ? [lo - 1, hi + 1] : [lo, hi]) }, y: { range: (u, lo, hi) => reach(lo, hi, min, max) } },
    axes: [
      { ...axis, size: 24, space: 64, grid: { show: false }, ...(xKind === "time" ? { values: (u, at) => at.map((t) => wall(t)) } : { incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] }) },
      { ...axis, size: 52, space: small ? 26 : 34, values: (u, at) => at.map((v) => (v === null ? "" : as(v))) },
    ],
    hooks: { setCursor: [(u) => { if (now()) write(legend, now(), u.cursor.idx ?? now().x.length - 1); }] },
  }, data(props), box);
}

const wall = (t) => { const d = new Date(t * 1000); const two = (v) => String(v).padStart(2, "0"); return d.getSeconds() ? `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}` : `${two(d.getHours())}:${two(d.getMinutes())}`; };

function line(s) {
  const stroke = colour(s.colour);
  return { label: s.label, stroke, width: s.points ? 0 : s.width ?? 1.5, dash: s.dash, spanGaps: true, points: s.points ? { show: true, size: 6, fill: stroke, stroke } : { show: (u) => u.data[0].length < 3, size: 4, fill: stroke } };
}

const veil = () => ({ stroke: "transparent", width: 0, points: { show: false } });

// reach is what the y axis spans: the data with a little air, and what the caller fixed.
function reach(lo, hi, min, max) {
  if (lo === null || hi === null) return [min ?? 0, max ?? 1];
  if (lo === 0 && hi === 0) return [min ?? -1, max ?? 1];
  const air = (hi - lo || Math.abs(hi) || 1) * 0.06;
  return [min ?? lo - air, max ?? hi + air];
}

// write puts the values under the cursor (or the newest) into the legend, without a render.
function write(box, { x, xKind, series, as = figures, unit = "", small }, i) {
  if (!box) return;
  const items = series.map((s) => {
    const at = i >= 0 && i < x.length ? value(s, i) : null;
    return `<span><i style="background:${colour(s.colour)}"></i>${small && series.length === 1 ? "" : escape(s.label) + " "}<b class="num">${at === null ? none : escape(as(at))}${unit && at !== null ? " " + escape(unit) : ""}</b></span>`;
  });
  const head = i >= 0 && i < x.length ? `<span class="at num">${xKind === "time" ? clock(x[i]) : `step ${x[i]}`}</span>` : "";
  const text = items.join("") + (small ? "" : head);
  if (box.dataset.text !== text) { box.innerHTML = text; box.dataset.text = text; }
}

// value is what a series has at a row, or, for sparse ones, last had.
function value(s, i) {
  for (let k = i; k >= 0; k--) if (s.values[k] !== null && s.values[k] !== undefined) return s.values[k];
  return null;
}
const escape = (t) => String(t).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

function summary({ x, xKind, series, as = figures, unit = "" }) {
  if (x.length === 0) return "no points yet";
  const where = (i) => (xKind === "time" ? clock(x[i]) : `step ${x[i]}`);
  return `from ${where(0)} to ${where(x.length - 1)}. ` + series.map((s) => {
    const all = s.values.filter((v) => v !== null && v !== undefined);
    if (all.length === 0) return `${s.label}: none`;
    return `${s.label}: first ${as(all[0])}, last ${as(all.at(-1))}, between ${as(all.reduce((a, b) => Math.min(a, b)))} and ${as(all.reduce((a, b) => Math.max(a, b)))} ${unit}`;
  }).join("; ");
}

/** A chart's numbers as a table: the newest 200 rows, newest first. */
function DataTable({ title, x, xKind, series, as = figures, unit }) {
  const rows = [];
  for (let i = x.length - 1; i >= 0 && rows.length < 200; i--) rows.push(i);
  return html`<div class="scroll" tabindex="0" role="region" aria-label=${`${title}, table`}><table class="plain">
    <caption>${title}${unit ? ` (${unit})` : ""}${x.length > 200 ? ", newest 200 rows" : ""}</caption>
    <thead><tr><th scope="col">${xKind === "time" ? "time" : "step"}</th>${series.map((s) => html`<th scope="col" class="right">${s.label}</th>`)}</tr></thead>
    <tbody>${rows.map((i) => html`<tr key=${x[i]}><th scope="row">${xKind === "time" ? clock(x[i]) : x[i]}</th>${series.map((s) => html`<td class="right num">${s.values[i] === null || s.values[i] === undefined ? none : as(s.values[i])}</td>`)}</tr>`)}</tbody></table></div>`;
}

/**
 * Counts by class, as bars of HTML: a histogram that a screen reader reads as a list.
 * @param {{title: string, bins: {label: string, value: number, title?: string, mark?: boolean}[], as?: function, colour?: string, empty?: string}} props
 */
export function Histogram({ title, bins, as = figures, colour: c = "--c1", empty = "Nothing to count yet." }) {
  const top = Math.max(...bins.map((b) => b.value), 0);
  if (top === 0) return html`<p class="hollow">${empty}</p>`;
  return html`<ol class="histogram" aria-label=${title}>${bins.map((b) => html`<li key=${b.label} title=${b.title ?? `${b.label}: ${as(b.value)}`} class=${b.mark ? "mark" : ""}>
    <b class="num">${b.value ? as(b.value) : ""}</b><span class="col" style=${`height:${Math.max(b.value ? 2 : 0, (88 * b.value) / top)}px;background:var(${b.mark ? "--warn" : c})`}></span><span class="tick">${b.label}</span></li>`)}</ol>`;
}

// A real table with a caption; on a narrow screen each row becomes a card whose cells carry their column's name.
import { html, useState } from "./preact.js";
import { int } from "./format.js";

/**
 * @param {{caption: string, hideCaption?: boolean, columns: Column[], rows: object[], rowKey?: function, rowClass?: function,
 *   sort?: string, onSort?: function, empty?: any, few?: number, total?: number}} props
 *   Column: {key, label, title?, num?: boolean, head?: boolean (the row's name), wide?: boolean (a whole line of a card), sort?: boolean, render?: (row) => any}
 *   sort: the key sorted by, with "-" before it for descending; onSort(key) is called on a click
 *   few: so many rows are drawn until the reader asks for all; total: how many there are, if more than the rows
 */
export function Table({ caption, hideCaption, columns, rows, rowKey = (r, i) => i, rowClass, sort, onSort, empty = "none yet", few = Infinity, total = rows.length }) {
  const [all, showAll] = useState(false);
  const drawn = all ? rows : rows.slice(0, few);
  return html`<table role="table" class="data">
    <caption class=${hideCaption ? "sr" : ""}>${caption}</caption>
    <thead role="rowgroup"><tr role="row">${columns.map((c) => html`<${Head} key=${c.key} column=${c} sort=${sort} onSort=${onSort} />`)}</tr></thead>
    <tbody role="rowgroup">${rows.length === 0
      ? html`<tr role="row" class="hollow"><td role="cell" colspan=${columns.length}>${empty}</td></tr>`
      : drawn.map((row, i) => html`<tr role="row" key=${rowKey(row, i)} class=${rowClass?.(row)}>${columns.map((c) => cell(c, row))}</tr>`)}</tbody>
  </table>${rows.length > few && html`<button type="button" class="quiet" aria-expanded=${all} onClick=${() => showAll(!all)}>${all ? "show fewer" : `show ${int(rows.length)}${total > rows.length ? ` of ${int(total)}` : ""}`}</button>`}`;
}

function Head({ column: c, sort, onSort }) {
  const by = sort?.replace(/^-/, "") === c.key;
  const order = by ? (sort.startsWith("-") ? "descending" : "ascending") : undefined;
  return html`<th role="columnheader" scope="col" class=${c.num ? "right" : ""} title=${c.title} aria-sort=${order}>
    ${c.sort && onSort ? html`<button type="button" onClick=${() => onSort(c.key)}>${c.label}${by ? (order === "ascending" ? " ↑" : " ↓") : ""}</button>` : c.label}</th>`;
}

function cell(c, row) {
  const inside = c.render ? c.render(row) : row[c.key] ?? "–";
  const css = (c.num ? "right" : "") + (c.wide ? " wide" : "");
  return c.head
    ? html`<th role="rowheader" scope="row" key=${c.key} class=${css} data-label=${c.label}>${inside}</th>`
    : html`<td role="cell" key=${c.key} class=${css} data-label=${c.label}>${inside}</td>`;
}

/** The filters of the group list, bound to the address, so that a link says what one looks at. */
import { html, useEffect, useState } from "../../lib/preact.js";
import { setQuery } from "../../lib/router.js";
import { words } from "../../lib/ui.js";
import { outcomes, statuses } from "./names.js";

/** Orders the list can have, and their names. */
export const sorts = [["newest", "newest first"], ["oldest", "oldest first"], ["reward", "highest reward"], ["std", "widest rewards"], ["tokens", "most tokens"], ["age", "slowest"]];
/** Keys of the query that narrow the list, and their names. */
export const names = { q: "text", outcome: "verdict", env: "environment", status: "status", kind: "kind", step: "step", version: "version", reward: "mean reward", std: "std of rewards", unused: "left over" };
const ranges = ["step", "version", "reward", "std"];

/** Changes filters and goes back to the first page. */
export const change = (values) => setQuery({ ...values, cursor: "" });

/**
 * @param {{query: object, environments: string[]}} props of the address; of the run
 */
export function Filters({ query, environments }) {
  const [open, setOpen] = useState(() => ["kind", "status", "unused", ...ranges].some((k) => query[k]));
  return html`<form class="filters" role="search" aria-label="Filter groups" onSubmit=${(e) => e.preventDefault()}>
    <div class="row">
      <${Search} value=${query.q ?? ""} />
      <${Pick} name="outcome" value=${query.outcome} all="any verdict" options=${outcomes} />
      <${Pick} name="env" value=${query.env} all="any environment" options=${environments} raw />
      <label>sort <select value=${query.sort ?? "newest"} onChange=${(e) => change({ sort: e.target.value === "newest" ? "" : e.target.value })}>
        ${sorts.map(([id, name]) => html`<option value=${id} selected=${id === (query.sort ?? "newest")}>${name}</option>`)}</select></label>
      <button type="button" aria-expanded=${open} onClick=${() => setOpen(!open)}>${open ? "Fewer" : "More"} filters</button>
    </div>
    ${open && html`<div class="row">
      <${Pick} name="kind" value=${query.kind} all="any kind" options=${["train", "eval"]} />
      <${Pick} name="status" value=${query.status} all="any status" options=${statuses} />
      <label title="More arrived than it closed with: late, double, beyond its size">${names.unused} <select value=${query.unused ?? ""} onChange=${(e) => change({ unused: e.target.value })}>
        <option value="" selected=${!query.unused}>any</option><option value="yes" selected=${query.unused === "yes"}>some</option></select></label>
      ${ranges.map((key) => html`<${Range} key=${key} name=${key} value=${query[key] ?? ""} />`)}
    </div>`}
    <${Chips} query=${query} />
  </form>`;
}

function Search({ value }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => change({ q: text }), 300);
    return () => clearTimeout(timer);
  }, [text]);
  return html`<label class="wide">text in a trajectory
    <input type="search" id="search" value=${text} placeholder="words of a message, a reason or a task; or an id" onInput=${(e) => setText(e.target.value)}
      onKeyDown=${(e) => e.key === "Enter" && change({ q: text })} /></label>`;
}

function Pick({ name, value = "", all, options, raw }) {
  const known = value && !options.includes(value) ? [value, ...options] : options;
  return html`<label>${names[name]} <select value=${value} onChange=${(e) => change({ [name]: e.target.value })}>
    <option value="" selected=${!value}>${all}</option>
    ${known.map((o) => html`<option value=${o} selected=${o === value}>${raw ? o : words(o)}</option>`)}</select></label>`;
}

/** A range in the form A..B, either end open; one number alone is A..A. */
function Range({ name, value }) {
  const [low, high] = value.includes("..") ? value.split("..") : [value, value];
  const set = (from, to) => change({ [name]: from || to ? `${from}..${to}` : "" });
  const step = name === "step" || name === "version" ? "1" : "any";
  return html`<label>${names[name]}<span class="pair">
    <input type="number" step=${step} value=${low} placeholder="from" aria-label=${names[name] + " from"} onChange=${(e) => set(e.target.value, high)} />
    <input type="number" step=${step} value=${high} placeholder="to" aria-label=${names[name] + " to"} onChange=${(e) => set(low, e.target.value)} />
  </span></label>`;
}

function Chips({ query }) {
  const on = Object.keys(names).filter((k) => query[k]);
  if (!on.length) return null;
  return html`<ul class="chips" aria-label="Filters that are set">
    ${on.map((k) => html`<li><button type="button" title="Remove this filter" onClick=${() => change({ [k]: "" })}>${names[k]}: <bdi>${words(query[k])}</bdi> <span aria-hidden="true">×</span><span class="sr"> remove</span></button></li>`)}
    <li><button type="button" onClick=${() => change(Object.fromEntries(on.map((k) => [k, ""])))}>Clear all</button></li>
  </ul>`;
}

/** The groups of a run: what was played, what became of it, and why. */
import { html, useEffect, useRef, useState } from "../lib/preact.js";
import { api, useGet } from "../lib/api.js";
import { Link, setQuery, to, useRoute } from "../lib/router.js";
import { Empty, ErrorBox, Loading, Page, Table, Time, figures, int, none, plural, short } from "../lib/ui.js";
import { Filters, change, names } from "./parts/filters.js";
import { Outcome, meanStd, span } from "./parts/names.js";
import { RewardStrip } from "./parts/strip.js";

const LIMIT = 50;

/** The page at /r/RUN/groups; its filters are the address's query. */
export default function Groups() {
  const { parts, query } = useRoute();
  const run = parts[1];
  const about = useGet(api("runs", run));
  const [every, setEvery] = useState(0); // seconds until it asks again: soon while the run is being read
  const path = api("runs", run, "groups", { ...query, limit: query.limit ?? LIMIT });
  const list = useGet(path, { every });
  useEffect(() => (list.path === path ? goOn(list.data, query) : undefined), [list.data]);
  const next = reading(list.data, query) ? 1 : about.data?.live && !query.cursor ? 5 : 0;
  if (next !== every) setEvery(next);
  const rows = useRef(null);
  useKeys(rows);
  const { data } = list;
  return html`<${Page} title="Groups" lead=${html`<${Found} data=${data} query=${query} />`}>
    <${Filters} query=${query} environments=${about.data?.environments ?? []} />
    ${list.error && html`<${ErrorBox} error=${list.error} retry=${list.reload} />`}
    ${!data && list.loading && html`<${Loading}>Reading the groups…<//>`}
    ${data && (data.groups.length ? html`<div class="group-list" ref=${rows} aria-busy=${list.loading}>
        <${Table} caption=${`Groups of ${run}`} hideCaption columns=${columns(run, query)} rows=${data.groups} rowKey=${(g) => g.group} /></div>`
      : html`<${Nothing} query=${query} more=${reading(data, query)} />`)}
    <${Pager} next=${data?.next} query=${query} />
  <//>`;
}

/**
 * A search looks for a while and says where to go on: an empty page is no answer. At the end of what could be searched so
 * far it begins again.
 */
function goOn(data, query) {
  if (!data || data.groups.length) return undefined;
  if (data.next) return void setQuery({ cursor: data.next });
  if (!query.cursor || !reading(data, query)) return undefined;
  const timer = setTimeout(() => setQuery({ cursor: "" }), 1000);
  return () => clearTimeout(timer);
}

/** How many there are; a search that stopped at a full page knows only that there are more. */
function count({ total, groups, next }) {
  if (total !== null && total !== undefined) return plural(total, "group");
  return groups.length ? (next ? "more than " : "") + plural(groups.length, "group") : "none so far";
}

/** Whether the answer is not yet all that there is. */
function reading(data, query) {
  const { trajectories, of, text, text_of: textOf } = data?.indexed ?? {};
  return trajectories < of || Boolean(query.q && text < textOf);
}

function Found({ data, query }) {
  if (!data) return none;
  const { trajectories, of, text, text_of: textOf } = data.indexed ?? {};
  const notes = [count(data)];
  if (trajectories < of) notes.push(`still reading the run: ${int(trajectories)} of ${int(of)} trajectories so far`);
  if (query.q && text < textOf) notes.push(`text searched in ${int(text)} of ${int(textOf)} trajectories so far`);
  notes.push(`${figures(data.took_ms)} ms`);
  return html`<span role="status">${notes.join(" · ")}</span> <span class="muted keys">keys: <kbd>j</kbd> <kbd>k</kbd> move, <kbd>enter</kbd> opens, <kbd>/</kbd> searches</span>`;
}

function columns(run, query) {
  const list = [
    { key: "group", label: "group", head: true, render: (g) => html`<span><${Link} to=${to("r", run, "g", g.group)} class="open"><bdi>${g.group}</bdi><//>${
      g.kind === "eval" ? html` <small class="muted">evaluation @${g.round}</small>` : ""}${g.match ? html`<span class="match" dir="auto">${hit(g.match, query.q)}</span>` : ""}</span>` },
    { key: "outcome", label: "verdict", render: (g) => html`<${Outcome} outcome=${g.outcome} />` },
    { key: "step", label: "step", num: true, render: (g) => g.step || html`<span title="in no batch">${none}</span>` },
    { key: "environment", label: "environment", render: (g) => html`<bdi>${g.environment || none}</bdi>` },
    { key: "rewards", label: "rewards", title: "one bar a slot; × came to nothing", render: (g) => html`<${RewardStrip} rewards=${g.rewards} open=${g.outcome === "open"} />` },
    { key: "mean", label: "mean ± std", num: true, render: (g) => html`<span title="mean and standard deviation of the rewards">${meanStd(g)}</span>` },
    { key: "arrived", label: "arrived", num: true, title: "trajectories that arrived, retries too, for so many slots", render: (g) => html`<span title=${Object.entries(g.statuses ?? {}).map(([s, n]) => `${n} ${s}`).join(", ")}>${g.arrived}/${g.size || none}</span>` },
    { key: "tokens", label: "tokens", num: true, render: (g) => (g.tokens ? short(g.tokens) : html`<span title="nothing has arrived">${none}</span>`) },
    { key: "versions", label: "versions", num: true, title: "policies that sampled it", render: (g) => span(g.min_version, g.max_version) },
    { key: "staleness", label: "stale", num: true, title: "steps between its oldest policy and the one trained", render: (g) => (g.staleness === null || g.staleness === undefined ? html`<span title="known once it is in a batch">${none}</span>` : g.staleness) },
    { key: "opened", label: "opened", num: true, render: (g) => html`<${Opened} at=${g.opened} />` },
  ];
  return list;
}

/** How long ago, or when it was more than a day. */
function Opened({ at }) {
  const now = Date.now() / 1000;
  return html`<${Time} at=${at} now=${now - at < 86400 ? now : undefined} />`;
}

/** The snippet with the words that were searched for marked. */
function hit(text, q) {
  const words = (q ?? "").match(/[\p{L}\p{M}\p{N}]+/gu);
  if (!words) return text;
  return text.split(new RegExp(`(${words.join("|")})`, "giu")).map((part, i) => (i % 2 ? html`<mark>${part}</mark>` : part));
}

function Nothing({ query, more }) {
  const filtered = Object.keys(names).some((k) => query[k]);
  return html`<${Empty} title=${more ? "Nothing found so far" : filtered ? "No group matches" : "No group yet"}>
    ${more ? "The run is still being read; what is found appears here." : filtered
      ? html`<button type="button" onClick=${() => change(Object.fromEntries(Object.keys(names).map((k) => [k, ""])))}>Clear the filters</button>`
      : "The grouper opens groups once a trainer is there."}<//>`;
}

function Pager({ next, query }) {
  if (!next && !query.cursor) return null;
  const { parts } = useRoute();
  return html`<nav class="pager" aria-label="Pages of the list">
    ${query.cursor && html`<button type="button" onClick=${() => setQuery({ cursor: "" }, { replace: false })}>First page</button>`}
    ${next ? html`<${Link} to=${to(...parts, { ...query, cursor: next })} class="button" rel="next">Next page<//>` : html`<span class="muted">This is the last page.</span>`}</nav>`;
}

/** j and k go from row to row, / to the search, Enter follows the row's link as anywhere. */
function useKeys(rows) {
  useEffect(() => {
    const press = (e) => {
      if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.("input, select, textarea, [contenteditable]")) return;
      if (e.key === "/") {
        e.preventDefault();
        document.getElementById("search")?.focus();
      }
      if (e.key !== "j" && e.key !== "k") return;
      const links = [...(rows.current?.querySelectorAll("a.open") ?? [])];
      const at = links.indexOf(document.activeElement);
      const next = at < 0 ? 0 : Math.max(0, Math.min(links.length - 1, at + (e.key === "j" ? 1 : -1)));
      links[next]?.focus();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
}

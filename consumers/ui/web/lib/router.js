// Addresses: a path below the base the server set, and filters in the query string.
import { signal, computed } from "../vendor/signals.js";
import { html } from "./preact.js";

const base = new URL(document.baseURI).pathname; // ends with "/"

function here() {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : location.pathname.slice(1);
  return { path: path.replace(/\/+$/, ""), search: location.search };
}

const place = signal(here());

// Going back leads to where one was: each entry of the history keeps its scroll, and a page gets a moment to be drawn.
history.scrollRestoration = "manual";
let keeping = 0;
addEventListener("scroll", () => {
  clearTimeout(keeping);
  keeping = setTimeout(() => history.replaceState({ ...history.state, y: Math.round(scrollY) }, ""), 150);
}, { passive: true });
addEventListener("popstate", () => { place.value = here(); restore(history.state?.y ?? 0); });
addEventListener("load", () => history.state?.y && restore(history.state.y));

function restore(y, until = performance.now() + 1500) {
  const reach = document.documentElement.scrollHeight - innerHeight;
  if (reach >= y || performance.now() > until) scrollTo(0, y);
  else requestAnimationFrame(() => restore(y, until));
}

/** The address as a signal: {path, parts (decoded), query (plain object of strings)}. */
export const route = computed(() => ({
  path: place.value.path,
  parts: place.value.path.split("/").map(decode),
  query: Object.fromEntries(new URLSearchParams(place.value.search)),
}));

/** The address; the component is drawn again when it changes. */
export const useRoute = () => route.value;

function decode(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/**
 * Builds an address from raw segments and a query: to("r", run, "groups", {outcome: "kept"}).
 * Empty, null and undefined query values are left out.
 */
export function to(...segments) {
  const last = segments.at(-1);
  const query = last !== null && typeof last === "object" ? segments.pop() : {};
  const kept = Object.entries(query).filter(([, v]) => v !== "" && v !== null && v !== undefined);
  const search = new URLSearchParams(kept.map(([k, v]) => [k, String(v)])).toString();
  return "/" + segments.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
}

/** Where an address of ours stands under the server's base path. */
export const href = (address) => base + address.replace(/^\//, "");

/** Goes to an address of ours; {replace: true} leaves no entry in the history, {keepScroll: true} stays where it is. */
export function navigate(address, { replace = false, keepScroll = replace } = {}) {
  clearTimeout(keeping);
  if (!replace) history.replaceState({ ...history.state, y: Math.round(scrollY) }, "");
  history[replace ? "replaceState" : "pushState"](null, "", href(address));
  place.value = here();
  if (!keepScroll) scrollTo(0, 0);
}

/** Changes some of the query's values and keeps the rest; an empty value takes its key away. */
export function setQuery(changes, { replace = true } = {}) {
  const { parts, query } = route.value;
  navigate(to(...parts, { ...query, ...changes }), { replace, keepScroll: true });
}

/** One value of the query as state: const [q, setQ] = useQuery("q", ""). */
export function useQuery(key, fallback = "") {
  const value = route.value.query[key] ?? fallback;
  return [value, (next) => setQuery({ [key]: next === fallback ? "" : next })];
}

/** A link to an address of ours that needs no reload; other props go to the <a>. */
export function Link({ to: address, children, ...rest }) {
  const follow = (e) => {
    if (e.defaultPrevented || e.button !== 0 || e.metaKey || e.ctrlKey || e.shiftKey || e.altKey) return;
    e.preventDefault();
    navigate(address);
  };
  return html`<a href=${href(address)} onClick=${follow} ...${rest}>${children}</a>`;
}

// The shell around every page: header, navigation, the state of the connection; it loads a page's module when its
// address is first visited.
import { html, render, signal, useEffect, useRef } from "./lib/preact.js";
import { route, useRoute, Link, to } from "./lib/router.js";
import { stream } from "./lib/api.js";
import { choice, setTheme } from "./lib/theme.js";
import { Badge, Choice, Empty, ErrorBox, Loading, Ticks, clock } from "./lib/ui.js";

// Each address, its page's module in pages/, and the navigation's entry it belongs to.
const routes = [
  ["", "runs"],
  ["r/:run", "run", "run"],
  ["r/:run/groups", "groups", "groups"],
  ["r/:run/g/:group", "group", "groups"],
  ["r/:run/t/:group/:slot/:attempt", "trajectory", "groups"],
  ["r/:run/diff/:group/:slot/:attempt/:group2/:slot2/:attempt2", "diff", "groups"],
  ["r/:run/letters", "letters", "letters"],
  ["r/:run/letters/:n", "letters", "letters"],
].map(([pattern, page, tab]) => ({ pattern: pattern.split("/"), page, tab }));

function match(parts) {
  for (const r of routes) {
    if (r.pattern.length !== parts.length) continue;
    const params = {};
    const fits = r.pattern.every((want, i) => (want.startsWith(":") ? parts[i] !== "" && (params[want.slice(1)] = parts[i], true) : want === parts[i]));
    if (fits) return { ...r, params };
  }
  return { page: null, params: {} };
}

const modules = new Map();

const loaded = signal(0); // counts modules that came, or did not

function load(name) {
  if (!name || modules.has(name)) return;
  modules.set(name, {});
  import(`./pages/${name}.js`).then((m) => ({ Page: m.default }), (error) => ({ error })).then((entry) => {
    modules.set(name, entry);
    loaded.value++;
  });
}

/** A page's component once its module is here; {error} if it cannot be had. */
function usePage(name) {
  load(name);
  return loaded.value >= 0 && (modules.get(name) ?? {});
}

load(match(route.value.parts).page); // before anything is drawn: its files are on their way

function App() {
  const { path, parts, query } = useRoute();
  const { page, tab, params } = match(parts);
  const run = params.run ?? null;
  const live = stream(run);
  const { Page, error } = usePage(page);
  const main = useRef(null), before = useRef(null);
  useEffect(() => {
    // A new page starts at its heading, for keyboards and screen readers; the first one leaves the focus alone.
    if (before.current !== null && before.current !== path) (main.current.querySelector("h1") ?? main.current).focus({ preventScroll: true });
    before.current = path;
  }, [path, Page]);
  const retry = () => location.reload();
  return html`
    <a class="skip" href="#main" onClick=${(e) => { e.preventDefault(); main.current.focus(); }}>Skip to the content</a>
    <header class="top"><${Brand} run=${run} live=${live} /><${Nav} run=${run} tab=${tab} />
      <div class="tools">${live && html`<${Connection} live=${live} />`}<${ThemeChoice} /></div></header>
    ${live && html`<${Lost} live=${live} />`}
    <main id="main" tabindex="-1" ref=${main}>
      ${page === null ? html`<h1>No such page</h1><${Empty} title="There is nothing at this address."><${Link} to="/">See all runs</${Link}></${Empty}>`
        : error ? html`<h1>This page did not load</h1><${ErrorBox} error=${error} retry=${retry} />`
        : Page ? html`<${Page} key=${page + (run ?? "")} run=${run} params=${params} query=${query} />`
        : html`<${Loading} />`}
    </main>`;
}

const Brand = ({ run, live }) => html`<div class="brand"><${Link} to="/" class="logo">Headrace</${Link}>
  ${run && html`<span class="slash" aria-hidden="true">/</span><${Link} to=${to("r", run)} class="runname" title=${run}>${run}</${Link}><${RunState} live=${live} />`}</div>`;

function RunState({ live }) {
  const s = live.state.value;
  if (!s || s.reading) return null;
  if (s.end) return html`<${Badge} kind=${["complete", "dataset_ended"].includes(s.end) ? "good" : "bad"} title=${s.end_text || "The run's end is recorded"}>ended</${Badge}>`;
  return s.live
    ? html`<${Badge} kind="good" title="A role was heard in the last 10 s">live</${Badge}>`
    : html`<${Badge} kind="warn" title="No role was heard in the last 10 s, and the run has no recorded end">silent</${Badge}>`;
}

function Nav({ run, tab }) {
  if (!run) return null;
  const items = [["run", "Run", to("r", run)], ["groups", "Groups", to("r", run, "groups")], ["letters", "Dead letters", to("r", run, "letters")]];
  return html`<nav aria-label="Run"><ul>${items.map(([id, label, address]) => html`<li key=${id}>
    <${Link} to=${address} aria-current=${tab === id ? "page" : undefined}>${label}</${Link}></li>`)}</ul></nav>`;
}

function Connection({ live }) {
  const c = live.connection.value;
  const kind = { live: "good", connecting: "plain", retrying: "bad", paused: "plain" }[c.status];
  return html`<div class=${"connection " + kind} role="status" aria-live="polite" title=${c.error ?? "This page is kept up to date by the server"}><i aria-hidden="true"></i>
    <span>${c.text}</span></div>`;
}

/** Says that what is seen is old, once a second attempt to reach the server has failed. */
function Lost({ live }) {
  const { status, attempt, error } = live.connection.value, s = live.state.value;
  if (status !== "retrying" || attempt < 2 || !s) return null;
  return html`<p class="lost"><strong>The numbers are those of ${clock(s.now)}.</strong> <${Ticks} text=${error} /></p>`;
}

const ThemeChoice = () => html`<${Choice} label="Theme" value=${choice.value} onChange=${setTheme}
  options=${[{ id: "light", label: "☀", title: "Light", name: "light" }, { id: "auto", label: "◐", title: "As the system", name: "as the system" }, { id: "dark", label: "☾", title: "Dark", name: "dark" }]} />`;

render(html`<${App} />`, document.getElementById("app"));

// A window of the whole fleet, handed to the trace viewer in another tab of this browser.
import { html, useState, useRef, useEffect } from "../../lib/preact.js";
import { api } from "../../lib/api.js";
import { Section, Choice, ErrorBox, bytes } from "../../lib/ui.js";

const viewer = "https://ui.perfetto.dev";
const patience = 30_000; // ms for the viewer's tab to answer

/** The panel that opens or saves a trace. */
export function Trace({ run, step, close }) {
  const [kind, setKind] = useState("last");
  const [window_, setWindow] = useState({ last: "60", from: Math.max(1, step - 1), to: Math.max(1, step) });
  const [said, say] = useState(""), [error, fail] = useState(null), [busy, work] = useState(false);
  const stop = useRef(null), box = useRef(null);
  useEffect(() => { box.current?.querySelector("button")?.focus(); return () => stop.current?.abort(); }, []);
  const set = (key) => (e) => setWindow({ ...window_, [key]: e.target.value });
  const query = kind === "last" ? { last: `${window_.last}s` } : { step: `${window_.from}..${window_.to}` };
  const path = api("runs", run, "trace", query);
  const title = `${run}, ${kind === "last" ? `last ${window_.last} s` : `steps ${window_.from} to ${window_.to}`}`;

  async function open() {
    const tab = window.open(viewer); // at once: a browser blocks what opens later
    stop.current?.abort();
    stop.current = new AbortController();
    fail(null); work(true); say("reading the trace…");
    try {
      if (!tab) throw new Error("The browser kept the new tab closed: allow pop-ups for this address, or download the file.");
      const buffer = await fetchTrace(path, stop.current.signal);
      say(`${bytes(buffer.byteLength)} read, waiting for the viewer…`);
      await handOver(tab, { buffer, title, fileName: `${run}.pftrace` }, stop.current.signal);
      say("It is in the viewer's tab.");
    } catch (e) {
      if (e.name !== "AbortError") fail(e);
      say("");
    }
    work(false);
  }

  return html`<div ref=${box} class="trace" onKeyDown=${(e) => e.key === "Escape" && close()}><${Section} title="Trace" aside=${html`<button type="button" class="quiet" onClick=${close}>close</button>`}
    note="Every role's spans of a window of the run: a process a role, a lane an episode, and arrows from a trajectory to the step that trained on it.">
    <div class="row">
      <${Choice} label="Window" value=${kind} onChange=${setKind} options=${[{ id: "last", label: "Last seconds" }, { id: "step", label: "Steps" }]} />
      ${kind === "last" ? html`<label>seconds <input type="number" min="1" max="3600" value=${window_.last} onInput=${set("last")} /></label>`
        : html`<label>from <input type="number" min="1" value=${window_.from} onInput=${set("from")} /></label><label>to <input type="number" min="1" value=${window_.to} onInput=${set("to")} /></label>`}
      <button type="button" class="primary" disabled=${busy} onClick=${open}>Open in ui.perfetto.dev</button>
      <a class="button" href=${path} download>Download</a>
      <span role="status" class="muted">${said}</span>
    </div>
    ${error && html`<${ErrorBox} error=${error} />`}
    <p class="note">The viewer's page comes from the internet. The trace itself goes from this page to that tab, inside this browser, and nowhere else. Without a network, download the file and open it later.</p>
  </${Section}></div>`;
}

async function fetchTrace(path, signal) {
  const answer = await fetch(path, { signal });
  if (answer.ok) return answer.arrayBuffer();
  const body = await answer.json().catch(() => null);
  throw new Error(body?.error ?? `The server answered with status ${answer.status}.`);
}

// handOver asks the tab until it answers, then posts the trace to it and to nobody else.
function handOver(tab, perfetto, signal) {
  return new Promise((done, fail) => {
    const end = (settle, value) => { clearInterval(ask); clearTimeout(limit); removeEventListener("message", hear); settle(value); };
    const hear = (e) => {
      if (e.source !== tab || e.origin !== viewer || e.data !== "PONG") return;
      tab.postMessage({ perfetto }, viewer);
      end(done);
    };
    const ask = setInterval(() => {
      if (tab.closed) end(fail, new Error("The viewer's tab was closed."));
      else tab.postMessage("PING", viewer);
    }, 100);
    const limit = setTimeout(() => end(fail, new Error(`${viewer} did not answer within ${patience / 1000} s. Is there a network? The download needs none.`)), patience);
    addEventListener("message", hear);
    signal.addEventListener("abort", () => end(fail, new DOMException("given up", "AbortError")));
  });
}

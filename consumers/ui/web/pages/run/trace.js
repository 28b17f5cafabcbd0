// A window of the whole fleet, handed to the trace viewer in another tab of this browser.
import { html, useState, useRef, useEffect } from "../../lib/preact.js";
import { api } from "../../lib/api.js";
import { openInPerfetto } from "../../lib/perfetto.js";
import { Section, Choice, ErrorBox } from "../../lib/ui.js";

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
    stop.current?.abort();
    stop.current = new AbortController();
    fail(null); work(true);
    try {
      await openInPerfetto(path, { title, fileName: `${run}.pftrace`, signal: stop.current.signal, say });
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

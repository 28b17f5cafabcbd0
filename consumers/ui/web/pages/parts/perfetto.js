/** A step's trace, as a file and in ui.perfetto.dev. */
import { html, useState, useRef, useEffect } from "../../lib/preact.js";
import { api } from "../../lib/api.js";
import { openInPerfetto } from "../../lib/perfetto.js";

/**
 * @param {{run: string, step: number}} props 0: the trajectory is in no batch
 */
export function OpenTrace({ run, step }) {
  const [said, say] = useState("");
  const stop = useRef(null);
  useEffect(() => () => stop.current?.abort(), []);
  if (!step) return html`<p class="muted">It is in no batch, so no step's trace has it; the command below draws any window.</p>`;
  const path = api("runs", run, "trace", { step: `${step}..${step}` });

  async function open() {
    stop.current?.abort();
    stop.current = new AbortController();
    try {
      await openInPerfetto(path, { title: `${run}, step ${step}`, fileName: `${run}-${step}.pftrace`, signal: stop.current.signal, say });
    } catch (e) {
      if (e.name !== "AbortError") say(e.message);
    }
  }

  return html`<div class="pager">
    <button type="button" title="Opens ui.perfetto.dev in a new tab; the trace goes from this tab to that one and nowhere else" onClick=${open}>Open step ${step} in Perfetto</button>
    <a class="button" href=${path} download>Download the trace</a>
    <span role="status" class="muted">${said}</span></div>`;
}

/** A step's trace, as a file and in ui.perfetto.dev. */
import { html, useState } from "../../lib/preact.js";
import { api } from "../../lib/api.js";

const VIEWER = "https://ui.perfetto.dev";

/**
 * @param {{run: string, step: number}} props 0: the trajectory is in no batch
 */
export function OpenTrace({ run, step }) {
  const [said, say] = useState("");
  if (!step) return html`<p class="muted">It is in no batch, so no step's trace has it; the command below draws any window.</p>`;
  const address = new URL(api("runs", run, "trace", { step: `${step}..${step}` }), document.baseURI).href;
  return html`<div class="pager">
    <button type="button" title="Opens ui.perfetto.dev in a new tab; the trace goes from this tab to that one and nowhere else" onClick=${() => show(address, `${run}, step ${step}`, say)}>Open step ${step} in Perfetto</button>
    <a class="button" href=${address} download>Download the trace</a>
    <span role="status" class="muted">${said}</span></div>`;
}

/** Perfetto's protocol: say PING until it answers PONG, then hand the bytes over. */
async function show(address, title, say) {
  const tab = window.open(VIEWER);
  if (!tab) return say("The browser kept the new tab from opening.");
  say("Reading the trace…");
  try {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error((await answer.json().catch(() => null))?.error ?? `status ${answer.status}`);
    const buffer = await answer.arrayBuffer();
    await ready(tab);
    tab.postMessage({ perfetto: { buffer, title } }, VIEWER);
    say("");
  } catch (e) {
    say(`${e.message}. The file can be downloaded and opened there by hand.`);
  }
}

function ready(tab) {
  return new Promise((resolve, reject) => {
    const ping = setInterval(() => tab.postMessage("PING", VIEWER), 100);
    const late = setTimeout(() => end(() => reject(new Error("ui.perfetto.dev did not answer"))), 30_000);
    const hear = (e) => e.origin === VIEWER && e.data === "PONG" && end(resolve);
    function end(then) {
      clearInterval(ping);
      clearTimeout(late);
      removeEventListener("message", hear);
      then();
    }
    addEventListener("message", hear);
  });
}

// A trace of the run, handed to the viewer of Perfetto in another tab of this browser: it is asked PING until it
// answers PONG, and then gets the bytes, which go nowhere else.
import { bytes } from "./format.js";

/** Where the viewer's page comes from. */
export const viewer = "https://ui.perfetto.dev";
const patience = 30_000; // ms for the viewer's tab to answer

/**
 * Reads the trace at a path of the API and opens it in a new tab. To be called by a click: a browser keeps tabs
 * from opening otherwise. The error is a sentence, or an AbortError.
 * @param {string} path
 * @param {{title: string, fileName: string, signal: AbortSignal, say: function(string)}} o say is told what goes on
 */
export async function openInPerfetto(path, { title, fileName, signal, say }) {
  const tab = window.open(viewer);
  if (!tab) throw new Error("The browser kept the new tab closed: allow pop-ups for this address, or download the file.");
  say("reading the trace…");
  const answer = await fetch(new URL(path, document.baseURI), { signal });
  if (!answer.ok) throw new Error((await answer.json().catch(() => null))?.error ?? `The server answered with status ${answer.status}.`);
  const buffer = await answer.arrayBuffer();
  say(`${bytes(buffer.byteLength)} read, waiting for the viewer…`);
  await handOver(tab, { buffer, title, fileName }, signal);
  say("It is in the viewer's tab.");
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

// What the server answers: one call for a document, one hook that keeps it, and stream (below) for what lives.
import { useEffect, useState } from "./preact.js";
export { stream } from "./stream.js";

/**
 * Fetches JSON from the API. Its errors are sentences for people, with .status (0: not reached).
 * @param {string} path below the base, such as "api/runs"; build it with `api("runs", run, "groups", {limit: 50})`
 * @param {{signal?: AbortSignal}} [options]
 */
export async function get(path, { signal } = {}) {
  let answer;
  try {
    answer = await fetch(new URL(path.replace(/^\//, ""), document.baseURI), { signal, headers: { Accept: "application/json" } });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw fault(0, "The server does not answer. Is `headrace ui` still running?");
  }
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw fault(answer.status, body?.error ?? sentence(answer.status));
  if (body === null) throw fault(answer.status, "The server's answer is no JSON.");
  return body;
}

function sentence(status) {
  if (status === 401) return "This browser has no token for the server: open the address that `headrace ui` printed.";
  if (status === 404) return "There is nothing at this address.";
  return `The server answered with status ${status}.`;
}

function fault(status, text) {
  return Object.assign(new Error(text), { status });
}

/** Builds an API path from raw segments and a query: api("runs", run, "groups", {outcome: "kept"}). */
export function api(...segments) {
  const last = segments.at(-1);
  const query = last !== null && typeof last === "object" ? segments.pop() : {};
  const kept = Object.entries(query).filter(([, v]) => v !== "" && v !== null && v !== undefined);
  const search = new URLSearchParams(kept.map(([k, v]) => [k, String(v)])).toString();
  return "api/" + segments.map(encodeURIComponent).join("/") + (search ? "?" + search : "");
}

/**
 * Keeps the answer of a path in a component: {data, error, loading, reload}. A new path aborts the old request; the old
 * answer stays until the new one is there. Give `every` (seconds) to ask again while the tab is seen.
 */
export function useGet(path, { every = 0 } = {}) {
  const [state, set] = useState({ data: null, error: null, loading: true, path });
  const [turn, setTurn] = useState(0);
  useEffect(() => {
    if (!path) return undefined;
    const abort = new AbortController();
    set((old) => ({ ...old, loading: true }));
    get(path, { signal: abort.signal }).then(
      (data) => set({ data, error: null, loading: false, path }),
      (error) => error.name !== "AbortError" && set((old) => ({ data: old.path === path ? old.data : null, error, loading: false, path })),
    );
    return () => abort.abort();
  }, [path, turn]);
  useEffect(() => {
    if (!every) return undefined;
    const timer = setInterval(() => document.visibilityState === "visible" && setTurn((n) => n + 1), every * 1000);
    return () => clearInterval(timer);
  }, [path, every]);
  return { ...state, reload: () => setTurn((n) => n + 1) };
}

// One live run: four signals fed by one EventSource. What arrives replaces or extends what is held, within bounds;
// a snapshot comes with every connection, and a gap in the points means: ask for the series again.
import { signal, batch } from "../vendor/signals.js";
import { get, api } from "./api.js";
import { addPoint, maxSteps, mergeSteps, noSteps } from "./columns.js";

const spans = { short: 600, long: 43200 }; // seconds; the server keeps 1 s points for the first, 10 s means for the second
/** How many ms a tab may be out of sight before it hangs up. */
export const patience = { hidden: 60_000 };
const overlap = 200; // steps asked for again after a break, since they may have changed
const slowly = 20_000; // ms between attempts at what was refused
let current = null;

/**
 * The live state of a run. The same run answers the same stream; another run closes the one before; null closes it.
 * @returns {{run: string, state: Signal, steps: Signal, series: Signal, span: Signal, connection: Signal, setSpan: function, close: function}}
 *   state: board.State or null before the first; .reading: it is of the log's beginning; steps: columns; series: columns of `span` seconds;
 *   connection: {status: "connecting"|"live"|"retrying"|"paused", text, error, retryAt (ms), attempt}
 */
export function stream(run) {
  if (current?.run === run) return current;
  current?.close();
  current = run ? open(run) : null;
  return current;
}

function open(run) {
  const s = {
    run, state: signal(null), steps: signal(noSteps()), series: signal({ at: [] }), span: signal(spans.short),
    connection: signal({ status: "connecting", text: "connecting", error: null, retryAt: 0, attempt: 0 }),
  };
  let source = null, timer = 0, attempt = 0, n = null, closed = false, hidden = 0, asking = null, meanwhile = null, slow = 0, slower = 0;

  const tell = (status, text, error = null, retryAt = 0) => { s.connection.value = { status, text, error, retryAt, attempt }; };
  const hang = () => { source?.close(); source = null; clearTimeout(timer); };

  function connect() {
    hang();
    if (closed) return;
    tell("connecting", attempt ? "reconnecting" : "connecting", s.connection.value.error);
    source = new EventSource(new URL(api("runs", run, "events"), document.baseURI));
    let due = true; // steps and series are to be asked for
    on("open", () => { attempt = 0; n = null; tell("live", "connected"); });
    on("state", (e) => {
      s.state.value = JSON.parse(e.data);
      due ||= s.state.value.reading;
      if (!due || s.state.value.reading) return;
      due = false;
      refill();
    });
    on("steps", (e) => take(steps, unwrap(e)));
    on("point", (e) => take(point, JSON.parse(e.data)));
    on("bye", () => lost("The server stopped."));
    on("error", () => lost("The connection broke."));
  }

  // on hears one kind of event of the present connection; what cannot be read is left out, and said once.
  function on(kind, hear) {
    const own = source;
    own.addEventListener(kind, (e) => {
      if (own !== source) return;
      try { hear(e); } catch (fault) { tell("live", "connected", `An event of kind ${kind} could not be read: ${fault.message}`); }
    });
  }

  async function lost(text) {
    hang();
    attempt++;
    const wait = Math.min(30_000, 500 * 2 ** attempt) * (0.75 + Math.random() / 2);
    tell("retrying", "reconnecting", text, Date.now() + wait);
    timer = setTimeout(connect, wait);
    // An EventSource does not say why: ask the API, whose answer is a sentence.
    const own = timer, reason = await get(api("runs", run)).then(() => null, (e) => e);
    if (!reason || closed || own !== timer) return;
    tell("retrying", refused(reason) ? "refused" : "reconnecting", reason.message, s.connection.value.retryAt);
    if (refused(reason)) { // it will hardly be there in a second
      clearTimeout(timer);
      timer = setTimeout(connect, slowly);
    }
  }

  // take applies an event, and again on top of an answer that was on its way meanwhile and may be older.
  function take(apply, value) {
    meanwhile?.push(() => apply(value));
    apply(value);
  }

  function steps(columns) { s.steps.value = mergeSteps(s.steps.value, columns); }

  function point(row) {
    const gap = n !== null && row.n > n + 1;
    n = Math.max(n ?? 0, row.n);
    if (gap) refill();
    else if (s.span.value === spans.short && !(row.at <= s.series.value.at.at(-1))) s.series.value = addPoint(s.series.value, row, spans.short);
  }

  // refill asks for the series (and, after a break, the steps) again.
  async function refill() {
    asking?.abort();
    clearTimeout(slower);
    asking = new AbortController();
    const { signal: abort } = asking, late = (meanwhile = []);
    const last = s.steps.value.step.at(-1) ?? 0, newest = s.state.value?.step?.cut ?? 0;
    const from = Math.max(last - overlap, newest - maxSteps, 0);
    try {
      const [series, known] = await Promise.all([
        get(api("runs", run, "series", { span: s.span.value }), { signal: abort }),
        get(api("runs", run, "steps", { from }), { signal: abort }),
      ]);
      if (abort.aborted) return;
      meanwhile = null;
      batch(() => {
        s.series.value = lists(series.columns);
        s.steps.value = mergeSteps(s.steps.value, known.columns);
        late.forEach((again) => again());
      });
    } catch {
      if (meanwhile === late) meanwhile = null;
      if (!abort.aborted && source) slower = setTimeout(refill, 5000); // without a source, the next connection asks
    }
  }

  // A hidden tab hangs up after a minute (a browser has six connections to a server) and catches up when seen.
  function seen() {
    clearTimeout(hidden);
    if (document.visibilityState === "hidden") {
      hidden = setTimeout(() => { hang(); tell("paused", "paused while the tab is hidden"); }, patience.hidden);
    } else if (!source) { attempt = 0; connect(); }
  }
  // A page that is left may be kept for "back", and its connection with it, of which a browser has six to a server.
  const back = (e) => { if (e.persisted) { attempt = 0; connect(); } };
  document.addEventListener("visibilitychange", seen);
  addEventListener("online", seen);
  addEventListener("pagehide", hang);
  addEventListener("pageshow", back);

  /** Chooses how far back the series reaches: 600 s of points, or 43200 s of means asked for every 10 s. */
  s.setSpan = (span) => {
    s.span.value = span;
    clearInterval(slow);
    if (span !== spans.short) slow = setInterval(() => source && refill(), 10_000);
    refill();
  };
  s.close = () => {
    closed = true;
    hang();
    asking?.abort();
    [hidden, slower].forEach(clearTimeout);
    clearInterval(slow);
    document.removeEventListener("visibilitychange", seen);
    removeEventListener("online", seen);
    removeEventListener("pagehide", hang);
    removeEventListener("pageshow", back);
    if (current === s) current = null;
  };
  connect();
  return s;
}

const refused = (e) => [401, 403, 404].includes(e.status);
const unwrap = (e) => { const v = JSON.parse(e.data); return v.columns ?? v; };
// lists keeps the columns of a series and leaves counters out.
const lists = (columns) => Object.fromEntries(Object.entries(columns).filter(([, v]) => Array.isArray(v)));

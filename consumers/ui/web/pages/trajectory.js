/** One trajectory, down to its tokens. */
import { html } from "../lib/preact.js";
import { api, useGet } from "../lib/api.js";
import { Link, to, useRoute } from "../lib/router.js";
import { Command, Copy, ErrorBox, Fold, Loading, Page, Section, bytes, clock, int, none, seconds } from "../lib/ui.js";
import { Conversation } from "./parts/conversation.js";
import { Status, points, reward, sentence, span } from "./parts/names.js";
import { OpenTrace } from "./parts/perfetto.js";
import { SegmentTree } from "./parts/segments.js";
import { Timeline } from "./parts/timeline.js";
import { TokenView } from "./parts/tokenview.js";
import { Traits } from "./parts/traits.js";

/** The page at /r/RUN/t/GROUP/SLOT/ATTEMPT. */
export default function Trajectory() {
  const { parts } = useRoute();
  const [, run, , group, slot, attempt] = parts;
  const id = `${group}/${slot}/${attempt}`;
  const { data: t, error, loading, reload } = useGet(api("runs", run, "trajectories", group, slot, attempt));
  const title = `Trajectory ${id}`;
  if (t?.id !== id) {
    return html`<${Page} title=${title}>${error ? html`<${ErrorBox} error=${error} retry=${reload} />` : loading && html`<${Loading}>Reading the trajectory…<//>`}<//>`;
  }
  const lead = html`<${Status} status=${t.status} reason=${t.reason} /> <bdi>${t.environment}</bdi> of group <${Link} to=${to("r", run, "g", group)}><bdi>${group}</bdi><//>`;
  return html`<${Page} title=${title} lead=${lead}>
    <p class="verdict">${fate(t)}</p>
    <${Head} t=${t} />
    <div class="reading">
      <${Section} title="Conversation"><${Conversation} messages=${t.messages} /><//>
      <div>
        <${Section} title="Tokens" note=${t.segments?.length > 1 ? "Its history was rewritten: each segment is one row for the trainer." : ""}>
          <${SegmentTree} segments=${t.segments ?? []} />
          <${TokenView} key=${id} segments=${t.segments ?? []} text=${t.text} /><//>
        <${Section} title="Turns"><${Timeline} turns=${t.turns} spent=${t.turn_seconds} /><//>
      </div>
    </div>
    <${Section} title="Take it elsewhere">
      ${Object.entries(t.commands ?? {}).map(([key, text]) => html`<${Command} key=${key} text=${text} />`)}
      <${OpenTrace} run=${run} step=${t.step} />
    <//>
    <${Raw} t=${t} />
  <//>`;
}

function fate(t) {
  const reason = t.reason ? html` It ended so: <bdi>${t.reason}</bdi>.` : "";
  if (t.kind === "eval") return html`Played to measure the policy after step ${t.round}; nothing trains on it.${reason}`;
  return html`${t.masked ? `In the batch of step ${t.step} for its reward alone: its tokens are masked.` : t.used ? (t.step ? `Used in the batch of step ${t.step}.` : "A member of its group.") : sentence(t.why) || "Not used."}${reason}`;
}

function Head({ t }) {
  const s = t.sampling ?? {};
  const versions = (t.segments ?? []).flatMap((g) => g.versions ?? []).map((v) => v.version);
  const started = Date.parse(t.started) / 1000, finished = Date.parse(t.finished) / 1000;
  return html`<${Traits} of=${[
    ["reward", reward(t) === none ? "" : html`<b>${reward(t)}</b>`, "it failed"],
    ...Object.entries(t.components ?? {}).map(([name, v]) => [name, points(v)]),
    ["advantage", t.advantage === null || t.advantage === undefined ? "" : points(t.advantage, true), "in no batch"],
    ["versions", versions.length ? span(Math.min(...versions), Math.max(...versions)) : "", "nothing was sampled"],
    ["producer", t.producer && html`<bdi>${t.producer}</bdi>`, "not said"],
    ["engine", t.engine && html`<bdi>${t.engine}</bdi>`, "none answered"],
    ["vocabulary", t.tokenizer && html`<bdi>${t.tokenizer}</bdi>`, "not said"],
    ["seed", String(t.seed)],
    ["sampling", s.temperature === 0 ? "greedy" : `temperature ${s.temperature}, top-p ${s.top_p || 1}${s.top_k ? `, top-k ${s.top_k}` : ""}`],
    ["tokens a call", s.max_new_tokens ? `at most ${int(s.max_new_tokens)}` : "", "not bounded"],
    ["started", started > 0 ? clock(started) : "", "not said"],
    ["took", finished > started ? seconds(finished - started) : "", "not said"],
    ["in the log", t.address ? `message ${t.address.seq}, place ${t.address.index}` : "", "not known"],
    ["size", bytes(t.bytes), "not known"],
  ]} />`;
}

function Raw({ t }) {
  return html`<${Section} title="Raw record">
    ${t.task !== undefined && t.task !== null && html`<${Fold} summary="Task">${() => html`<pre class="raw" dir="auto" tabindex="0">${JSON.stringify(t.task, null, 2)}</pre>`}<//>`}
    <${Fold} summary="All of it as JSON">${() => html`<${Record} text=${JSON.stringify(t, null, 2)} />`}<//>
  <//>`;
}

/** More than this is not drawn; the copy button has it all. */
const MOST = 200_000;

function Record({ text }) {
  return html`<${Copy} text=${text} label="Copy the record" />
    ${text.length > MOST && html`<p class="muted">The first ${int(MOST)} of ${int(text.length)} characters; the button copies all.</p>`}
    <pre class="raw" tabindex="0">${text.slice(0, MOST)}</pre>`;
}

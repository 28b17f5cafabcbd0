// What one wants to know in five seconds: how far, how good, what limits it, whether it stands.
import { html } from "../../lib/preact.js";
import { Stat, Bar, Badge, Num, Ticks, int, fixed, figures, short, bytes, seconds, percent, words } from "../../lib/ui.js";

/** The panel at the top of a run's page. */
export function Top({ live }) {
  const s = live.state.value, steps = live.steps.value;
  return html`<section class="panel wide top5" aria-label="The run in short">
    <dl class="stats">
      <${Step} s=${s} /><${RewardNow} s=${s} steps=${steps} />
      <${Stat} label="trainer waits" value=${s.trainer?.recent?.wait ?? s.trainer?.wait_fraction} as=${percent} title="Part of the trainer's last minute, or of its last steps where they are long, that it waited for a batch"
        why="no trainer has stepped yet" sub=${known(s.trainer?.wait_fraction) ? `${percent(s.trainer.wait_fraction)} since the start` : "no step yet"} />
      <${Stat} label="engines busy" value=${busy(s.engines)} as=${percent} title="Part of the last ten seconds that the engines' devices computed, mean over engines" why="no engine says how busy it is"
        sub=${`${int((s.engines ?? []).filter((e) => e.ready).length)} of ${int((s.engines ?? []).length)} ready`} />
      <${Stat} label="trajectories" value=${s.rates?.trajectories_per_second} as=${figures} unit="/s" title="Trajectories that arrived per second, over the last ten seconds" why="the grouper is not heard"
        sub=${`${int(s.trajectories?.produced)} so far`} />
      <${Stat} label="tokens sampled" value=${s.rates?.tokens_per_second} as=${short} unit="/s" title="Tokens the engines sampled per second, over the last ten seconds" why="no engine reports its tokens"
        sub=${known(s.rates?.trained_tokens_per_second) ? `trained on ${short(s.rates.trained_tokens_per_second)} /s` : "none trained on yet"} />
      <${Stat} label="on the bus" value=${s.rates?.bytes_per_second} as=${bytes} unit="/s" title="Bytes of trajectories that crossed the bus per second" why="the grouper is not heard" />
    </dl>
    <${Warming} s=${s} /><${End} s=${s} /><${Stall} stall=${s.stall} now=${s.now} knob=${stalled(s)?.knob} /><${Advice} advice=${(s.advice ?? []).filter((a) => a !== stalled(s))} now=${s.now} over=${!!s.end} />
  </section>`;
}

function Step({ s }) {
  const { committed = 0, cut = 0, max = 0 } = s.step ?? {};
  return html`<${Stat} label="step" sub=${cut > 0 ? `batch ${int(cut)} is cut` : "no batch yet"}>
    <span class="num" title="Steps the trainer has applied">${int(committed)}<span class="unit"> ${max ? `of ${int(max)}` : "no limit set"}</span></span>
    ${max > 0 && html`<${Bar} small legend=${false} label="Steps applied" total=${max} as=${int} parts=${[{ label: "applied", value: Math.min(committed, max), colour: "--accent" }]} />`}</${Stat}>`;
}

// RewardNow is the mean over the last ten steps that have one, and the newest held-out score.
function RewardNow({ s, steps }) {
  const last = (steps.reward ?? []).filter((v) => v !== null).slice(-10), std = (steps.reward_std ?? []).filter((v) => v !== null).at(-1);
  const mean = last.length ? last.reduce((a, b) => a + b, 0) / last.length : null;
  const held = (s.evals ?? []).filter((e) => e.greedy !== null || e.sampled !== null).at(-1);
  const sub = held ? `held out ${fixed(held.greedy ?? held.sampled)} ${held.greedy !== null ? "greedy" : "sampled"} @${int(held.round)}` : "not evaluated yet";
  return html`<${Stat} label="reward" sub=${sub}>
    <${Num} value=${mean} as=${fixed} title=${`Mean reward of the last ${last.length} batches`} why="no batch was cut yet" />
    ${std !== undefined && html`<span class="unit" title="Standard deviation of the rewards in the newest batch"> ± ${fixed(std, 2)}</span>`}</${Stat}>`;
}

const known = (v) => v !== null && v !== undefined;

function busy(engines = []) {
  const all = engines.map((e) => e.busy).filter(known);
  return all.length ? all.reduce((a, b) => a + b, 0) / all.length : null;
}

// Warming says what the run is at before its first step: in words of the roles themselves.
function Warming({ s }) {
  if (s.step?.committed > 0 || s.end) return null;
  const said = (s.roles ?? []).filter((r) => r.text);
  if (said.length === 0) return null;
  return html`<ul class="warming" aria-label="What the roles are at">${said.map((r) => html`<li key=${r.role + r.instance}><span class="muted">${r.role}</span> <bdi>${r.text}</bdi></li>`)}</ul>`;
}

// Why a run can end, where it does not say so in its own words.
const ends = {
  complete: "Its last step is trained and evaluated.", dataset_ended: "The dataset ended, and all of it that makes a batch is trained.", empty_dataset: "There was nothing to play.",
  all_stale: "Every group was too old for its batch.", all_filtered: "Every group was dropped.", no_producers: "Nobody played.", engine_gone: "No engine served.",
  disk_full: "There was no room for what is produced or decided.", cancelled: "Somebody cancelled it.",
};

const End = ({ s }) => (s.end ? html`<p class="say end"><${Badge} kind=${achieved(s) ? "good" : "bad"} title=${words(s.end)}>ended</${Badge}> <${Ticks} text=${s.end_text || ends[s.end] || words(s.end)} /></p>` : null);
const achieved = (s) => ["complete", "dataset_ended"].includes(s.end);

// stalled is the adviser's word for what the watchdog has said already: only its knob is news.
const stalled = (s) => (s.stall ? (s.advice ?? []).find((a) => a.code === "stall") : undefined);

const Stall = ({ stall, now, knob }) => (stall ? html`<p class="say stall"><${Badge} kind="bad" title=${stall.code}>stands</${Badge}> <span role="alert"><${Ticks} text=${stall.text} /></span>
  <small class="muted"> ${words(stall.stage)}${stall.since ? `, for ${seconds(Math.max(0, now - stall.since))}` : ""}</small>${knob ? html`<span class="knob"><span class="muted">turn: </span><${Ticks} text=${knob} /></span>` : null}</p>` : null);

// What the adviser says when nothing needs turning, and the word before it.
const calm = { not_enough_data: "too early", balanced: "balanced" };

// The first sentence is what limits the run now; the others follow more quietly.
function Advice({ advice, now, over }) {
  if (advice.length === 0) return null;
  return html`<ul class="advice" aria-label="What limits the run">${advice.map((a, i) => html`<li key=${a.code} class=${i === 0 ? "first" : ""}>
    <p><${Badge} kind=${i === 0 && !over && !calm[a.code] ? "accent" : "plain"} title=${words(a.code)}>${calm[a.code] ?? (i > 0 ? "also" : over ? "limited it last" : "limits it now")}</${Badge}> <${Ticks} text=${a.text} /></p>
    ${a.knob && a.knob !== "wait" && html`<p class="knob"><span class="muted">turn: </span><${Ticks} text=${a.knob} /></p>`}
    <ul class="evidence">${(a.evidence ?? []).map((e) => html`<li key=${e.name}>${e.name} <b class="num">${evidence(e)}</b></li>`)}
      ${a.since && !over ? html`<li class="muted">for ${seconds(Math.max(0, now - a.since))}</li>` : null}</ul></li>`)}</ul>`;
}

function evidence({ value, unit }) {
  if (unit === "%") return `${figures(value)} %`;
  if (["fraction", "ratio", "of 1", "part"].includes(unit)) return percent(value);
  if (["s", "seconds"].includes(unit)) return seconds(value);
  if (["B", "bytes"].includes(unit)) return bytes(value);
  return `${figures(value)}${unit ? ` ${unit}` : ""}`;
}

/** Words and addresses that the reading pages share. */
import { html } from "../../lib/preact.js";
import { Badge, figures, fixed, none, words } from "../../lib/ui.js";
import { to } from "../../lib/router.js";

/** The outcomes of a group, in the order a filter lists them. */
export const outcomes = ["open", "kept", "partial", "zero_variance", "expired", "too_few", "stale", "cancelled", "evaluated"];
/** The statuses of a trajectory. */
export const statuses = ["succeeded", "truncated", "overlong", "failed", "aborted"];

const meaning = {
  open: "still being played",
  kept: "goes into a batch, whole",
  partial: "goes into a batch with fewer trajectories than it asked for",
  zero_variance: "dropped: all rewards are equal, so there is nothing to learn",
  expired: "dropped: its deadline passed before enough had arrived",
  too_few: "dropped: too many slots failed for good",
  stale: "dropped: too old when its batch was cut",
  cancelled: "dropped: the run ended first",
  evaluated: "played to measure the policy: nothing trains on it",
};
const kinds = { open: "accent", kept: "good", partial: "good", zero_variance: "plain", evaluated: "plain" };

/** @param {{outcome: string}} props a group's, as a badge that explains itself */
export const Outcome = ({ outcome }) => html`<${Badge} kind=${kinds[outcome] ?? "warn"} title=${meaning[outcome]}>${words(outcome)}<//>`;

/** What an outcome means, for titles. */
export const outcomeText = (outcome) => meaning[outcome] ?? "";

const moods = { succeeded: "good", truncated: "warn", overlong: "warn" };
/** @param {{status: string, reason?: string}} props a trajectory's */
export const Status = ({ status, reason }) => html`<${Badge} kind=${moods[status] ?? "bad"} title=${reason || undefined}>${status}<//>`;

/** Versions from oldest to newest: "11", "11–12", or "–" where nothing was sampled. */
export function span(low, high) {
  if (low === null || low === undefined || low < 0) return none;
  return low === high ? String(low) : `${low}–${high}`;
}

/** Mean and standard deviation of a group's rewards, or "–" before there is one. */
export const meanStd = (g) => (g.reward_mean === null || g.reward_mean === undefined ? none : `${figures(g.reward_mean)} ± ${figures(g.reward_std)}`);

/** A reward or an advantage; signed where the sign is the point. */
export const points = (v, signed = false) => (signed && v > 0 ? "+" : "") + (v === null || v === undefined ? none : String(+fixed(v, 4)));

/** A trajectory's reward; one that failed has none, whatever its record says. */
export const reward = (t) => (t.status === "failed" || t.status === "aborted" ? none : points(t.reward));

/** A sentence that begins like one. */
export const sentence = (text) => (text ? text[0].toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : ".") : "");

/** The page of a trajectory "group/slot/attempt" in a run. */
export const trajectoryAddress = (run, id) => to("r", run, "t", ...id.split("/"));

// The processes of a run: who plays, and what each role says of itself.
import { html } from "../../lib/preact.js";
import { Section, Table, Badge, Bar, Num, int, percent, ago } from "../../lib/ui.js";

/** Producers with their heartbeats, those heard of last first. */
export function Producers({ s }) {
  const producers = s.producers ?? [], total = s.producers_total ?? producers.length;
  const late = producers.filter((p) => p.heard > 10).length;
  return html`<${Section} title="Producers" aside=${`${int(total)} seen${late ? `, ${int(late)} silent for more than 10 s` : ""}`}>
    <${Table} caption="Producers, those heard of last first" hideCaption columns=${columns} rows=${producers} few=${8} total=${total} rowKey=${(p) => p.name} empty="No producer has joined yet. One command does: headrace produce." />
  </${Section}>`;
}

const columns = [
  { key: "name", label: "producer", head: true, render: (p) => html`<bdi>${p.name}</bdi>${p.blocked && html` <${Badge} kind="warn" title="ROLLOUTS is full, or the bus is gone: it holds what it played">blocked</${Badge}>`}` },
  { key: "live", label: "playing", num: true, title: "Episodes it plays, of its slots", render: (p) => html`<${Num} value=${p.live} as=${int} title="Episodes in play" why="not heard lately" /><span class="unit"> / <${Num} value=${p.slots} as=${int} title="Slots" /></span>` },
  { key: "published", label: "published", num: true, title: "Trajectories since it started", render: (p) => html`<${Num} value=${p.published} as=${int} />` },
  { key: "failed", label: "failed", num: true, title: "Episodes that an engine or environment failed", render: (p) => html`<${Num} value=${p.failed} as=${int} />` },
  { key: "time", wide: true, label: "its episodes' time", title: "In calls of an engine and of the environment, last minute", render: (p) => html`<${EpisodeTime} p=${p} />` },
  { key: "heard", label: "heard", num: true, render: (p) => html`<span class=${p.heard > 10 ? "late num nowrap" : "num nowrap"}>${ago(p.heard)}</span>` },
];

function EpisodeTime({ p }) {
  if (p.generate_fraction === null || p.generate_fraction === undefined) return html`<${Num} value=${null} why="no episode ended in the last minute" />`;
  const env = p.env_fraction ?? 0;
  return html`<${Bar} small legend=${false} total=${1} label=${`Episode time of ${p.name}`} parts=${[{ label: "engine", value: p.generate_fraction, colour: "--c1" }, { label: "environment", value: Math.min(env, 1 - p.generate_fraction), colour: "--c3" }]} />
    <small class="muted num">${percent(p.generate_fraction)} engine, ${percent(env)} environment</small>`;
}

/** What the other roles say of themselves. */
export function Roles({ s }) {
  const roles = s.roles ?? [];
  return html`<${Section} wide title="Roles" aside="what each process says of itself">
    <${Table} caption="Roles of the run" hideCaption rows=${roles} rowKey=${(r) => `${r.role}/${r.instance}`} empty="No role is heard." columns=${[
      { key: "role", label: "role", head: true, render: (r) => html`<bdi>${r.role}</bdi>` },
      { key: "instance", label: "instance", render: (r) => html`<bdi>${r.instance}</bdi>` },
      { key: "text", wide: true, label: "says", render: (r) => html`<bdi>${r.text || "–"}</bdi>` },
      { key: "heard", label: "heard", num: true, render: (r) => html`<span class=${r.heard > 10 ? "late num nowrap" : "num nowrap"}>${ago(r.heard)}</span>` },
    ]} /></${Section}>`;
}

// One run, live: at the top what one wants to know in five seconds, below it where everything goes.
import { html, useState } from "../lib/preact.js";
import { stream } from "../lib/api.js";
import { Page, Badge, ErrorBox, Loading, int } from "../lib/ui.js";
import { Top } from "./run/top.js";
import { Flow } from "./run/flow.js";
import { Reward, Throughput, Fractions, Metrics } from "./run/curves.js";
import { TrainerTime } from "./run/trainer.js";
import { Engines, Syncs } from "./run/engines.js";
import { Outcomes, Staleness, Ages } from "./run/groups.js";
import { Producers, Roles } from "./run/fleet.js";
import { Trace } from "./run/trace.js";

/** The page at /r/RUN. */
export default function Run({ run }) {
  const live = stream(run);
  const [tracing, trace] = useState(false);
  const told = live.state.value, fault = live.connection.value.error;
  const s = told?.reading ? null : told; // of the log's beginning nothing is shown but how far it is
  const lead = s && html`${s.recipe && html`recipe <bdi>${s.recipe}</bdi> `}${(s.environments ?? []).map((e) => html`<${Badge} key=${e} title="environment"><bdi>${e}</bdi></${Badge}> `)}`;
  const actions = html`<button type="button" aria-expanded=${tracing} onClick=${() => trace(!tracing)}>Open in Perfetto…</button>`;
  return html`<${Page} title=${run} lead=${lead} actions=${s && actions}>
    ${tracing && html`<${Trace} run=${run} step=${s?.step?.committed ?? 0} close=${() => trace(false)} />`}
    ${!s && (fault ? html`<${ErrorBox} error=${fault} />` : html`<${Loading}>Reading the run${told?.step?.committed ? `, up to step ${int(told.step.committed)}` : ""}…</${Loading}>`)}
    ${s && html`<div class="grid">
      <${Top} live=${live} />
      <${Flow} s=${s} />
      <${Reward} live=${live} /><${TrainerTime} s=${s} />
      <${Throughput} live=${live} /><${Fractions} live=${live} />
      <${Engines} s=${s} />
      <${Outcomes} run=${run} s=${s} /><${Staleness} s=${s} /><${Ages} s=${s} />
      <${Producers} s=${s} /><${Syncs} s=${s} />
      <${Metrics} live=${live} />
      <${Roles} s=${s} />
    </div>`}
  </${Page}>`;
}

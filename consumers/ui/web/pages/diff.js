/** Two trajectories, and where they part. */
import { html } from "../lib/preact.js";
import { api, useGet } from "../lib/api.js";
import { Link, to, useRoute } from "../lib/router.js";
import { ErrorBox, Loading, Page, Section } from "../lib/ui.js";
import { trajectoryAddress } from "./parts/names.js";
import { TurnDiff, firstMessage } from "./parts/turndiff.js";
import { Facts, Tokens } from "./parts/versus.js";

/** The page at /r/RUN/diff/GROUP/SLOT/ATTEMPT/GROUP/SLOT/ATTEMPT. */
export default function Diff() {
  const { parts } = useRoute();
  const run = parts[1], one = parts.slice(3, 6), two = parts.slice(6, 9);
  const names = [one.join("/"), two.join("/")];
  const left = useGet(api("runs", run, "trajectories", ...one)), right = useGet(api("runs", run, "trajectories", ...two));
  const a = left.data?.id === names[0] ? left.data : null, b = right.data?.id === names[1] ? right.data : null;
  const links = names.map((n) => html`<${Link} to=${trajectoryAddress(run, n)}><bdi>${n}</bdi><//>`);
  const other = html`<${Link} to=${to("r", run, "diff", ...two, ...one)}>Swap them<//> <${Link} to=${to("r", run, "g", one[0])}>Back to the group<//>`;
  return html`<${Page} title="Compare two trajectories" lead=${html`${links[0]} and ${links[1]}`} actions=${other}>
    ${[left, right].filter((s) => s.error).map((s) => html`<${ErrorBox} error=${s.error} retry=${s.reload} />`)}
    ${(!a || !b) && !left.error && !right.error && html`<${Loading}>Reading both…<//>`}
    ${a && b && html`<${Both} a=${a} b=${b} names=${names} links=${links} />`}
  <//>`;
}

function Both({ a, b, names, links }) {
  const first = firstMessage(a.messages ?? [], b.messages ?? []);
  return html`
    <p class="verdict">${first < 0 ? "Their messages are the same." : html`Their messages part at message ${first + 1}. <a href="#first-difference" onClick=${jump}>Go there</a>`}</p>
    <${Section} title="Facts"><${Facts} a=${a} b=${b} names=${links} /><//>
    <${Section} title="Tokens"><${Tokens} a=${a} b=${b} names=${names} /><//>
    <${Section} title="Messages"><${TurnDiff} a=${a.messages ?? []} b=${b.messages ?? []} names=${names} /><//>`;
}

function jump(e) {
  e.preventDefault(); // a bare #… would leave the page: the base address is another
  document.getElementById("first-difference")?.scrollIntoView({ block: "center" });
}

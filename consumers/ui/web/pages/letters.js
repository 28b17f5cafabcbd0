import { html } from "../lib/preact.js";
import { Page, Loading } from "../lib/ui.js";

export default () => html`<${Page} title="letters"><${Loading} /></${Page}>`;

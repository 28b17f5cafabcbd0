/**
 * A browser keeps pages that were left, with their connections, and allows a server six of them: a page that listens to
 * events must hang up when it is left, or the seventh address typed into a tab never loads. Importing this is enough.
 */
import { stream } from "../../lib/api.js";

addEventListener("pagehide", () => stream(null));
addEventListener("pageshow", (e) => e.persisted && location.reload());

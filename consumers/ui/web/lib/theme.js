// Light, dark, or as the system says; one signal that charts redraw on.
import { signal } from "../vendor/signals.js";

const key = "headrace-theme";
const system = matchMedia("(prefers-color-scheme: dark)");

function saved() {
  try { return localStorage.getItem(key) || "auto"; } catch { return "auto"; }
}

/** What the user chose: "auto", "light" or "dark". */
export const choice = signal(saved());

/** What is drawn now: "light" or "dark". Read its value in whatever paints colours itself. */
export const theme = signal(drawn());

function drawn() {
  if (choice.value !== "auto") return choice.value;
  return system.matches ? "dark" : "light";
}

/** Chooses a theme and remembers it in this browser. */
export function setTheme(next) {
  choice.value = next;
  try { localStorage.setItem(key, next); } catch { /* kept until the tab closes */ }
  const root = document.documentElement;
  if (next === "auto") delete root.dataset.theme;
  else root.dataset.theme = next;
  repaint();
}

const probe = document.createElement("span");
let colours = new Map();

function repaint() {
  colours = new Map();
  theme.value = drawn();
}
system.addEventListener("change", repaint);

/**
 * The colour a custom property has under the present theme, as rgb(), for canvases.
 * @param {string} name such as "--c1"
 * @param {number} [alpha] 0..1
 */
export function colour(name, alpha = 1) {
  if (!colours.has(name)) {
    if (!probe.isConnected) {
      probe.hidden = true;
      document.body.append(probe);
    }
    probe.style.color = `var(${name})`;
    colours.set(name, getComputedStyle(probe).color);
  }
  const rgb = colours.get(name);
  return alpha === 1 ? rgb : rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

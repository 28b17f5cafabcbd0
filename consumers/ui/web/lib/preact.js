// What every component needs, from one place: `import { html, useState } from "../lib/preact.js"`.
import { h } from "../vendor/preact.js";
import htm from "../vendor/htm.js";

/** Tagged template that makes elements: html`<${Bar} parts=${p} />`. */
export const html = htm.bind(h);

export { h, render, Component, Fragment, createContext } from "../vendor/preact.js";
export {
  useState, useEffect, useLayoutEffect, useMemo, useRef, useCallback, useId, useContext,
} from "../vendor/hooks.js";
export { signal, computed, effect, batch, untracked, useSignal, useComputed } from "../vendor/signals.js";

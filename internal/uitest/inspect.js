// What is wrong with the page as it stands, as sentences. Evaluated in the page.
(() => {
  const faults = [];
  const say = (what, el) => faults.push(what + (el ? ": " + el.outerHTML.replace(/\s+/g, " ").slice(0, 140) : ""));
  const seen = (el) => el.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) && el.getClientRects().length > 0;
  const all = (css) => [...document.querySelectorAll(css)].filter(seen);

  // The frame of a page.
  const root = document.documentElement;
  if (!root.lang) say("the document has no language");
  if (!document.title) say("the document has no title");
  if (all("h1").length !== 1) say(`${all("h1").length} headings of level 1`);
  if (!document.querySelector("h1")?.textContent.trim()) say("the heading of level 1 is empty");
  if (all("main").length !== 1) say(`${all("main").length} main landmarks`);
  if (!document.querySelector("header")) say("no header");
  if (root.scrollWidth > root.clientWidth) {
    const wide = all("body *").filter((el) => el.getBoundingClientRect().right > root.clientWidth + 1 && !clipped(el));
    say(`wider than the screen: ${root.scrollWidth} of ${root.clientWidth} px`, wide.at(-1));
  }
  let level = 0;
  for (const h of all("h1, h2, h3, h4, h5, h6")) {
    const n = Number(h.tagName[1]);
    if (n > level + 1) say(`a heading of level ${n} follows one of level ${level}`, h);
    level = n;
  }
  const ids = new Set();
  for (const el of document.querySelectorAll("[id]")) ids.has(el.id) ? say("an id twice", el) : ids.add(el.id);

  // Everything that can be used or looked at has a name.
  for (const el of all("a[href], button, input, select, textarea, summary, [role=img], [role=button], [role=region], img, [tabindex='0']")) {
    if (!name(el)) say("no name", el);
  }
  for (const table of all("table")) if (!table.caption && !table.getAttribute("aria-label")) say("a table without a caption", table);
  for (const el of all("[aria-labelledby], [aria-controls], [aria-describedby]")) {
    const to = el.getAttribute("aria-labelledby") ?? el.getAttribute("aria-describedby");
    if (to && !to.split(/\s+/).every((id) => document.getElementById(id))) say("named by what is not there", el);
  }
  if (/\b(NaN|undefined|Infinity|null|\[object )/.test(document.querySelector("main")?.innerText.replace(/"[^"]*"|[{[][^\n]*/g, "") ?? "")) {
    const el = all("main *").find((e) => [...e.childNodes].some((n) => n.nodeType === 3 && /\b(NaN|undefined|Infinity|null|\[object )/.test(n.data)) && !e.closest("pre, .text, .token-text, .token-detail, code"));
    if (el) say("a value that is none", el);
  }

  // Text that can be read: 4.5:1, or 3:1 where it is large.
  const brush = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const paint = (...layers) => {
    const key = layers.join("|");
    if (!known.has(key)) {
      brush.fillStyle = "#fff";
      brush.fillRect(0, 0, 1, 1);
      for (const layer of layers) {
        brush.fillStyle = layer;
        brush.fillRect(0, 0, 1, 1);
      }
      known.set(key, [...brush.getImageData(0, 0, 1, 1).data.slice(0, 3)]);
    }
    return known.get(key);
  };
  const light = (rgb) => rgb.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)).reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const below = (el) => {
    const layers = [];
    for (let e = el; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if (c !== "rgba(0, 0, 0, 0)") layers.unshift(c);
    }
    return layers;
  };
  const faint = new Set();
  for (const el of all("body *").slice(0, 4000)) {
    if (![...el.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || el.closest("svg, option, [disabled]") || el.matches(":disabled")) continue;
    const style = getComputedStyle(el), layers = below(el), r = ratio(paint(...layers, style.color), paint(...layers));
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const key = style.color + layers.at(-1);
    if (r < (large ? 3 : 4.5) && !faint.has(key)) faint.add(key), say(`text of contrast ${r.toFixed(2)}`, el);
  }

  // The theme's variables and the tints of tokens, whether or not this page uses them.
  const probe = document.body.appendChild(document.createElement("b"));
  const resolve = (v) => (probe.style.color = `var(${v})`, getComputedStyle(probe).color);
  const paper = { "--bg": resolve("--bg"), "--panel": resolve("--panel") }, ink = resolve("--fg");
  for (const v of ["--fg", "--muted", "--accent", "--good", "--bad", "--warn"]) {
    for (const [under, c] of Object.entries(paper)) {
      const r = ratio(paint(c, resolve(v)), paint(c));
      if (r < 4.5) say(`${v} on ${under} has contrast ${r.toFixed(2)}`);
    }
  }
  for (const tint of "in out p0 p1 p2 p3 p4 v0 v1 v2 v3 v4 v5 v6 v7".split(" ")) {
    probe.className = tint;
    const c = getComputedStyle(probe).backgroundColor, r = ratio(paint(paper["--panel"], c, ink), paint(paper["--panel"], c));
    if (r < 4.5) say(`text on the tint ${tint} has contrast ${r.toFixed(2)}`);
  }
  probe.remove();
  return faults;

  function name(el) {
    const by = el.getAttribute("aria-labelledby");
    const text = by ? by.split(/\s+/).map((id) => document.getElementById(id)?.textContent ?? "").join("") : "";
    return [el.getAttribute("aria-label"), text, el.alt, el.labels?.[0]?.textContent, el.matches("input, select, textarea") ? "" : el.textContent, el.title].some((s) => s?.trim());
  }
  function clipped(el) {
    for (let e = el.parentElement; e && e !== document.body; e = e.parentElement) if (getComputedStyle(e).overflowX !== "visible") return true;
    return false;
  }
})()

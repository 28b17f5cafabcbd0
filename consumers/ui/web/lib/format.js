// Numbers and times as text. Each takes null, undefined and NaN and answers "–".

export const none = "–";
const missing = (v) => v === null || v === undefined || Number.isNaN(v);
const grouped = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

/** 12345 → "12,345" */
export const int = (v) => (missing(v) ? none : grouped.format(v));

/** 0.12345 → "0.123"; digits after the point. */
export const fixed = (v, digits = 3) => (missing(v) ? none : Number(v).toFixed(digits));

/** Three figures that matter, for metrics of unknown size: 0.00012 → "1.20e-4", 12.345 → "12.3". */
export function figures(v, n = 3) {
  if (missing(v)) return none;
  const size = Math.abs(v);
  if (size === 0) return "0";
  if (size < 1e-3 || size >= 1e6) return v.toExponential(n - 1);
  return size >= 1000 ? grouped.format(v) : String(Number(v.toPrecision(n)));
}

/** 1234567 → "1.23M"; below 1000 as it is, with at most one decimal. */
export function short(v) {
  if (missing(v)) return none;
  const size = Math.abs(v);
  for (const [unit, one] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (size >= one) return trim(v / one) + unit;
  }
  return Number.isInteger(v) ? String(v) : size < 10 ? Number(v).toFixed(1) : String(Math.round(v));
}
const trim = (v) => Number(v.toPrecision(3)).toString();

/** 1536000 → "1.54 MB" (powers of 1000). */
export function bytes(v) {
  if (missing(v)) return none;
  for (const [unit, one] of [["TB", 1e12], ["GB", 1e9], ["MB", 1e6], ["kB", 1e3]]) {
    if (Math.abs(v) >= one) return `${trim(v / one)} ${unit}`;
  }
  return `${Math.round(v)} B`;
}

/** A duration in seconds: "340 µs", "12 ms", "1.25 s", "3 m 20 s", "2 h 05 m". */
export function seconds(v) {
  if (missing(v)) return none;
  if (v < 0) return "-" + seconds(-v);
  if (v === 0) return "0 s";
  if (v < 1e-3) return `${Math.round(v * 1e6)} µs`;
  if (v < 0.995) return `${trim(v * 1e3)} ms`;
  if (v < 59.95) return `${v < 9.995 ? v.toFixed(2) : v.toFixed(1)} s`;
  const whole = Math.round(v);
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${pad(whole % 60)} s`;
  if (whole < 86400 * 2) return `${Math.floor(whole / 3600)} h ${pad(Math.floor(whole / 60) % 60)} m`;
  return `${Math.floor(whole / 86400)} d ${pad(Math.floor(whole / 3600) % 24)} h`;
}
const pad = (v) => String(v).padStart(2, "0");

/** 0.4213 → "42 %"; below a tenth one decimal. */
export function percent(v) {
  if (missing(v)) return none;
  const p = v * 100;
  return `${p > 0 && p < 9.95 ? p.toFixed(1) : Math.round(p)} %`;
}

/** A Unix time in seconds as the reader's clock: "14:03:09", with the date when it is not today. */
export function clock(at) {
  if (missing(at) || at <= 0) return none;
  const d = new Date(at * 1000);
  const time = `${pad(d.getHours())}:${pad(d.getMinutes())}:${pad(d.getSeconds())}`;
  return d.toDateString() === new Date().toDateString() ? time : `${day(d)} ${time}`;
}
const day = (d) => `${d.getFullYear()}-${pad(d.getMonth() + 1)}-${pad(d.getDate())}`;

/** A Unix time in seconds in full, in UTC, for titles: "2026-11-30T00:13:08Z". */
export const utc = (at) => (missing(at) || at <= 0 ? none : new Date(at * 1000).toISOString().replace(/\.\d+/, ""));

/** zero_variance → "zero variance" */
export const words = (name) => String(name ?? "").replaceAll("_", " ");

/** plural(2, "group") → "2 groups" */
export const plural = (n, one, many = one + "s") => `${int(n)} ${n === 1 ? one : many}`;

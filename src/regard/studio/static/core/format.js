// Numbers and tokens as people read them.
import { language } from "studio/core/strings.js";

export const percent = (p) => (p >= 0.995 ? (p === 1 ? "100%" : ">99%") : p < 0.001 ? "<0.1%" : `${+(p * 100).toPrecision(p < 0.1 ? 2 : 3)}%`);
export const fixed = (x, digits = 3) => (x === null || x === undefined ? "–" : !Number.isFinite(x) ? (x < 0 ? "−∞" : "∞") : x.toFixed(digits).replace("-", "−"));
export const whole = (n) => (n === null || n === undefined ? "–" : Number(n).toLocaleString(language()));

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB"];
  let at = 0;
  while (n >= 1000 && at < units.length - 1) [n, at] = [n / 1000, at + 1];
  return `${+n.toPrecision(3)} ${units[at]}`;
}

export function large(n) {
  if (n === null || n === undefined) return "–";
  for (const [size, unit] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]]) if (n >= size) return `${+(n / size).toPrecision(3)} ${unit}`;
  return `${n}`;
}

/** What is shown of a token: blanks and line ends are made visible, nothing is ever empty. */
export function shown(text) {
  const seen = String(text ?? "").replace(/\n/g, "↵").replace(/\t/g, "⇥");
  return seen === "" ? "∅" : seen.trim() === "" ? "␣".repeat([...seen].length) : seen;
}

export const cut = (text, most = 16) => ([...text].length > most ? `${[...text].slice(0, most - 1).join("")}…` : text);

export const argmax = (values) => values.reduce((best, value, i) => (value > values[best] ? i : best), 0);

// Bars and words as files: what stands on the page as HTML leaves it as SVG, and with it as PNG.
import { css } from "studio/core/colour.js";
import { wrapped, xml } from "studio/core/export.js";
import { cut, percent, shown } from "studio/core/format.js";

const LOOK = `font-family="sans-serif" font-size="13" dominant-baseline="middle"`;
const WIDTH = 640;

const ruler = document.createElement("canvas").getContext("2d");
const wide = (text) => {
  ruler.font = "13px sans-serif";
  return ruler.measureText(text).width;
};
const words = (x, y, text, more = "") => `<text x="${x}" y="${y}" fill="${css("ink")}" ${LOOK} ${more}>${xml(text)}</text>`;

/** rows: [{name, p}] as in Bars. */
export function barsSvg({ rows, title, full, say = percent }) {
  const most = full ?? Math.max(1e-9, ...rows.map((row) => Math.abs(row.p)));
  const lines = rows.map((row, i) => {
    const y = 44 + 24 * i;
    const bar = `<rect x="230" y="${y - 6}" width="${Math.min(1, Math.abs(row.p) / most) * 290}" height="12" rx="3" fill="${css(row.p < 0 ? "minus" : "mark")}"/>`;
    return words(8, y, cut(shown(row.name), 32)) + bar + words(WIDTH - 8, y, say(row.p), `text-anchor="end"`);
  });
  return wrapped(WIDTH, 40 + 24 * rows.length, words(8, 16, title, `font-weight="bold"`) + lines.join("\n"), title);
}

/** items: [{text, shade, small?}] as in Words, in lines as long as there is room. */
export function wordsSvg({ items, title }) {
  let [x, y] = [8, 36];
  const boxes = items.map(({ text, shade = 0, small = "" }) => {
    const size = Math.max(wide(shown(text)), wide(small)) + 12;
    if (x + size > WIDTH - 8 && x > 8) [x, y] = [8, y + 46];
    const [left, top] = [x, y];
    x += size + 6;
    const box = `<rect x="${left}" y="${top}" width="${size}" height="40" rx="6" fill="${css(shade < 0 ? "minus" : "mark", Math.min(0.9, Math.abs(shade) * 0.6))}" stroke="${css("grid", 0.5)}"/>`;
    return box + words(left + 6, top + 13, shown(text)) + (small ? words(left + 6, top + 29, small) : "");
  });
  return wrapped(WIDTH, y + 50, words(8, 16, title, `font-weight="bold"`) + boxes.join("\n"), title);
}

/** Every way out of a panel that is bars and nothing else. */
export const barsWays = (rows, title, options = {}) => ({
  svg: () => barsSvg({ rows, title, ...options }),
  json: () => rows.map(({ name, p, was }) => ({ name, p, ...(was === undefined ? {} : { was }) })),
  rows: () => [["name", "value"], ...rows.map((row) => [row.name, row.p])],
});

// A matrix as a picture: one pixel a number, stretched; names only where there is room; the rest under the pointer.
import { html, useEffect, useLayoutEffect, useMemo, useRef } from "studio/core/html.js";
import { css, ramp } from "studio/core/colour.js";
import { cut, fixed, shown } from "studio/core/format.js";
import { useTheme, useWidth } from "studio/core/hooks.js";
import { walked } from "studio/core/keys.js";
import { wrapped, xml } from "studio/core/export.js";

const FONT = 12;
const GAP = 6;

const ruler = document.createElement("canvas").getContext("2d");
const fontOf = (bold) => `${bold ? 600 : 400} ${FONT}px system-ui, "Noto Sans", "DejaVu Sans", sans-serif`;

function widest(names) {
  ruler.font = fontOf(true);
  const some = names.length > 200 ? names.filter((_, i) => i % Math.ceil(names.length / 200) === 0) : names;
  return Math.min(130, Math.max(10, ...some.map((name) => ruler.measureText(cut(shown(name))).width)));
}

/** Where things stand, from the width there is. */
export function layout({ shape: [n, m], rows, columns, width, largest = 32 }) {
  const left = rows ? widest(rows) + GAP + 2 : 0;
  const top = columns ? widest(columns) + GAP : 0;
  const cell = Math.max(0.5, Math.min(largest, (width - left - 2) / m));
  const down = n > 3 * m ? Math.max(0.5, Math.min(cell, 900 / n)) : cell;
  return { left, top, cell, down, width: left + cell * m + 2, height: top + down * n + 2, n, m };
}

/** The numbers as pixels, one each. */
export function pixels({ values, shape: [n, m] }, { full = 1, log = false } = {}) {
  const canvas = Object.assign(document.createElement("canvas"), { width: m, height: n });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(m, n);
  const out = new Uint32Array(image.data.buffer);
  const colours = ramp(log);
  const scale = 255 / full;
  for (let i = 0; i < out.length; i++) {
    const x = values[i] * scale;
    out[i] = colours[255 + Math.round(x > 255 ? 255 : x < -255 ? -255 : x)];
  }
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** Numbers of the names that have room. */
function* seats(count, cell) {
  const step = Math.max(1, Math.ceil(14 / cell));
  for (let i = 0; i < count; i += step) yield i;
}

function paint(canvas, place, picture, rows, columns) {
  const ratio = devicePixelRatio || 1;
  canvas.width = place.width * ratio;
  canvas.height = place.height * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.imageSmoothingEnabled = place.cell < 1;
  const { left, top, cell, down, n, m } = place;
  pen.drawImage(picture, left, top, cell * m, down * n);
  pen.strokeStyle = css("panel");
  pen.lineWidth = 1;
  if (cell >= 9 && down >= 5) {
    pen.beginPath();
    for (let j = 0; j <= m; j++) pen.moveTo(left + j * cell, top), pen.lineTo(left + j * cell, top + down * n);
    for (let i = 0; i <= n; i++) pen.moveTo(left, top + i * down), pen.lineTo(left + cell * m, top + i * down);
    pen.stroke();
  }
  pen.strokeStyle = css("grid", 0.45);
  pen.strokeRect(left - 0.5, top - 0.5, cell * m + 1, down * n + 1);
  pen.font = fontOf(false);
  pen.fillStyle = css("ink");
  pen.textBaseline = "middle";
  if (rows) for (const i of seats(n, down)) name(pen, place, rows[i], i, false);
  if (columns) for (const j of seats(m, cell)) name(pen, place, columns[j], j, true);
}

function name(pen, { left, top, cell, down }, text, at, above) {
  pen.save();
  if (above) {
    pen.translate(left + cell * (at + 0.5), top - GAP);
    pen.rotate(-Math.PI / 2);
    pen.textAlign = "left";
  } else {
    pen.translate(left - GAP, top + down * (at + 0.5));
    pen.textAlign = "right";
  }
  pen.fillText(cut(shown(text)), 0, 0);
  pen.restore();
}

/** What is pointed at, above the picture: only this is painted again while the pointer moves. */
function point(canvas, place, at, rows, columns, values) {
  const ratio = devicePixelRatio || 1;
  canvas.width = place.width * ratio;
  canvas.height = place.height * ratio;
  if (!at) return;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const { left, top, cell, down, n, m } = place;
  const [row, column] = [at.row, at.column];
  pen.fillStyle = css("panel", 0.62);
  if (row !== null && n > 1) {
    pen.fillRect(left, top, cell * m, row * down);
    pen.fillRect(left, top + (row + 1) * down, cell * m, (n - row - 1) * down);
  }
  pen.strokeStyle = css("ink");
  pen.lineWidth = 1.5;
  if (row !== null) pen.strokeRect(left - 0.5, top + row * down, cell * m + 1, Math.max(2, down));
  if (row !== null && column !== null) {
    pen.lineWidth = 2.5;
    pen.strokeStyle = css("mark");
    pen.strokeRect(left + column * cell, top + row * down, Math.max(2, cell), Math.max(2, down));
  }
  pen.font = fontOf(true);
  pen.textBaseline = "middle";
  const label = (text, index, above) => {
    pen.save();
    const size = pen.measureText(cut(shown(text))).width + 4;
    const [x, y] = above ? [left + cell * (index + 0.5), top - GAP] : [left - GAP, top + down * (index + 0.5)];
    pen.translate(x, y);
    if (above) pen.rotate(-Math.PI / 2);
    pen.fillStyle = css("panel");
    pen.fillRect(above ? -2 : -size, -8, size + 2, 16);
    pen.restore();
    pen.fillStyle = css("mark");
    name(pen, place, text, index, above);
  };
  if (rows && row !== null) label(rows[row], row, false);
  if (columns && column !== null) label(columns[column], column, true);
  if (columns && row !== null && column === null && cell >= 14) {
    const best = values.indexOf(Math.max(...values.subarray(row * m, (row + 1) * m)), row * m) - row * m;
    if (best >= 0 && best < m) label(columns[best], best, true);
  }
}

/**
 * values + shape [n, m]; names of rows and columns; `at` {row, column} is lit, and may be half known.
 * onHover(at|null) while the pointer moves, onStep(at) or else onHover by arrow keys, onPick(at) by click or Enter.
 */
export function Heat({ matrix, rows, columns, full = 1, log = false, at, onHover, onStep, onPick, label, say, largest, describe, legend = true }) {
  const box = useRef();
  const [base, over] = [useRef(), useRef()];
  const width = useWidth(box);
  const theme = useTheme();
  const place = useMemo(() => layout({ shape: matrix.shape, rows, columns, width, largest }), [matrix, rows, columns, width, largest]);
  const picture = useMemo(() => pixels(matrix, { full, log }), [matrix, full, log, theme]);
  useLayoutEffect(() => {
    paint(base.current, place, picture, rows, columns);
    performance.mark("heat painted");
  }, [place, picture]);
  useEffect(() => point(over.current, place, at, rows, columns, matrix.values), [place, picture, at?.row, at?.column]);

  const [n, m] = matrix.shape;
  const signed = useMemo(() => matrix.values.some((x) => x < 0), [matrix]);
  const found = (event) => {
    const edge = base.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - edge.left - place.left) / place.cell);
    const row = Math.floor((event.clientY - edge.top - place.top) / place.down);
    return row >= 0 && column >= 0 && row < n && column < m ? { row, column } : null;
  };
  const moved = (event) => {
    if (event.key === "Enter" && at && at.column !== null) return onPick?.(at);
    const now = { row: at?.row ?? 0, column: at?.column ?? 0 };
    const [column, row] = [walked(event, now.column, m), /Arrow(Up|Down)/.test(event.key) ? walked(event, now.row, n, false) : null];
    if (column === null && row === null) return;
    event.preventDefault();
    (onStep ?? onHover)?.({ row: row ?? now.row, column: column ?? now.column });
  };
  const value = at && at.row !== null && at.column !== null && at.row < n && at.column < m ? matrix.values[at.row * m + at.column] : null;
  const text = value === null ? "" : say ? say(at, value) : `${shown(rows?.[at.row] ?? at.row)} → ${shown(columns?.[at.column] ?? at.column)}: ${fixed(value, 4)}`;
  return html`<div class="heat" ref=${box}>
    <div class="plot" data-arrows tabindex="0" role="group" aria-label=${label} style=${{ width: `${place.width}px`, height: `${place.height}px` }}
      onKeyDown=${moved} onPointerMove=${(event) => onHover?.(found(event))} onPointerLeave=${() => onHover?.(null)} onBlur=${() => onHover?.(null)} onClick=${(event) => found(event) && onPick?.(found(event))}>
      <canvas ref=${base} role="img" aria-label=${describe ?? label} style=${{ width: `${place.width}px`, height: `${place.height}px` }}></canvas>
      <canvas ref=${over} aria-hidden="true" class="over" style=${{ width: `${place.width}px`, height: `${place.height}px` }}></canvas>
    </div>
    <p class="reading" aria-live="polite">${legend && html`<${Legend} full=${full} signed=${signed} />`}<span class="num">${text}</span></p>
  </div>`;
}

function Legend({ full, signed }) {
  return html`<span class="legend" aria-hidden="true">${signed ? fixed(-full, 2) : "0"}<i class=${signed ? "signed" : ""}></i>${+full.toPrecision(3)}</span>`;
}

/** The same as a file: names stay words, the numbers are one picture. */
export function heatSvg({ matrix, rows, columns, full, log, title }) {
  const place = layout({ shape: matrix.shape, rows, columns, width: 900 });
  const { left, top, cell, down, n, m } = place;
  const words = [];
  const look = `font-family="sans-serif" font-size="${FONT}" fill="${css("ink")}" dominant-baseline="middle"`;
  if (rows) for (const i of seats(n, down)) words.push(`<text x="${left - GAP}" y="${top + 24 + down * (i + 0.5)}" text-anchor="end" ${look}>${xml(cut(shown(rows[i])))}</text>`);
  if (columns) for (const j of seats(m, cell)) words.push(`<text transform="translate(${left + cell * (j + 0.5)} ${top + 24 - GAP}) rotate(-90)" ${look}>${xml(cut(shown(columns[j])))}</text>`);
  const image = `<image x="${left}" y="${top + 24}" width="${cell * m}" height="${down * n}" preserveAspectRatio="none" style="image-rendering: pixelated" href="${pixels(matrix, { full, log }).toDataURL()}"/>`;
  return wrapped(Math.max(place.width, 300), place.height + 30, `<text x="4" y="14" ${look} font-weight="bold">${xml(title)}</text>\n${image}\n${words.join("\n")}`, title);
}

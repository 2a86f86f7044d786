// Lines between two columns of words: who looks at whom, the stronger the darker.
import { html, useEffect, useMemo, useRef } from "studio/core/html.js";
import { css } from "studio/core/colour.js";
import { cut, fixed, shown } from "studio/core/format.js";
import { useTheme, useWidth } from "studio/core/hooks.js";
import { walked } from "studio/core/keys.js";
import { wrapped, xml } from "studio/core/export.js";

const MOST = 5; // lines of a word while none is chosen
const LEAST = 0.02;

/** [query, key, weight] of what is drawn: all of the lit row, or the strongest of each. */
export function strongest({ values, shape: [n, m] }, only = null) {
  const found = [];
  for (let i = 0; i < n; i++) {
    if (only !== null && only !== i) continue;
    const row = Array.from(values.subarray(i * m, (i + 1) * m), (weight, j) => [i, j, weight]).filter((each) => each[2] >= LEAST);
    row.sort((a, b) => b[2] - a[2]);
    found.push(...(only === null ? row.slice(0, MOST) : row));
  }
  return found;
}

function layout({ shape: [n, m] }, width) {
  const count = Math.max(n, m);
  const step = Math.max(3, Math.min(24, 1800 / count));
  const side = Math.min(200, width * 0.3);
  return { step, left: side, right: Math.min(width - side, side + 420), width: Math.min(width, 2 * side + 420), height: step * count + 8, label: Math.max(1, Math.ceil(13 / step)) };
}

const y = (place, i) => 4 + place.step * (i + 0.5);

export function Lines({ matrix, queries, keys, at, onHover, onStep, onPick, label, describe }) {
  const box = useRef();
  const canvas = useRef();
  const width = useWidth(box);
  const theme = useTheme();
  const place = useMemo(() => layout(matrix, width), [matrix, width]);
  const lit = at?.row ?? null;
  useEffect(() => {
    const ratio = devicePixelRatio || 1;
    canvas.current.width = place.width * ratio;
    canvas.current.height = place.height * ratio;
    const pen = canvas.current.getContext("2d");
    pen.scale(ratio, ratio);
    draw(pen, place, matrix, queries, keys, lit);
  }, [place, matrix, lit, theme]);
  const n = matrix.shape[0];
  const found = (event) => {
    const edge = canvas.current.getBoundingClientRect();
    const row = Math.floor((event.clientY - edge.top - 4) / place.step);
    return event.clientX - edge.left < place.left + 20 && row >= 0 && row < n ? { row, column: null } : null;
  };
  const moved = (event) => {
    const to = walked(event, lit ?? -1, n, false);
    if (event.key === "Enter" && lit !== null) onPick?.({ row: lit, column: null });
    if (to === null) return;
    event.preventDefault();
    (onStep ?? onHover)?.({ row: to, column: null });
  };
  return html`<div ref=${box}><div class="plot" data-arrows tabindex="0" role="group" aria-label=${label} onKeyDown=${moved} style=${{ width: `${place.width}px`, height: `${place.height}px` }}
    onPointerMove=${(event) => onHover?.(found(event))} onPointerLeave=${() => onHover?.(null)} onBlur=${() => onHover?.(null)} onClick=${(event) => found(event) && onPick?.(found(event))}>
    <canvas ref=${canvas} role="img" aria-label=${describe} style=${{ width: `${place.width}px`, height: `${place.height}px` }}></canvas></div>
    <p class="reading num" aria-live="polite">${lit === null ? "" : strongest(matrix, lit).slice(0, 4).map(([, j, w]) => `${shown(keys[j])} ${fixed(w, 3)}`).join(" · ")}</p></div>`;
}

function draw(pen, place, matrix, queries, keys, lit) {
  pen.font = '13px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';
  pen.textBaseline = "middle";
  for (const [i, j, weight] of strongest(matrix, lit)) {
    pen.strokeStyle = css("mark", Math.min(1, 0.12 + weight));
    pen.lineWidth = 0.6 + 4 * weight;
    const [a, b] = [place.left + 6, place.right - 6];
    pen.beginPath();
    pen.moveTo(a, y(place, i));
    pen.bezierCurveTo((a + b) / 2, y(place, i), (a + b) / 2, y(place, j), b, y(place, j));
    pen.stroke();
  }
  const weights = lit === null ? null : matrix.values.subarray(lit * matrix.shape[1], (lit + 1) * matrix.shape[1]);
  queries.forEach((text, i) => word(pen, place, text, i, "right", place.left, lit === i, lit !== null && lit !== i));
  keys.forEach((text, j) => word(pen, place, text, j, "left", place.right, weights && weights[j] >= 0.2, weights && weights[j] < LEAST));
}

function word(pen, place, text, i, align, x, bold, faded) {
  if (!bold && i % place.label) return;
  pen.textAlign = align;
  pen.fillStyle = css(bold ? "mark" : faded ? "grid" : "ink");
  pen.font = pen.font.replace(/^(bold )?/, bold ? "bold " : "");
  pen.fillText(cut(shown(text), 22), x, y(place, i));
}

export function linesSvg({ matrix, queries, keys, at, title }) {
  const place = layout(matrix, 760);
  const look = `font-family="sans-serif" font-size="13" fill="${css("ink")}" dominant-baseline="middle"`;
  const curves = strongest(matrix, at?.row ?? null).map(([i, j, w]) => {
    const [a, b, c, d] = [place.left + 6, place.right - 6, y(place, i) + 24, y(place, j) + 24];
    return `<path d="M${a} ${c}C${(a + b) / 2} ${c} ${(a + b) / 2} ${d} ${b} ${d}" fill="none" stroke="${css("mark")}" stroke-opacity="${Math.min(1, 0.12 + w).toFixed(3)}" stroke-width="${(0.6 + 4 * w).toFixed(2)}"/>`;
  });
  const words = [[queries, place.left, "end"], [keys, place.right, "start"]].flatMap(([names, x, anchor]) => names.map((text, i) => (i % place.label ? "" : `<text x="${x}" y="${y(place, i) + 24}" text-anchor="${anchor}" ${look}>${xml(cut(shown(text), 22))}</text>`)));
  return wrapped(place.width, place.height + 28, [`<text x="4" y="14" font-weight="bold" ${look}>${xml(title)}</text>`, ...curves, ...words].join("\n"), title);
}

// A vector as a strip of colours: blue above zero, orange below; its numbers on a click.
import { html, useEffect, useRef } from "studio/core/html.js";
import { useTheme } from "studio/core/hooks.js";
import { pixels } from "studio/parts/heat.js";

const MOST = 160;

export function Strip({ values, full, onPick, label, height = 16, lit }) {
  const canvas = useRef();
  const theme = useTheme();
  const n = values.length;
  const width = Math.min(MOST, Math.max(40, n * 5));
  useEffect(() => {
    const ratio = devicePixelRatio || 1;
    Object.assign(canvas.current, { width: width * ratio, height: height * ratio });
    const pen = canvas.current.getContext("2d");
    pen.imageSmoothingEnabled = n * 1.0 > width * ratio;
    pen.drawImage(pixels({ values: Float32Array.from(values), shape: [1, n] }, { full: full || Math.max(1e-9, ...values.map(Math.abs)) }), 0, 0, width * ratio, height * ratio);
  }, [values, full, theme]);
  const inside = html`<canvas ref=${canvas} aria-hidden="true" style=${{ width: `${width}px`, height: `${height}px` }}></canvas>`;
  return onPick ? html`<button type="button" class="strip ${lit ? "lit" : ""}" aria-label=${label} title=${label} onClick=${onPick}>${inside}</button>` : html`<span class="strip" role="img" aria-label=${label}>${inside}</span>`;
}

// A picture as the model sees it, in patches; where it looked is blue.
import { html, useEffect, useMemo, useRef } from "studio/core/html.js";
import { css } from "studio/core/colour.js";
import { useTheme, useWidth } from "studio/core/hooks.js";
import { walked } from "studio/core/keys.js";

const LARGEST = 420;

/** {values u8, shape [channels, height, width]} as a canvas, one pixel each. */
export function painted({ values, shape: [channels, height, width] }) {
  const canvas = Object.assign(document.createElement("canvas"), { width, height });
  const pen = canvas.getContext("2d");
  const image = pen.createImageData(width, height);
  const size = width * height;
  for (let i = 0; i < size; i++) for (let c = 0; c < 4; c++) image.data[4 * i + c] = c === 3 ? 255 : values[(channels === 1 ? 0 : c) * size + i];
  pen.putImageData(image, 0, 0);
  return canvas;
}

/** `weights` of the patches, row by row, or null; `query` is the patch that looks; `at` the one that is pointed at. */
export function Patches({ picture, grid: [rows, columns], weights, query, at, onHover, onPick, label, describe }) {
  const box = useRef();
  const canvas = useRef();
  const room = useWidth(box);
  const theme = useTheme();
  const source = useMemo(() => painted(picture), [picture]);
  const width = Math.min(LARGEST, room);
  const height = Math.round((width * picture.shape[1]) / picture.shape[2]);
  const [across, down] = [width / columns, height / rows];
  useEffect(() => {
    const ratio = devicePixelRatio || 1;
    Object.assign(canvas.current, { width: width * ratio, height: height * ratio });
    const pen = canvas.current.getContext("2d");
    pen.scale(ratio, ratio);
    pen.imageSmoothingEnabled = source.width > width / 2;
    if (weights) pen.globalAlpha = 0.6;
    pen.drawImage(source, 0, 0, width, height);
    pen.globalAlpha = 1;
    const most = weights ? Math.max(1e-12, ...weights) : 1;
    weights?.forEach((weight, i) => {
      pen.fillStyle = css("mark", (0.85 * weight) / most);
      pen.fillRect((i % columns) * across, Math.floor(i / columns) * down, across, down);
    });
    pen.strokeStyle = css("grid", 0.5);
    pen.lineWidth = 0.5;
    pen.beginPath();
    for (let j = 0; j <= columns; j++) pen.moveTo(j * across, 0), pen.lineTo(j * across, height);
    for (let i = 0; i <= rows; i++) pen.moveTo(0, i * down), pen.lineTo(width, i * down);
    pen.stroke();
    for (const [i, ink] of [[query, "minus"], [at, "mark"]]) {
      if (i === null || i === undefined) continue;
      pen.strokeStyle = css(ink);
      pen.lineWidth = 3;
      pen.strokeRect((i % columns) * across + 1.5, Math.floor(i / columns) * down + 1.5, across - 3, down - 3);
    }
  }, [source, weights, query, at, width, theme]);
  const found = (event) => {
    const edge = canvas.current.getBoundingClientRect();
    const [column, row] = [Math.floor((event.clientX - edge.left) / across), Math.floor((event.clientY - edge.top) / down)];
    return row >= 0 && column >= 0 && row < rows && column < columns ? row * columns + column : null;
  };
  const moved = (event) => {
    if (event.key === "Enter" || event.key === " ") return event.preventDefault(), onPick?.(at ?? 0);
    const [row, column] = at === null ? [0, 0] : [Math.floor(at / columns), at % columns];
    const to = [walked(event, column, columns), /Arrow(Up|Down)/.test(event.key) ? walked(event, row, rows, false) : null];
    if (to[0] === null && to[1] === null) return;
    event.preventDefault();
    onHover?.(at === null ? 0 : (to[1] ?? row) * columns + (to[0] ?? column));
  };
  return html`<div ref=${box}><div class="plot patches" data-arrows tabindex="0" role="group" aria-label=${label} style=${{ width: `${width}px`, height: `${height}px` }}
    onKeyDown=${moved} onPointerMove=${(event) => onHover?.(found(event))} onPointerLeave=${() => onHover?.(null)} onBlur=${() => onHover?.(null)} onClick=${(event) => found(event) !== null && onPick?.(found(event))}>
    <canvas ref=${canvas} role="img" aria-label=${describe ?? label} style=${{ width: `${width}px`, height: `${height}px` }}></canvas></div></div>`;
}

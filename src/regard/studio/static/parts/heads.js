// All heads as small pictures: a row a layer, a column a head. Click or arrow keys choose.
import { html, useEffect, useRef } from "studio/core/html.js";
import { ramp } from "studio/core/colour.js";
import { t } from "studio/core/strings.js";
import { useTheme } from "studio/core/hooks.js";
import { walked } from "studio/core/keys.js";

/** overview: {values u8, shape [L, H, t, s]}; layer or head null is the mean of all. */
export function Heads({ overview, layer, head, onPick }) {
  const [layers, heads, n, m] = overview.shape;
  const theme = useTheme();
  const canvas = useRef();
  useEffect(() => {
    const pen = canvas.current.getContext("2d");
    const image = pen.createImageData(heads * m, layers * n);
    const out = new Uint32Array(image.data.buffer);
    const colours = ramp(true).subarray(255);
    let at = 0;
    for (let l = 0; l < layers; l++)
      for (let h = 0; h < heads; h++)
        for (let i = 0; i < n; i++)
          for (let j = 0; j < m; j++) out[(l * n + i) * heads * m + h * m + j] = colours[overview.values[at++]];
    pen.putImageData(image, 0, 0);
  }, [overview, theme]);
  const size = Math.max(22, Math.min(64, 760 / heads));
  const moved = (event) => {
    const across = walked(event, head ?? 0, heads);
    const down = /Arrow(Up|Down)/.test(event.key) ? walked(event, layer ?? 0, layers, false) : null;
    if (across === null && down === null) return;
    event.preventDefault();
    onPick(down ?? layer ?? 0, across ?? head ?? 0);
  };
  const found = (event) => {
    const edge = canvas.current.getBoundingClientRect();
    onPick(Math.min(layers - 1, Math.floor(((event.clientY - edge.top) / edge.height) * layers)), Math.min(heads - 1, Math.floor(((event.clientX - edge.left) / edge.width) * heads)));
  };
  const box = { width: `${size * heads}px`, height: `${size * layers}px` };
  return html`<div class="heads scroll" tabindex="-1">
    <div class="heads-columns" aria-hidden="true" style=${{ width: box.width }}>${Array.from({ length: heads }, (_, h) => html`<span style=${{ width: `${size}px` }}>${h}</span>`)}</div>
    <div class="row heads-body"><div class="heads-rows" aria-hidden="true">${Array.from({ length: layers }, (_, l) => html`<span style=${{ height: `${size}px`, lineHeight: `${size}px` }}>${l}</span>`)}</div>
    <div class="plot" data-arrows tabindex="0" role="group" aria-label=${t("heads.label", { layers, heads, layer: layer ?? t("mean"), head: head ?? t("mean") })} style=${box} onKeyDown=${moved} onClick=${found}>
      <canvas ref=${canvas} width=${heads * m} height=${layers * n} style=${box} aria-hidden="true"></canvas>
      <div class="heads-lines" style=${{ backgroundSize: `${size}px ${size}px` }}></div>
      ${(layer !== null || head !== null) && html`<div class="heads-at" style=${{ left: `${head === null ? 0 : head * size}px`, top: `${layer === null ? 0 : layer * size}px`, width: head === null ? "100%" : `${size}px`, height: layer === null ? "100%" : `${size}px` }}></div>`}
    </div></div>
  </div>`;
}

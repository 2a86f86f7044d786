// Sentences as points: which are alike, seen as a matrix and on a plane.
import { html, useEffect, useMemo, useRef, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { cut, fixed, percent } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { numpy, standalone } from "studio/core/export.js";
import { Asker, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsWays } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Heat, heatSvg } from "studio/parts/heat.js";

const EXAMPLE = "A man is playing a guitar.\nSomeone makes music on a string instrument.\nThe stock market fell sharply today.\nShares lost much of their value.\nThe cat sleeps on the sofa.\nA kitten naps on the couch.";

export default function Embeddings({ model, params, limits }) {
  const [text, setText] = useState(params.texts ?? EXAMPLE);
  const [at, setAt] = useState(null);
  const [pinned, setPinned] = useState(0);
  const { last, error, busy, run } = useWork();
  const ask = (words = text) => {
    keep({ texts: words });
    const texts = words.split("\n").map((each) => each.trim()).filter(Boolean).slice(0, limits.texts);
    if (texts.length) run(async (signal) => ({ texts, ...(await post("/api/embed", { model: model.name, texts }, signal)) }));
  };
  useEffect(() => ask(), []);
  const matrix = useMemo(() => last && { shape: [last.texts.length, last.texts.length], values: Float32Array.from(last.cosine.flat()) }, [last]);
  const row = Math.min(at?.row ?? pinned, (last?.texts.length ?? 1) - 1);
  const three = (x) => fixed(x, 3);
  const nearest = last?.cosine[row].map((p, j) => ({ name: last.texts[j], p, j })).filter((each) => each.j !== row).sort((a, b) => b.p - a.p).slice(0, 8);
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${ask} busy=${busy} rows=${6} label=${t("embed.label")} action=${t("embed")} />
    <${Trouble} error=${error} />
    ${last && html`<div class="stack"><div class="halves">
      <${Panel} title=${t("cosine")} name="cosine" ways=${{ svg: () => heatSvg({ matrix, rows: last.texts, columns: last.texts, full: 1, title: t("cosine") }), json: () => ({ texts: last.texts, cosine: last.cosine }), rows: () => [["", ...last.texts], ...last.cosine.map((each, i) => [last.texts[i], ...each])], numpy: () => `import numpy as np\n\ncosine = ${numpy(last.cosine)}\n` }}>
        <${Heat} matrix=${matrix} rows=${last.texts} columns=${last.texts} at=${at ?? { row, column: null }} onHover=${setAt} onPick=${(each) => setPinned(each.row)} largest=${48} label=${t("cosine")} /></${Panel}>
      <div class="stack"><${Plane} last=${last} row=${row} onPick=${setPinned} />
      <${Panel} title=${t("nearest", { text: cut(last.texts[row], 40) })} name="nearest" ways=${barsWays(nearest, t("nearest", { text: cut(last.texts[row], 40) }), { full: 1, say: three })}><${Bars} full=${1} say=${three} rows=${nearest} /></${Panel}></div>
    </div></div>`}`;
}

function Plane({ last, row, onPick }) {
  const frame = useRef();
  const [width, height] = [520, 320];
  const [xs, ys] = [0, 1].map((axis) => last.plane.map((each) => each[axis]));
  const place = (value, all, size) => 28 + ((value - Math.min(...all)) / (Math.max(...all) - Math.min(...all) || 1)) * (size - 56);
  const seats = labelled(last.plane.map(([x, y]) => [place(x, xs, width), place(-y, ys.map((each) => -each), height)]), width);
  return html`<${Panel} title=${t("plane")} note=${t("plane.note", { p: percent(last.kept) })} name="plane" ways=${{ svg: () => standalone(frame.current), json: () => ({ texts: last.texts, plane: last.plane }), rows: () => [["text", "x", "y"], ...last.plane.map((each, i) => [last.texts[i], ...each])] }}>
    <svg class="plane" ref=${frame} viewBox="0 0 ${width} ${height}" role="group" aria-label=${t("plane")}>${last.plane.map(([x, y], i) => {
      const [left, top] = [place(x, xs, width), place(-y, ys.map((each) => -each), height)];
      const near = last.cosine[row][i];
      return html`<g class=${i === row ? "lit" : ""} role="button" tabindex="0" onClick=${() => onPick(i)} onFocus=${() => onPick(i)} onPointerEnter=${() => onPick(i)}><title>${last.texts[i]}</title>
        ${i !== row && html`<line x1=${place(xs[row], xs, width)} y1=${place(-ys[row], ys.map((each) => -each), height)} x2=${left} y2=${top} style=${{ strokeOpacity: Math.max(0, near) ** 2 }} />`}
        <circle cx=${left} cy=${top} r="6" /><text x=${left < width / 2 ? left + 10 : left - 10} y=${seats[i]} text-anchor=${left < width / 2 ? "start" : "end"}>${cut(last.texts[i], 26)}</text></g>`;
    })}</svg></${Panel}>`;
}

/** The height of each label: those of one side stand at least a line apart. */
function labelled(points, width) {
  const heights = points.map(([, y]) => y + 4);
  for (const side of [true, false]) {
    const order = points.map((_, i) => i).filter((i) => points[i][0] < width / 2 === side).sort((a, b) => heights[a] - heights[b]);
    order.forEach((i, n) => n && (heights[i] = Math.max(heights[i], heights[order[n - 1]] + 15)));
  }
  return heights;
}

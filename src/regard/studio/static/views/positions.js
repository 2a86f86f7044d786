// How a model knows where a word stands, and which cells its masks close.
import { html, useEffect, useMemo, useRef, useState } from "studio/core/html.js";
import { post, unpacked } from "studio/core/api.js";
import { said, t } from "studio/core/strings.js";
import { keep, number } from "studio/core/route.js";
import { fixed, shown } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { numpy, rowsOf, standalone } from "studio/core/export.js";
import { Count, Segments, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { Heat, heatSvg } from "studio/parts/heat.js";
import { examplesOf } from "studio/views/attention.js";

export default function Positions({ model, params }) {
  return html`<div class="stack"><${Places} model=${model} params=${params} /><${Masks} model=${model} params=${params} /></div>`;
}

const counted = (n) => Array.from({ length: n }, (_, i) => String(i));

function Places({ model, params }) {
  const [at, setAt] = useState(null);
  const [near, setNear] = useState(null);
  const curve = useRef();
  const { last, error, run } = useWork();
  const n = number(params.n) ?? 64;
  const paper = params.of === "paper";
  const sides = model.kinds.includes("cross") ? ["encoder", "decoder"] : [];
  useEffect(() => {
    run(async (signal) => (await post("/api/positions", { model: paper ? null : model.name, n, ...(sides.length && !paper ? { side: params.side ?? "encoder" } : {}) }, signal)).payloads[0]);
  }, [n, paper, params.side]);
  const values = useMemo(() => last && unpacked(last.values), [last]);
  const alike = useMemo(() => last?.alike && unpacked(last.alike), [last]);
  const full = useMemo(() => values && Math.max(1e-9, values.values.reduce((most, x) => Math.max(most, Math.abs(x)), 0)), [values]);
  const most = useMemo(() => alike && Math.max(1e-9, alike.values.reduce((top, x) => Math.max(top, Math.abs(x)), 0)), [alike]);
  const kind = last && said(`position.${last.kind}`, last.kind);
  const ways = (matrix, name, scale) => ({ svg: () => heatSvg({ matrix, full: scale, title: name, rows: counted(matrix.shape[0]), columns: counted(matrix.shape[1]) }), json: () => last, rows: () => rowsOf(matrix), numpy: () => `import numpy as np\n\nx = ${numpy(rowsOf(matrix))}\n` });
  const tools = html`<${Segments} label=${t("positions.of")} value=${paper ? "paper" : "model"} options=${[["model", t("positions.model")], ["paper", t("positions.paper")]]} onChange=${(value) => keep({ of: value === "paper" ? value : null })} />
    ${sides.length > 0 && !paper && html`<${Segments} label=${t("kind")} value=${params.side ?? "encoder"} options=${sides.map((each) => [each, t(`side.${each}`)])} onChange=${(side) => keep({ side })} />`}
    <${Count} label=${t("positions.n")} value=${n} min=${2} max=${512} onChange=${(value) => keep({ n: value })} />`;
  return html`<${Trouble} error=${error} />${values && html`<div class="halves">
    <${Panel} title=${kind} tools=${tools} name="positions" ways=${ways(values, kind, full)}>
      <p class="soft small">${said(`position.about.${last.kind}`, "")}</p>
      <${Heat} matrix=${values} full=${full} largest=${10} rows=${counted(values.shape[0])} columns=${counted(values.shape[1])} at=${at} onHover=${setAt} label=${kind} say=${({ row, column }, value) => t("positions.cell", { row, column, value: fixed(value, 4) })} /></${Panel}>
    <div class="stack">${alike && html`<${Panel} title=${t("alike")} name="alike" ways=${ways(alike, t("alike"), most)}><p class="soft small">${t("alike.about")}</p>
        <${Heat} matrix=${alike} full=${most} largest=${6} rows=${counted(alike.shape[0])} columns=${counted(alike.shape[1])} at=${near} onHover=${setNear} label=${t("alike")} say=${({ row, column }, value) => `${row} · ${column}: ${fixed(value, 4)}`} /></${Panel}>`}
      <${Panel} title=${t("curve")} name="curve" ways=${{ svg: () => standalone(curve.current), json: () => ({ distances: last.distances, curve: last.curve }), rows: () => [["distance", ...(Array.isArray(last.curve[0]) ? last.curve.map((_, i) => i) : ["value"])], ...last.distances.map((x, i) => [x, ...(Array.isArray(last.curve[0]) ? last.curve.map((row) => row[i]) : [last.curve[i]])])] }}><${Curve} xs=${last.distances} ys=${last.curve} svgRef=${curve} />${last.map_error !== null && last.map_error !== undefined && html`<p class="soft small">${t("positions.map", { step: last.step, error: last.map_error.toExponential(1) })}</p>`}</${Panel}></div>
  </div>`}`;
}

function Curve({ xs, ys, svgRef }) {
  const rows = Array.isArray(ys[0]) ? ys : [ys];
  const flat = rows.flat();
  const [low, high] = [Math.min(0, ...flat), Math.max(...flat)];
  const [width, height] = [520, 140];
  const x = (i) => 44 + (i / Math.max(1, xs.length - 1)) * (width - 60);
  const y = (value) => 10 + ((high - value) / (high - low || 1)) * (height - 34);
  return html`<svg class="curve" ref=${svgRef} viewBox="0 0 ${width} ${height}" role="img" aria-label=${t("curve.says", { from: fixed(flat[0], 3), to: fixed(flat.at(-1), 3) })}>
    <line x1="44" x2=${width - 16} y1=${y(0)} y2=${y(0)} />${[low, high].map((level) => html`<text x="38" y=${y(level) + 4} text-anchor="end">${+level.toPrecision(3)}</text>`)}
    ${[0, xs.length - 1].map((i) => html`<text x=${x(i)} y=${height - 4} text-anchor="middle">${xs[i]}</text>`)}<text x=${width / 2} y=${height - 4} text-anchor="middle">${t("distance")}</text>
    ${rows.map((row) => html`<path d=${row.map((value, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(value).toFixed(1)}`).join("")} />`)}</svg>`;
}

/** Open cells are blue; of closed ones what is padding is pale, what comes later dark, and what is both darkest. */
const shadeOf = (code) => (code === 0 ? 1 : code === 1 ? -0.35 : code & 1 ? -1 : -0.65);
const swatch = (shade) => `color-mix(in srgb, var(--${shade > 0 ? "mark" : "minus"}) ${100 * Math.abs(shade)}%, var(--panel))`;

function Masks({ model, params }) {
  const [at, setAt] = useState(null);
  const { last, error, run } = useWork();
  const kind = model.kinds.includes(params.kind) ? params.kind : (model.kinds.includes("decoder") ? "decoder" : model.kinds.at(-1));
  const padding = number(params.padding) ?? 3;
  const text = params.text ?? examplesOf(model)[0];
  useEffect(() => {
    run(async (signal) => {
      const found = (await post("/api/masks", { model: model.name, text, kind, padding }, signal)).payloads[0];
      const codes = unpacked(found.codes);
      return { ...found, codes: codes.values, matrix: { shape: codes.shape, values: Float32Array.from(codes.values, shadeOf) } };
    });
  }, [kind, padding, text]);
  const why = (code) => (code === 0 ? t("open") : last.reasons.filter((_, i) => code & (1 << i)).map((each) => said(`closed.${each}`, each)).join(" + "));
  const met = last ? [...new Set(last.codes)].sort((a, b) => a - b) : [];
  return html`<${Trouble} error=${error} />${last && html`<${Panel} title=${t("mask")} note=${t("mask.note")} name="mask"
    tools=${html`${model.kinds.length > 1 && html`<${Segments} label=${t("kind")} value=${kind} options=${model.kinds.map((each) => [each, t(`kind.short.${each}`)])} onChange=${(value) => keep({ kind: value })} />`}<${Count} label=${t("mask.padding")} value=${padding} min=${0} max=${16} onChange=${(value) => keep({ padding: value ?? 0 })} />`}
    ways=${{ svg: () => heatSvg({ matrix: last.matrix, rows: last.queries, columns: last.keys, full: 1, title: t("mask") }), json: () => ({ queries: last.queries, keys: last.keys, reasons: last.reasons, codes: Array.from(last.codes) }), rows: () => [["", ...last.keys], ...rowsOf({ values: last.codes, shape: last.matrix.shape }).map((row, i) => [last.queries[i], ...row.map(why)])] }}>
    <${Heat} matrix=${last.matrix} rows=${last.queries} columns=${last.keys} at=${at} onHover=${setAt} largest=${30} label=${t("mask")} describe=${t("mask.note")} legend=${false} say=${({ row, column }) => `${shown(last.queries[row])} → ${shown(last.keys[column])}: ${why(last.codes[row * last.keys.length + column])}`} />
    <ul class="reasons small">${met.map((code) => html`<li><i style=${{ background: swatch(shadeOf(code)) }}></i>${why(code)}</li>`)}</ul>
  </${Panel}>`}`;
}

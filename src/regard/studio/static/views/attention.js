// Who looks at whom, in any head of any layer: a matrix or lines, chosen from small pictures of all.
import { html, useEffect, useMemo, useState } from "studio/core/html.js";
import { matrix, post, unpacked } from "studio/core/api.js";
import { said, t } from "studio/core/strings.js";
import { address, keep, number } from "studio/core/route.js";
import { fixed, percent, shown, whole } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { numpy, rowsOf } from "studio/core/export.js";
import { Asker, Check, Choice, Segments, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsWays } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Beside } from "studio/parts/beside.js";
import { Heads } from "studio/parts/heads.js";
import { Heat, heatSvg } from "studio/parts/heat.js";
import { Lines, linesSvg } from "studio/parts/lines.js";
import { grouped, merged } from "studio/parts/words.js";

export const EXAMPLES = {
  pt: ["O livro está em cima da mesa.", "O cão que mordeu o carteiro fugiu."],
  en: ["The animal did not cross the street because it was too tired", "The animal did not cross the street because it was too wide", "The trophy does not fit in the suitcase because it is too big"],
};

const MANY = 64; // tokens from which the matrix is the better picture
const flag = (value) => value === "1";

export const examplesOf = (model) => EXAMPLES[model.source ?? "en"] ?? EXAMPLES.en;

/** What every view that looks inside sends. */
export function reading(model, params, text) {
  const body = { model: model.name, text };
  if (params.ids && text === params.text) body.ids = params.ids.split(",").map(Number);
  return body;
}

export default function Attention({ model, models, params }) {
  const [text, setText] = useState(params.text ?? examplesOf(model)[0]);
  const [asked, setAsked] = useState(text);
  const [at, setAt] = useState(null);
  const [pinned, pin] = useState(number(params.q) === null ? null : { row: number(params.q), column: null });
  const setPinned = (place) => {
    pin(place);
    keep({ q: place?.row ?? null });
  };
  const over = useWork();
  const one = useWork();
  const kind = model.kinds.includes(params.kind) ? params.kind : model.kinds.at(-1);
  const auto = params.layer === undefined && params.head === undefined && kind !== "cross";
  const own = useMemo(() => (auto && over.last?.kind === kind && over.last.asked === asked ? farthest(over.last.capture) : null), [auto, over.last, asked]);
  const [layer, head] = own ?? [number(params.layer), number(params.head)];
  const rollout = flag(params.rollout) && kind !== "cross";

  const ask = (words = text) => {
    keep({ text: words, ids: words === params.text ? params.ids : null });
    setAsked(words);
    setPinned(null);
  };
  useEffect(() => {
    if (asked.trim()) over.run(async (signal) => ({ asked, kind, capture: await post("/api/attention", { ...reading(model, params, asked), kind }, signal) }));
  }, [asked, kind]);
  const ids = over.last?.capture.request.ids;
  const shape = over.last?.capture.kinds?.[kind];
  useEffect(() => {
    if (!asked.trim()) return;
    // The reading is the same as above: for a translator its ids are sent along, so that it is not translated twice.
    if (model.kinds.includes("cross") && over.last?.asked !== asked) return;
    const body = { ...reading(model, params, asked), ...(ids && over.last.asked === asked ? { ids } : {}), kind, layer, head, how: rollout ? "rollout" : "weights" };
    one.run(async (signal) => ({ kind, asked, weights: await matrix("/api/attention/head", body, signal) }));
  }, [asked, kind, layer, head, rollout, model.kinds.includes("cross") && over.last]);

  const set = (patch) => keep(patch);
  const pick = (l, h) => set({ layer: l ?? "mean", head: h ?? "mean" });
  const sides = shape && over.last.kind === kind && one.last?.kind === kind && one.last.asked === over.last.asked ? over.last.capture.tokens : null;
  const shownNow = useMemo(() => sides && arranged(sides[shape.queries], sides[shape.keys], one.last.weights, { specials: !flag(params.hide), words: flag(params.words) }), [sides, one.last, params.hide, params.words]);
  const many = shownNow && Math.max(...shownNow.matrix.shape) > MANY;
  const lines = (params.as ?? (many ? "matrix" : "lines")) === "lines";
  const lit = at ?? pinned;
  const name = rollout ? t("rollout") : `${t("layer")} ${layer ?? t("mean")} · ${t("head")} ${head ?? t("mean")}`;
  const title = `${t(`kind.${kind}`)}, ${name}`;
  const step = (count, now, by) => (count ? Math.max(0, Math.min(count - 1, now === null ? (by > 0 ? 0 : count - 1) : now + by)) : null);
  const walk = (by) => shownNow && setPinned({ row: step(shownNow.matrix.shape[0], lit?.row ?? null, by), column: null });
  useKeys({
    m: () => set({ as: lines ? "matrix" : "lines" }), h: () => set({ hide: flag(params.hide) ? null : "1" }), w: () => set({ words: flag(params.words) ? null : "1" }),
    ArrowUp: () => shape && pick(layer ?? 0, step(shape.n_heads, head, -1)), ArrowDown: () => shape && pick(layer ?? 0, step(shape.n_heads, head, 1)),
    "Shift+ArrowUp": () => shape && pick(step(shape.n_layers, layer, -1), head), "Shift+ArrowDown": () => shape && pick(step(shape.n_layers, layer, 1), head),
    ArrowLeft: () => walk(-1), ArrowRight: () => walk(1), Escape: () => setPinned(null),
  });
  const choosing = shape && html`
    ${model.kinds.length > 1 && html`<${Segments} label=${t("kind")} value=${kind} options=${model.kinds.map((each) => [each, t(`kind.short.${each}`)])} onChange=${(value) => set({ kind: value, layer: null, head: null })} />`}
    <${Choice} label=${t("layer")} value=${layer ?? "mean"} options=${[["mean", t("mean")], ...Array.from({ length: shape.n_layers }, (_, i) => [i, i])]} onChange=${(value) => set({ layer: value, head: head ?? "mean" })} />
    <${Choice} label=${t("head")} value=${head ?? "mean"} options=${[["mean", t("mean")], ...Array.from({ length: shape.n_heads }, (_, i) => [i, i])]} onChange=${(value) => set({ head: value, layer: layer ?? "mean" })} />
    <${Segments} label=${t("figure")} value=${lines ? "lines" : "matrix"} options=${[["lines", t("lines")], ["matrix", t("matrix")]]} onChange=${(value) => set({ as: value })} />`;
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${ask} onStop=${over.stop} busy=${over.busy} examples=${examplesOf(model)} label=${t("text")} action=${t("look")} rows=${asked.length > 400 ? 3 : 1} />
    <${Trouble} error=${over.error ?? one.error} />
    <div class="sides">
      <div class="stack">
        <div class=${flag(params.compare) ? "halves" : "stack"}>${shape && html`<${Panel} title=${flag(params.compare) ? `A: ${title}` : title} note=${own ? t("auto") : ""} name="attention" tools=${choosing} ways=${shownNow && ways(shownNow, title, lines, lit, params)}>
          <div class="row toggles">
            <${Check} label=${t("hide")} value=${flag(params.hide)} onChange=${(on) => set({ hide: on ? "1" : null })} />
            <${Check} label=${t("merge")} value=${flag(params.words)} onChange=${(on) => set({ words: on ? "1" : null })} />
            ${!lines && html`<${Check} label=${t("log")} value=${flag(params.log)} onChange=${(on) => set({ log: on ? "1" : null })} />`}
            ${kind !== "cross" && html`<${Check} label=${t("rollout")} value=${rollout} onChange=${(on) => set({ rollout: on ? "1" : null })} />`}
            <${Check} label=${t("compare")} value=${flag(params.compare)} onChange=${(on) => set({ compare: on ? "1" : null, b: null, bm: null })} />
          </div>
          ${shownNow ? (lines
            ? html`<${Lines} matrix=${shownNow.matrix} queries=${shownNow.queries} keys=${shownNow.keys} at=${lit} onHover=${setAt} onStep=${setPinned} onPick=${setPinned} label=${title} describe=${describe(shownNow, lit)} />`
            : html`<${Heat} matrix=${shownNow.matrix} rows=${shownNow.queries} columns=${shownNow.keys} at=${lit} log=${flag(params.log)} onHover=${setAt} onStep=${setPinned} onPick=${setPinned} label=${title} describe=${describe(shownNow, lit)} />`) : html`<div class="waiting"></div>`}
          ${shownNow?.note && html`<p class="soft small">${shownNow.note}</p>`}
        </${Panel}>`}
        ${flag(params.compare) && html`<${Beside} model=${model} models=${models} params=${params} asked=${asked} kind=${kind} layer=${layer} head=${head} rollout=${rollout} lines=${lines} first=${shownNow} at=${lit} onHover=${setAt} onStep=${setPinned} />`}</div>
        ${shape && over.last && html`<${Panel} title=${t("heads.title", { n: shape.n_layers * shape.n_heads })} note=${t("heads.note")} name="heads" ways=${{ canvas: true, json: () => over.last.capture }}><${Heads} overview=${unpackedOnce(over.last)} layer=${layer} head=${head} onPick=${pick} /></${Panel}>`}
      </div>
      ${shownNow && html`<${Side} now=${shownNow} lit=${lit} model=${model} params=${params} kind=${kind} layer=${layer} head=${head} ids=${ids} text=${asked} bytes=${one.last.weights.bytes} />`}
    </div>`;
}

function unpackedOnce(last) {
  return (last.overview ??= unpacked(last.capture.payloads[0].weights));
}

/** The head that looks most decidedly at words that are not next to it: of short texts the small pictures are whole. */
function farthest(capture) {
  const { kind, queries, keys, weights } = capture.payloads[0];
  const first = kind === "decoder" ? 1 : 0; // language models rest on their first token, which says nothing
  const { values, shape: [layers, heads, n, m] } = unpacked(weights);
  const [rows, columns] = [capture.tokens[queries], capture.tokens[keys]];
  if (n !== rows.length || m !== columns.length) return null;
  let best = [-1, null];
  for (let l = 0; l < layers; l++)
    for (let h = 0; h < heads; h++) {
      let sum = 0;
      for (let i = 0; i < n; i++) {
        let most = 0;
        if (!rows[i].special) for (let j = first; j < m; j++) if (!columns[j].special && Math.abs(i - j) > 1) most = Math.max(most, values[((l * heads + h) * n + i) * m + j]);
        sum += most;
      }
      if (sum > best[0]) best = [sum, [l, h]];
    }
  return best[1];
}

/** The weights as they are looked at: without special tokens, by words, or as they are. */
export function arranged(queries, keys, weights, { specials, words }) {
  let [rows, columns] = [queries, keys].map((side) => (words ? grouped(side) : side.map((token) => ({ text: token.text, tokens: [token.i], special: token.special }))));
  if (!specials) [rows, columns] = [rows, columns].map((side) => side.filter((each) => !each.special));
  const found = rows.length === queries.length && columns.length === keys.length ? weights : merged(weights, rows, columns);
  if (specials) return { matrix: found, queries: rows.map((each) => each.text), keys: columns.map((each) => each.text), rows, note: "" };
  const m = columns.length;
  const values = Float32Array.from(found.values);
  rows.forEach((_, i) => {
    const row = values.subarray(i * m, (i + 1) * m);
    const sum = row.reduce((a, b) => a + b, 0);
    if (sum > 0) row.forEach((x, j) => (row[j] = x / sum));
  });
  return { matrix: { values, shape: found.shape }, queries: rows.map((each) => each.text), keys: columns.map((each) => each.text), rows, note: t("renormalised") };
}

export function rowOf({ values, shape: [, m] }, i) {
  return Array.from(values.subarray(i * m, (i + 1) * m));
}

export function describe(now, lit) {
  const i = lit?.row ?? 0;
  const best = rowOf(now.matrix, i).map((w, j) => [w, j]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  return t("describe", { word: shown(now.queries[i] ?? ""), most: best.map(([w, j]) => `${shown(now.keys[j])} ${fixed(w, 2)}`).join(", ") });
}

export function ways(now, title, lines, at, params) {
  const table = () => [["", ...now.keys], ...rowsOf(now.matrix).map((row, i) => [now.queries[i], ...row])];
  return {
    svg: () => (lines ? linesSvg({ ...now, at, title }) : heatSvg({ matrix: now.matrix, rows: now.queries, columns: now.keys, full: 1, log: flag(params.log), title })),
    json: () => ({ title, queries: now.queries, keys: now.keys, weights: rowsOf(now.matrix) }),
    rows: table,
    numpy: () => `import numpy as np\n\nqueries = ${JSON.stringify(now.queries)}\nkeys = ${JSON.stringify(now.keys)}\nweights = ${numpy(rowsOf(now.matrix))}\n`,
  };
}

function Side({ now, lit, model, params, kind, layer, head, ids, text, bytes }) {
  const i = Math.min(lit?.row ?? Math.max(0, now.rows.findIndex((each) => !each.special)), now.queries.length - 1);
  const rows = rowOf(now.matrix, i).map((p, j) => ({ name: now.keys[j], p, lit: lit?.column === j })).sort((a, b) => b.p - a.p).slice(0, 12);
  const query = now.rows[i]?.tokens[0];
  const single = layer !== null && head !== null;
  return html`<div class="stack">
    <${Panel} title=${t("looks", { word: shown(now.queries[i]) })} name="looks" ways=${barsWays(rows, t("looks", { word: shown(now.queries[i]) }), { full: 1, say: (p) => fixed(p, 4) })}><${Bars} full=${1} rows=${rows} say=${(p) => fixed(p, 4)} />
      <p><a class="button" href=${address("explain", { model: model.name, text, kind, layer: single ? layer : null, head: single ? head : null, query, ids: ids?.join(","), present: params.present })}>${t("explain.this")}</a></p>
      <p class="soft small">${t("caveat")}</p><p class="soft small num">${t("wire", { n: whole(now.matrix.shape[0]), m: whole(now.matrix.shape[1]), kb: (bytes / 1000).toFixed(1) })}</p>
    </${Panel}>
    ${single && html`<${Ablate} model=${model} text=${text} ids=${ids} kind=${kind} layer=${layer} head=${head} />`}
    ${!model.kinds.includes("cross") && html`<${Finder} model=${model} kind=${kind} />`}
  </div>`;
}

/** The honest answer to what a head is for: silence it and see. */
function Ablate({ model, text, ids, kind, layer, head }) {
  const { last, error, busy, run } = useWork();
  const place = `${layer} ${head} ${kind} ${text}`;
  const ask = () => run(async (signal) => ({ place, ...(await post("/api/ablate", { model: model.name, text, ...(ids ? { ids } : {}), kind, layer, head }, signal)).payloads[0] }));
  const found = last?.place === place ? last : null;
  return html`<${Panel} title=${t("ablate")} name="ablation" ways=${found && { json: () => found, rows: () => [["token", "change"], ...(found.tokens ?? []).map((token, i) => [token, found.by_token[i]])] }}><p class="small soft">${t("ablate.about", { layer, head })}</p>
    <p><button class="button" disabled=${busy} onClick=${ask}>${t("ablate.do")}</button></p><${Trouble} error=${error} />
    ${found && html`<p class="small" aria-live="polite"><b class="num">${fixed(found.change, 4)}</b> ${found.measure}</p>
      ${found.before && html`<p class="small soft">${t("ablate.before")} ${ends(found.before)}<br />${t("ablate.after")} ${ends(found.after)}</p>`}`}
  </${Panel}>`;
}

const ends = ({ top }) => top.slice(0, 3).map((each) => `${shown(each.text)} ${percent(each.probability)}`).join(", ");

function Finder({ model, kind }) {
  const { last, error, busy, run } = useWork();
  const ask = () => run(async (signal) => (await post("/api/heads", { model: model.name, kind }, signal)).payloads[0]);
  return html`<${Panel} title=${t("finder")} name="heads" ways=${last && { json: () => last, rows: () => [["pattern", "layer", "head", "score"], ...Object.entries(last.patterns).flatMap(([pattern, layers]) => layers.flatMap((row, l) => row.map((score, h) => [pattern, l, h, score])))] }}>${!last && html`<p class="small soft">${t("finder.about")}</p><p><button class="button" disabled=${busy} onClick=${ask}>${t("finder.do")}</button></p>`}<${Trouble} error=${error} />
    ${last && html`<ul class="plain-list small">${Object.entries(last.best).map(([pattern, [l, h]]) => html`<li><button class="button plain" onClick=${() => keep({ layer: l, head: h })}>${said(`pattern.${pattern}`, pattern)} <span class="num soft">${t("layer")} ${l} · ${t("head")} ${h} · ${fixed(last.patterns[pattern][l][h], 2)}</span></button></li>`)}</ul>
      ${last.judged && html`<p class="small soft">${last.judged.verdict}</p>`}`}
  </${Panel}>`;
}

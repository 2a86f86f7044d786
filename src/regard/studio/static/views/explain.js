// One query, step by step: every number from q and k to the sum, the block and the word at the end.
import { html, useEffect, useMemo, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { said, t } from "studio/core/strings.js";
import { keep, number } from "studio/core/route.js";
import { fixed, percent, shown } from "studio/core/format.js";
import { copy, useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { csv, numpy } from "studio/core/export.js";
import { Asker, Choice, Segments, Trouble } from "studio/parts/controls.js";
import { Panel, Numbers } from "studio/parts/panel.js";
import { Bars } from "studio/parts/bars.js";
import { linesSvg } from "studio/parts/lines.js";
import { Strip } from "studio/parts/vector.js";
import { Words } from "studio/parts/words.js";
import { examplesOf, reading } from "studio/views/attention.js";

const STEPS = ["query", "keys", "score", "scaled", "masked", "weight", "values", "weighted", "sum", "projected", "block", "end"];
const MOST = 40; // rows of the table before one asks for all

export default function Explain({ model, params }) {
  const [text, setText] = useState(params.text ?? examplesOf(model)[0]);
  const [asked, setAsked] = useState(text);
  const [vector, setVector] = useState(null);
  const [all, setAll] = useState(false);
  const kinds = useWork();
  const { last, error, busy, run, stop } = useWork();
  const kind = model.kinds.includes(params.kind) ? params.kind : model.kinds.at(-1);
  const [layer, head] = [number(params.layer), number(params.head)];
  const query = number(params.query) ?? (kind === "cross" ? 1 : null); // of a translation the server would take the full stop
  const step = Math.max(1, Math.min(STEPS.length, number(params.step) ?? 1));

  const ask = (words = text) => {
    keep({ text: words, query: null, ids: words === params.text ? params.ids : null, layer: params.layer, head: params.head });
    setAsked(words);
  };
  useEffect(() => {
    if (!asked.trim()) return;
    const body = { ...reading(model, params, asked), kind, ...(layer === null ? {} : { layer }), ...(head === null ? {} : { head }), ...(query === null ? {} : { query }) };
    run(async (signal) => {
      const capture = await post("/api/explain", body, signal);
      setVector(null);
      return capture;
    });
  }, [asked, kind, layer, head, query]);
  useEffect(() => {
    if (asked.trim()) kinds.run(async (signal) => (await post("/api/attention", { ...reading(model, params, asked), kind }, signal)).kinds);
  }, [asked, kind]);

  const found = last?.payloads[0];
  const shape = kinds.last?.[kind];
  const sides = last?.tokens;
  const queries = useMemo(() => found && queriesOf(found.kind, sides), [found]);
  const go = (to) => keep({ step: Math.max(1, Math.min(STEPS.length, to)) });
  const at = found?.query.i;
  const pick = (i) => queries && keep({ query: Math.max(0, Math.min(queries.length - 1, i)), layer: found.layer, head: found.head });
  const by = (name, now, count, change) => shape && found && keep({ layer: found.layer, head: found.head, query: at, [name]: Math.max(0, Math.min(count - 1, now + change)) });
  useKeys({
    ArrowRight: () => go(step + 1), ArrowLeft: () => go(step - 1), " ": () => go(step === STEPS.length ? 1 : step + 1), Home: () => go(1), End: () => go(STEPS.length),
    ArrowUp: () => by("head", found?.head, shape?.n_heads, -1), ArrowDown: () => by("head", found?.head, shape?.n_heads, 1),
    "Shift+ArrowUp": () => by("layer", found?.layer, shape?.n_layers, -1), "Shift+ArrowDown": () => by("layer", found?.layer, shape?.n_layers, 1), Escape: () => setVector(null),
  });
  const range = (n) => Array.from({ length: n ?? 0 }, (_, i) => [i, i]);
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${ask} onStop=${stop} busy=${busy} rows=${1} examples=${examplesOf(model)} label=${t("text")} action=${t("look")} />
    <${Trouble} error=${error} />
    ${found && html`<div class="stack">
      <${Panel} tools=${html`
        ${model.kinds.length > 1 && html`<${Segments} label=${t("kind")} value=${kind} options=${model.kinds.map((each) => [each, t(`kind.short.${each}`)])} onChange=${(value) => keep({ kind: value, layer: null, head: null, query: null })} />`}
        <${Choice} label=${t("layer")} value=${found.layer} options=${range(shape?.n_layers)} onChange=${(value) => keep({ layer: value, head: found.head, query: at })} />
        <${Choice} label=${t("head")} value=${found.head} options=${range(shape?.n_heads)} onChange=${(value) => keep({ head: value, layer: found.layer, query: at })} />`}
        title=${t("explain.who")} name="explanation" ways=${{ svg: () => drawn(found), json: () => last, rows: () => table(found), numpy: () => code(found) }}>
        <${Words} items=${queries.map((token, i) => ({ text: token.text, special: token.special, lit: i === at }))} at=${at} onPick=${pick} label=${t("explain.who")} className="pieces" />
        ${last.why && html`<p class="small soft why">${last.why}</p>`}
      </${Panel}>
      <${Panel} className="steps">
        <div class="stepper row"><button class="button" disabled=${step === 1} onClick=${() => go(step - 1)} aria-label=${t("step.back")}>←</button>
          <ol class="dots">${STEPS.map((name, i) => html`<li><button type="button" class=${i + 1 === step ? "now" : i + 1 < step ? "done" : ""} aria-current=${i + 1 === step ? "step" : undefined} aria-label="${i + 1}: ${t(`step.${name}`)}" title=${t(`step.${name}`)} onClick=${() => go(i + 1)}>${i + 1}</button></li>`)}</ol>
          <button class="button main-action" disabled=${step === STEPS.length} onClick=${() => go(step + 1)}>${t("step.next")} →</button></div>
        <div class="said" aria-live="polite"><h2>${t(`step.${STEPS[step - 1]}`)}</h2><p>${sayStep(STEPS[step - 1], found)}</p></div>
        <div class="sides"><div class="scroll" tabindex="0" role="group" aria-label=${t("explain.table")}>
          ${step <= 9 && html`<${Keys} found=${found} step=${step} all=${all} onAll=${() => setAll(true)} vector=${vector} onVector=${setVector} />`}
          ${step >= 10 && html`<${Block} found=${found} step=${step} vector=${vector} onVector=${setVector} />`}
        </div>
        <aside class="inspector"><${Inspector} found=${found} vector=${vector} step=${step} /></aside></div>
      </${Panel}>
    </div>`}`;
}

function queriesOf(kind, tokens) {
  return kind === "encoder" ? tokens.source : kind === "decoder" ? tokens.target : (tokens.written ?? tokens.target);
}

/** What happens here, with this query's own numbers in it. */
function sayStep(name, found) {
  const d = found.query.q.length;
  const best = found.keys.reduce((a, b) => (b.weight > a.weight ? b : a));
  const top = found.ending?.top[0];
  return t(`say.${name}`, {
    query: shown(found.query.text), d, best: shown(best.text), dot: fixed(best.score), scaled: fixed(best.scaled), weight: fixed(best.weight, 4), scale: fixed(found.scale, 4),
    n: found.keys.length, closed: found.keys.filter((key) => key.closed_by).length, error: found.check.largest_error.toExponential(1),
    word: top ? shown(top.text) : "–", p: top ? percent(top.probability) : "–", what: found.ending ? found.ending.what : t("say.end.none"), D: found.projected.length,
  });
}

function Keys({ found, step, all, onAll, vector, onVector }) {
  const full = (values) => Math.max(1e-9, ...values.flat().map(Math.abs));
  const [fullK, fullV, fullW] = useMemo(() => [full(found.keys.map((key) => key.k)), full(found.keys.map((key) => key.v)), full(found.keys.map((key) => key.weighted))], [found]);
  const most = found.keys.slice().sort((a, b) => b.weight - a.weight).slice(0, MOST).map((key) => key.i);
  const rows = all ? found.keys : found.keys.filter((key) => most.includes(key.i));
  const best = Math.max(...found.keys.map((key) => key.weight));
  const strip = (key, name, scale) => html`<td><${Strip} values=${key[name]} full=${scale} lit=${vector?.name === name && vector?.i === key.i} label=${t(`vector.${name}`, { word: shown(key.text) })} onPick=${() => onVector({ name, i: key.i, title: t(`vector.${name}`, { word: shown(key.text) }), values: key[name] })} /></td>`;
  const heads = [["key", 1], ["k", 2], ["q·k", 3, true], [t("step.scaled.short"), 4, true], [t("step.masked.short"), 5], [t("step.weight.short"), 6, true], ["v", 7], [t("step.weighted.short"), 8]];
  return html`<div class="query-row"><span class="soft">q</span><b>${shown(found.query.text)}</b><${Strip} values=${found.query.q} height=${20} label=${t("vector.q", { word: shown(found.query.text) })} lit=${vector?.name === "q"} onPick=${() => onVector({ name: "q", title: t("vector.q", { word: shown(found.query.text) }), values: found.query.q })} /></div>
    ${step >= 2 && html`<table class="keys"><thead><tr>${heads.filter((each) => step >= each[1] && !(each[1] === 5 && step > 5)).map(([name, , num]) => html`<th scope="col" class=${num ? "num" : ""}>${name === "key" ? t("key") : name}</th>`)}</tr></thead>
    <tbody>${rows.map((key) => html`<tr class="${key.weight === best && step >= 6 ? "lit" : ""} ${key.closed_by && step >= 5 ? "closed" : ""}">
      <th scope="row" dir="auto">${shown(key.text)}</th>${step >= 2 && strip(key, "k", fullK)}
      ${step >= 3 && html`<td class="num" title=${key.score}>${fixed(key.score)}</td>`}${step >= 4 && html`<td class="num" title=${key.scaled}>${fixed(key.scaled)}</td>`}
      ${step === 5 && html`<td>${key.closed_by ? html`<span class="shut">${said(`closed.${key.closed_by}`, key.closed_by)}</span>` : html`<span class="soft">${t("open")}</span>`}</td>`}
      ${step >= 6 && html`<td class="num weight" title=${key.weight}><i style=${{ width: `${100 * key.weight}%` }}></i><span>${fixed(key.weight, 4)}</span></td>`}
      ${step >= 7 && strip(key, "v", fullV)}${step >= 8 && strip(key, "weighted", fullW)}</tr>`)}
      ${step >= 9 && html`<tr class="total"><th scope="row">${t("sum")}</th><td colspan=${heads.length - 3}></td><td><${Strip} values=${found.sum} full=${fullW} height=${20} label=${t("vector.sum")} lit=${vector?.name === "sum"} onPick=${() => onVector({ name: "sum", title: t("vector.sum"), values: found.sum })} /></td></tr>`}
    </tbody></table>
    ${rows.length < found.keys.length && html`<p><button class="button small" onClick=${onAll}>${t("all.keys", { n: found.keys.length })}</button></p>`}`}`;
}

/** The way through the block, a strip a station. */
function Block({ found, step, vector, onVector }) {
  const rows = [[t("vector.sum"), found.sum], [t("step.projected"), found.projected], ...(step >= 11 ? [[t("attended"), found.attended], ...found.steps.map((each) => [said(`block.${each.name}`, each.name), each.values])] : [])];
  return html`<table class="keys"><tbody>${rows.map(([name, values]) => html`<tr><th scope="row">${name}</th><td><${Strip} values=${values} height=${18} label=${name} lit=${vector?.title === name} onPick=${() => onVector({ name, title: name, values })} /></td><td class="num soft">${values.length}</td></tr>`)}</tbody></table>
    ${step >= 12 && (found.ending ? html`<h3 class="ending">${said(`ending.${found.ending.what}`, found.ending.what)}</h3><${Bars} full=${1} rows=${found.ending.top.map((each, i) => ({ name: each.text, p: each.probability, note: fixed(each.logit, 2), lit: i === 0 }))} />` : html`<p class="soft">${t("say.end.none")}</p>`)}`;
}

function Inspector({ found, vector, step }) {
  if (vector) return html`<${Numbers} title=${vector.title} values=${vector.values} />${vector.name === "k" && html`<${Products} found=${found} i=${vector.i} />`}`;
  return html`<p class="soft small">${t("inspector.hint")}</p>
    <p class="row"><button class="button" onClick=${() => copy(code(found), t("copied"))}>${t("copy.numpy")}</button><button class="button" onClick=${() => copy(csv(table(found)), t("copied"))}>${t("copy.csv")}</button></p>
    <p class="soft small">${t("check", { error: found.check.largest_error.toExponential(1) })}</p>`;
}

/** q · k, spelled out. */
function Products({ found, i }) {
  const key = found.keys.find((each) => each.i === i);
  return html`<details class="more" open><summary>q · k = ${fixed(key.score, 4)}</summary><div class="scroll numbers-list" tabindex="0" role="group" aria-label="q · k"><table><thead><tr><th class="num">q</th><th class="num">k</th><th class="num">q·k</th></tr></thead><tbody>${found.query.q.map((q, j) => html`<tr><td class="num">${fixed(q)}</td><td class="num">${fixed(key.k[j])}</td><td class="num">${fixed(q * key.k[j])}</td></tr>`)}</tbody></table></div></details>`;
}

function table(found) {
  const head = ["key", "score", "scaled", "closed by", "weight", ...["k", "v", "weight·v"].flatMap((name) => found.sum.map((_, i) => `${name}[${i}]`))];
  return [head, ...found.keys.map((key) => [key.text, key.score, key.scaled, key.closed_by, key.weight, ...key.k, ...key.v, ...key.weighted])];
}

/** The row as lines, as a file. */
function drawn(found) {
  const matrix = { shape: [1, found.keys.length], values: Float32Array.from(found.keys, (key) => key.weight) };
  return linesSvg({ matrix, queries: [found.query.text], keys: found.keys.map((key) => key.text), title: `${t("layer")} ${found.layer} · ${t("head")} ${found.head}` });
}

/** A program that computes the row again and says so. */
export function code(found) {
  const bias = found.keys.some((key) => key.bias !== undefined);
  const open = found.keys.map((key) => (key.closed_by ? "False" : "True"));
  return `import numpy as np

keys = ${JSON.stringify(found.keys.map((key) => key.text))}
q = ${numpy(found.query.q)}
k = ${numpy(found.keys.map((key) => key.k))}
v = ${numpy(found.keys.map((key) => key.v))}
${bias ? `bias = ${numpy(found.keys.map((key) => key.bias ?? 0))}\n` : ""}opened = np.array([${open.join(", ")}])

scaled = k @ q * np.float32(${found.scale})${bias ? " + bias" : ""}
scaled[~opened] = -np.inf
weight = np.exp(scaled - scaled.max())
weight /= weight.sum()
total = weight @ v

assert np.allclose(weight, ${numpy(found.keys.map((key) => key.weight))}, atol=1e-5)
assert np.allclose(total, ${numpy(found.sum)}, atol=1e-4)
print(dict(zip(keys, weight.round(4).tolist())))
`;
}

// Which class, and which words made it so.
import { html, useEffect, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { fixed, percent, shown } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { Asker, Segments, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsSvg, wordsSvg } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Words } from "studio/parts/words.js";

const EXAMPLES = ["A moving story, beautifully told, with a wonderful cast.", "Two hours of my life that I will never get back.", "It was not bad, but I would not watch it again."];
const METHODS = ["integrated", "gradient", "occlusion"];

export default function Classify({ model, params }) {
  const [text, setText] = useState(params.text ?? EXAMPLES[0]);
  const [pair, setPair] = useState(params.pair ?? "");
  const [at, setAt] = useState(null);
  const { last, error, busy, run } = useWork();
  const own = model.labels.length > 0;
  const [labels, setLabels] = useState(params.labels ?? "");
  const method = params.method ?? METHODS[0];
  const ask = (words = text, patch = {}) => {
    const now = { text: words, pair, method, label: null, labels, ...patch };
    keep(now);
    const body = { model: model.name, text: words };
    if (now.pair) body.pair = now.pair;
    if (!own) body.labels = now.labels.split(",").map((each) => each.trim()).filter(Boolean);
    else Object.assign(body, { saliency: now.method, ...(now.label ? { label: now.label } : {}) });
    run((signal) => post("/api/classify", body, signal));
  };
  useEffect(() => { if (own || labels) ask(text, { label: params.label }); }, []);
  const why = last?.saliency;
  const full = why ? Math.max(1e-9, ...why.values.map(Math.abs)) : 1;
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${(words) => ask(words)} busy=${busy} examples=${EXAMPLES} rows=${2} label=${t("text")} action=${t("classify")}
      more=${own && html`<label class="field">${t("pair")}<input type="text" class="long" value=${pair} onInput=${(event) => setPair(event.target.value)} /></label>`}>
      ${!own && html`<label class="field">${t("labels")}<input type="text" class="long" placeholder="sport, politics, cooking" value=${labels} onInput=${(event) => setLabels(event.target.value)} /></label>`}
    </${Asker}>
    <${Trouble} error=${error} />
    ${last && html`<div class="sides reverse">
      <div class="stack">${why && html`<${Panel} title=${t("saliency", { label: why.label })} name="saliency"
        tools=${html`<${Segments} label=${t("method")} value=${method} options=${METHODS.map((each) => [each, t(`method.${each}`)])} onChange=${(value) => ask(text, { method: value, label: params.label })} />`}
        ways=${{ svg: () => wordsSvg({ items: why.tokens.map((token, i) => ({ text: token, shade: why.values[i] / full, small: fixed(why.values[i], 2) })), title: t("saliency", { label: why.label }) }), json: () => last, rows: () => [["token", "value"], ...why.tokens.map((token, i) => [token, why.values[i]])] }}>
        <${Words} className="pieces flow" label=${t("saliency", { label: why.label })} at=${at} items=${why.tokens.map((token, i) => ({ text: token, shade: why.values[i] / full, lit: at === i }))} onHover=${setAt} onPick=${setAt} />
        <p class="reading num" aria-live="polite">${at === null ? "" : `${shown(why.tokens[at])}: ${fixed(why.values[at], 4)}`}</p>
        <p class="soft small">${t(`method.about.${method}`, { error: why.error === null || why.error === undefined ? "–" : fixed(why.error, 4), base: fixed(why.base, 3) })}</p>
        <${Bars} rows=${why.tokens.map((token, i) => ({ name: token, p: why.values[i] })).sort((a, b) => Math.abs(b.p) - Math.abs(a.p)).slice(0, 10)} say=${(x) => fixed(x, 3)} /></${Panel}>`}</div>
      <${Panel} title=${t("classes")} name="classes" ways=${{ svg: () => barsSvg({ rows: last.labels, title: t("classes"), full: 1 }), json: () => last, rows: () => [["label", "p"], ...last.labels.map((each) => [each.name, each.p])] }}>
        <${Bars} full=${1} say=${percent} rows=${last.labels.slice().sort((a, b) => b.p - a.p).map((each) => ({ name: each.name, p: each.p, lit: each.name === (why?.label ?? last.label), label: own ? t("saliency.for") : undefined, action: own ? () => ask(text, { label: each.name }) : undefined }))} /></${Panel}>
    </div>`}`;
}

// Gaps and what belongs there.
import { html, useEffect, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { useWork } from "studio/core/hooks.js";
import { Asker, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsSvg } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";

const EXAMPLES = ["The capital of France is [MASK].", "She put the [MASK] in the [MASK].", "He went to the bank to deposit his [MASK]."];

export default function Fill({ model, params }) {
  const [text, setText] = useState(params.text?.match(/\[MASK\]|___|<mask>/) ? params.text : EXAMPLES[0]);
  const { last, error, busy, run } = useWork();
  const ask = (words = text) => {
    keep({ text: words });
    run((signal) => post("/api/fill", { model: model.name, text: words, top: 10 }, signal));
  };
  useEffect(() => ask(), []);
  const put = (gap, word) => {
    let i = -1;
    const next = text.replace(/\[MASK\]|___|<mask>/g, (found) => (++i === gap ? word.trim() : found));
    setText(next);
    if (/\[MASK\]|___|<mask>/.test(next)) ask(next);
  };
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${ask} busy=${busy} examples=${EXAMPLES} rows=${1} label=${t("fill.label")} action=${t("fill")} />
    <${Trouble} error=${error} />
    ${last && html`<div class="stack"><p class="result" dir="auto">${last.text}</p>
      <div class="cards">${last.gaps.map((gap, i) => html`<${Panel} title=${t("gap", { n: i + 1 })} name="gap-${i + 1}" ways=${{ svg: () => barsSvg({ rows: gap.map((each) => ({ name: each.token, p: each.p })), title: last.text, full: 1 }), json: () => gap, rows: () => [["token", "id", "p"], ...gap.map((each) => [each.token, each.id, each.p])] }}>
        <${Bars} full=${1} rows=${gap.map((each, j) => ({ name: each.token, p: each.p, lit: j === 0, label: t("fill.put"), action: () => put(i, each.token) }))} /></${Panel}>`)}</div></div>`}`;
}

// What the model is: sizes, parts, memory, its tokenizer, its own card.
import { html, useEffect, useState } from "studio/core/html.js";
import { get } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { bytes, large, whole } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsSvg, barsWays } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";

export default function Model({ model }) {
  const { last, error, run } = useWork();
  const [filter, setFilter] = useState("");
  useEffect(() => void run((signal) => get(`/api/card?model=${encodeURIComponent(model.name)}`, signal)), []);
  const card = last?.summary;
  const rows = last?.parameters.filter((each) => each.name.includes(filter)) ?? [];
  const [parts, sizes] = [card?.parts, card?.bytes_by_precision].map((each) => Object.entries(each ?? {}).map(([name, p]) => ({ name, p })));
  return html`<${Trouble} error=${error} />${last && html`<div class="stack">
    <div class="facts">${[["n_parameters", large(card.n_parameters)], ["flops", large(card.flops_per_token)], ["layout", card.layout], ["family", card.family], ["tokens", whole(last.tokenizer?.size)]].map(([name, value]) => html`<div class="panel fact"><span class="soft small">${t(`card.${name}`)}</span><b>${value ?? "–"}</b></div>`)}</div>
    <div class="halves">
      <${Panel} title=${t("card.parts")} name="model" ways=${{ svg: () => barsSvg({ rows: parts, title: t("card.parts"), say: large }), json: () => last, rows: () => [["name", "shape", "count"], ...last.parameters.map((each) => [each.name, each.shape.join("x"), each.count])] }}><${Bars} rows=${parts} say=${large} /></${Panel}>
      <${Panel} title=${t("card.memory")} name="memory" ways=${barsWays(sizes, t("card.memory"), { say: bytes })}><${Bars} rows=${sizes} say=${bytes} />${card.training_bytes && html`<p class="soft small">${t("card.training", { size: bytes(typeof card.training_bytes === "number" ? card.training_bytes : Math.max(...Object.values(card.training_bytes))) })}</p>`}</${Panel}>
      <${Panel} title=${t("card.sizes")}><table><tbody>${Object.entries(last.identity.sizes ?? {}).map(([name, value]) => html`<tr><th scope="row"><code>${name}</code></th><td class="num">${whole(value)}</td></tr>`)}</tbody></table></${Panel}>
      <${Panel} title=${t("card.choices")}><table><tbody>${Object.entries(card.choices ?? {}).map(([name, value]) => html`<tr><th scope="row">${html`<code>${name}</code>`}</th><td>${String(value)}</td></tr>`)}
        ${last.tokenizer && html`<tr><th scope="row">${t("card.tokenizer")}</th><td>${last.tokenizer.algorithm}, ${Object.values(last.tokenizer.special ?? {}).join(" ")}</td></tr>`}</tbody></table></${Panel}>
    </div>
    ${last.text && html`<${Panel} title=${t("card.text")}><div class="card-text scroll" tabindex="0" role="group" aria-label=${t("card.text")}>${last.text}</div></${Panel}>`}
    <${Panel} title=${t("card.parameters", { n: whole(last.parameters.length) })} tools=${html`<label class="field">${t("filter")}<input type="text" value=${filter} onInput=${(event) => setFilter(event.target.value)} /></label>`}>
      <div class="scroll tall" tabindex="0" role="group" aria-label=${t("card.parameters", { n: rows.length })}><table class="wide"><thead><tr><th>${t("name")}</th><th>${t("shape")}</th><th class="num">${t("count")}</th></tr></thead><tbody>${rows.map((each) => html`<tr><td><code>${each.name}</code></td><td class="num">${each.shape.join(" × ")}</td><td class="num">${whole(each.count)}</td></tr>`)}</tbody></table></div></${Panel}>
  </div>`}`;
}

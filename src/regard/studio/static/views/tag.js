// Names and other labels, word by word.
import { html, useEffect, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { percent } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { Asker, Check, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { wordsSvg } from "studio/parts/drawn.js";

const EXAMPLES = ["Ada Lovelace met Charles Babbage in London in 1833.", "Angela Merkel was born in Hamburg.", "The Red Cross opened an office in Nairobi."];

const kindOf = (tag) => tag.replace(/^[A-Z]-/, "");

export default function Tag({ model, params }) {
  const [text, setText] = useState(params.text ?? EXAMPLES[0]);
  const { last, error, busy, run } = useWork();
  const strict = params.strict === "1";
  const ask = (words = text, patch = {}) => {
    keep({ text: words, ...patch });
    run((signal) => post("/api/tag", { model: model.name, text: words, strict: (patch.strict ?? params.strict) === "1" }, signal));
  };
  useEffect(() => ask(), []);
  const kinds = last ? [...new Set(last.labels.map(kindOf))].filter((kind) => kind !== "O").sort() : [];
  const colour = (tag) => `k${kinds.indexOf(kindOf(tag)) % 6}`;
  const tagged = () => wordsSvg({ items: last.words.map((each) => ({ text: each.text, small: each.tag, shade: each.tag === "O" ? 0 : each.p })), title: t("tags") });
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${(words) => ask(words)} busy=${busy} examples=${EXAMPLES} rows=${2} label=${t("text")} action=${t("tag")}
      more=${html`<${Check} label=${t("strict")} value=${strict} onChange=${(on) => ask(text, { strict: on ? "1" : "" })} />`} />
    <${Trouble} error=${error} />
    ${last && html`<div class="sides"><div class="stack">
      <${Panel} title=${t("entities")} name="entities" ways=${{ svg: tagged, json: () => last, rows: () => [["text", "label", "start", "end", "p"], ...last.entities.map((each) => [each.text, each.label, each.start, each.end, each.p])] }}>
        <p class="passage" dir="auto">${marked(last, colour)}</p>
        ${last.entities.length === 0 && html`<p class="soft small">${t("entities.none")}</p>`}
      </${Panel}>
      <${Panel} title=${t("tags")} note=${last.repaired.length ? t("repaired", { n: last.repaired.length }) : ""} name="tags" ways=${{ svg: tagged, json: () => last.words, rows: () => [["word", "tag", "p", "start", "end"], ...last.words.map((each) => [each.text, each.tag, each.p, each.start, each.end])] }}><div class="words tagged" role="list" aria-label=${t("tags")}>${last.words.map((word, i) => html`<span role="listitem" class="word-tag ${word.tag === "O" ? "" : colour(word.tag)} ${last.repaired.includes(i) ? "repaired" : ""}"><b dir="auto">${word.text}</b><small>${word.tag}</small><small class="num">${percent(word.p)}</small></span>`)}</div></${Panel}>
      </div>
      <${Panel} title=${t("entities.list")}><table><thead><tr><th>${t("entity")}</th><th>${t("label")}</th><th class="num">p</th></tr></thead><tbody>${last.entities.map((each) => html`<tr><td dir="auto">${each.text}</td><td><span class="label ${colour(each.label)}">${each.label}</span></td><td class="num">${percent(each.p)}</td></tr>`)}</tbody></table></${Panel}>
    </div>`}`;
}

function marked({ text, entities }, colour) {
  const letters = [...text];
  const parts = [];
  let from = 0;
  for (const each of entities) {
    parts.push(letters.slice(from, each.start).join(""), html`<mark class=${colour(each.label)}>${letters.slice(each.start, each.end).join("")}<small>${each.label}</small></mark>`);
    from = each.end;
  }
  return [...parts, letters.slice(from).join("")];
}

// B beside A: the same head on another text, or of another model.
import { html, useEffect, useMemo, useState } from "studio/core/html.js";
import { matrix, post } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { argmax, fixed, shown } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { Choice, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { Heat } from "studio/parts/heat.js";
import { Lines } from "studio/parts/lines.js";
import { arranged, describe, ways } from "studio/views/attention.js";

/** `first` is what A shows; where both have the same tokens, one pointer is for both. */
export function Beside({ model, models, params, asked, kind, layer, head, rollout, lines, first, at, onHover, onStep }) {
  const others = models.filter((each) => each.kinds.includes(kind));
  const other = others.find((each) => each.name === params.bm) ?? model;
  const words = params.b ?? asked;
  const [text, setText] = useState(words);
  const [own, setOwn] = useState(null);
  const { last, error, run } = useWork();
  useEffect(() => {
    if (words.trim()) run(async (signal) => {
      const request = { model: other.name, text: words, kind };
      const { tokens, kinds, request: { ids } } = await post("/api/attention", request, signal);
      const shape = kinds[kind];
      const which = { layer: least(layer, shape.n_layers), head: least(head, shape.n_heads), how: rollout ? "rollout" : "weights" };
      return { sides: [tokens[shape.queries], tokens[shape.keys]], which, weights: await matrix("/api/attention/head", { ...request, ...(ids ? { ids } : {}), ...which }, signal) };
    });
  }, [words, other.name, kind, layer, head, rollout]);
  const now = useMemo(() => last && arranged(...last.sides, last.weights, { specials: params.hide !== "1", words: params.words === "1" }), [last, params.hide, params.words]);
  const linked = now && first && [now.queries, now.keys].join("\n") === [first.queries, first.keys].join("\n");
  const apart = useMemo(() => linked && Array.from(now.matrix.values, (x, i) => Math.abs(x - first.matrix.values[i])), [linked, now, first]);
  const most = apart && argmax(apart);
  const title = !last || rollout ? `B: ${other.name}` : `B: ${other.name}, ${t("layer")} ${last.which.layer ?? t("mean")} · ${t("head")} ${last.which.head ?? t("mean")}`;
  const [lit, point] = linked ? [at, onHover] : [own, setOwn];
  const figure = { matrix: now?.matrix, at: lit, onHover: point, onStep: linked ? onStep : setOwn, label: title };
  return html`<${Panel} title=${title} name="attention-b" ways=${now && ways(now, title, lines, lit, params)} tools=${html`<${Choice} label="B" value=${other.name} options=${others.map((each) => [each.name, each.name])} onChange=${(value) => keep({ bm: value })} />`}>
    <form class="row toggles" onSubmit=${(event) => { event.preventDefault(); keep({ b: text }); }}><label class="field grow">${t("compare.text")}<input type="text" class="long" dir="auto" value=${text} onInput=${(event) => setText(event.target.value)} /></label><button class="button">${t("look")}</button></form>
    <${Trouble} error=${error} />
    ${now && (lines ? html`<${Lines} ...${figure} queries=${now.queries} keys=${now.keys} describe=${describe(now, lit)} />` : html`<${Heat} ...${figure} rows=${now.queries} columns=${now.keys} log=${params.log === "1"} describe=${describe(now, lit)} />`)}
    ${apart && html`<p class="soft small differ">${t("compare.differ", { value: fixed(apart[most], 4), row: shown(now.queries[Math.floor(most / now.keys.length)]), column: shown(now.keys[most % now.keys.length]) })}</p>`}
  </${Panel}>`;
}

const least = (asked, count) => (asked === null ? null : Math.min(asked, count - 1));

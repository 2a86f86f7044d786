// The answer is a stretch of the text: where it may begin, where it may end.
import { html, useEffect, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { fixed, percent, shown } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { Asker, Check, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsWays, wordsSvg } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Words } from "studio/parts/words.js";

const CONTEXT = "The Transformer was proposed in 2017 by eight researchers at Google. It replaced recurrence by attention, so that all words of a sentence are read at once.";
const QUESTIONS = ["When was the Transformer proposed?", "What did it replace?", "Who proposed the Transformer?"];

export default function Answer({ model, params }) {
  const [question, setQuestion] = useState(params.question ?? QUESTIONS[0]);
  const [context, setContext] = useState(params.context ?? CONTEXT);
  const [at, setAt] = useState(0);
  const { last, error, busy, run } = useWork();
  const none = params.none === "1";
  const ask = (words = question, patch = {}) => {
    keep({ question: words, context, ...patch });
    setAt(0);
    run((signal) => post("/api/answer", { model: model.name, question: words, context, top: 5, no_answer: (patch.none ?? params.none) === "1" }, signal));
  };
  useEffect(() => ask(), []);
  const best = last?.answers[at];
  const places = last?.places;
  const listed = last?.answers.map((each, i) => ({ name: each.text || t("answer.none"), p: each.p, lit: i === at, action: () => setAt(i) }));
  const spots = (side) => places.tokens.map((token, i) => ({ text: token.text, special: token.special, shade: Math.sqrt(places[side][i]), title: `${shown(token.text)} ${fixed(places[side][i], 4)}`, small: places[side][i] >= 0.05 ? percent(places[side][i]) : "\u00a0" }));
  return html`
    <${Asker} value=${question} onInput=${setQuestion} onRun=${(words) => ask(words)} busy=${busy} examples=${QUESTIONS} rows=${1} label=${t("question")} action=${t("answer")}
      more=${html`<${Check} label=${t("no.answer")} value=${none} onChange=${(on) => ask(question, { none: on ? "1" : "" })} />`}>
      <textarea rows="3" dir="auto" spellcheck="false" aria-label=${t("context")} placeholder=${t("context")} value=${context} onInput=${(event) => setContext(event.target.value)}></textarea>
    </${Asker}>
    <${Trouble} error=${error} />
    ${last && html`<div class="sides"><div class="stack">
      <${Panel} title=${best?.text ? t("answer.is") : t("answer.none")} name="answer" ways=${{ json: () => last, rows: () => [["answer", "start", "end", "p"], ...last.answers.map((each) => [each.text, each.start, each.end, each.p])] }}>
        <p class="passage" dir="auto">${best?.text ? html`${cutAt(context, 0, best.start)}<mark>${cutAt(context, best.start, best.end)}</mark>${cutAt(context, best.end)}` : context}</p></${Panel}>
      ${places && html`<${Panel} title=${t("places")} note=${t("places.note")} name="places" ways=${{ svg: () => wordsSvg({ items: ["start", "end"].flatMap(spots), title: t("places") }), json: () => places, rows: () => [["token", "p start", "p end"], ...places.tokens.map((token, i) => [token.text, places.start[i], places.end[i]])] }}>
        ${["start", "end"].map((side) => html`<h3 class="small soft">${t(`places.${side}`)}</h3><${Words} className="pieces flow" label=${t(`places.${side}`)} items=${spots(side)} />`)}
      </${Panel}>`}</div>
      <${Panel} title=${t("answers")} name="answers" ways=${barsWays(listed, t("answers"), { full: 1 })}><${Bars} full=${1} rows=${listed} /></${Panel}>
    </div>`}`;
}

/** Offsets are in characters, not in JavaScript's halves of them. */
const cutAt = (text, from, to) => [...text].slice(from, to).join("");

// How a text falls into tokens, and by which steps: merges, longest pieces, or the likeliest cut.
import { html, useEffect, useState } from "studio/core/html.js";
import { post } from "studio/core/api.js";
import { said, t } from "studio/core/strings.js";
import { keep, number } from "studio/core/route.js";
import { fixed, shown, whole } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { Asker, Segments, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { wordsSvg } from "studio/parts/drawn.js";
import { Words } from "studio/parts/words.js";

const EXAMPLES = { pt: ["Incrivelmente, os desenvolvedores reorganizaram tudo.", "Olá, São Tomé!"], en: ["Unbelievably, tokenization splits rare words.", "The cost was $1,234.50 in 2026 🙂", "antidisestablishmentarianism"] };

export default function Tokens({ model, params }) {
  const examples = EXAMPLES[model.source ?? "en"] ?? EXAMPLES.en;
  const [text, setText] = useState(params.text ?? examples[0]);
  const [at, setAt] = useState(null);
  const { last, error, busy, run } = useWork();
  const side = params.side ?? "source";
  const ask = (words = text, patch = {}) => {
    keep({ text: words, word: null, step: null, ...patch });
    run((signal) => post("/api/tokenize", { model: model.name, text: words, side: patch.side ?? side }, signal));
  };
  useEffect(() => ask(text, { word: params.word, step: params.step }), []);
  useEffect(() => {
    const timer = setTimeout(() => last && text !== params.text && ask(text), 250);
    return () => clearTimeout(timer);
  }, [text]);
  const number_ = number(params.word) ?? 0;
  const word = last?.words?.[Math.min(number_, last.words.length - 1)];
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${(words) => ask(words)} busy=${busy} examples=${examples} rows=${2} label=${t("text")} action=${t("split")} />
    <${Trouble} error=${error} />
    ${last && html`<div class="stack">
      <${Panel} title=${t("tokens.count", { n: whole(last.tokens.length), chars: whole(last.n_chars), bytes: whole(last.n_bytes) })} note=${last.algorithm} name="tokens"
        tools=${model.target && html`<${Segments} label=${t("tokens.side")} value=${side} options=${[["source", said(`language.${model.source}`, t("source"))], ["target", said(`language.${model.target}`, t("translation"))]]} onChange=${(value) => ask(text, { side: value })} />`}
        ways=${{ svg: () => wordsSvg({ items: last.tokens.map((each) => ({ text: each.token, small: String(each.id), shade: 0.3 })), title: last.algorithm }), json: () => last, rows: () => [["i", "id", "token", "text", "start", "end"], ...last.tokens.map((each) => [each.i, each.id, each.token, each.text, ...(each.span ?? ["", ""])])] }}>
        <${Words} className="pieces coloured" label=${t("view.tokens")} at=${at} items=${last.tokens.map((token, i) => ({ text: token.token, special: token.special, small: String(token.id), lit: at === i, className: `c${i % 5}`, title: token.text }))} onHover=${setAt} onPick=${setAt} />
        <p class="reading num" aria-live="polite">${at !== null && last.tokens[at] ? `#${at} · id ${last.tokens[at].id} · “${shown(last.tokens[at].text)}”${last.tokens[at].span ? ` · ${last.tokens[at].span.join("–")}` : ""}` : ""}</p>
      </${Panel}>
      ${last.note && html`<p class="soft">${last.note}</p>`}
      ${word && html`<${Panel} title=${t("tokens.word")} name="split" ways=${{ svg: () => wordsSvg({ items: word.tokens.map((each) => ({ text: each })), title: word.text }), json: () => word, rows: () => [["step", "symbols", "joined", "rank"], ...word.steps.map((each, i) => [i + 1, each.symbols.join(" "), each.parts.join(" + "), each.rank])] }}>
        <${Words} className="pieces" label=${t("tokens.word")} at=${number_} items=${last.words.map((each, i) => ({ text: each.text, lit: i === Math.min(number_, last.words.length - 1) }))} onPick=${(i) => keep({ word: i, step: null })} />
        <${Replay} key=${`${word.text} ${number_}`} word=${word} algorithm=${last.algorithm} step=${number(params.step)} />
      </${Panel}>`}
    </div>`}`;
}

function Replay({ word, algorithm, step }) {
  const count = word.steps.length;
  const now = Math.max(0, Math.min(count, step ?? count));
  const go = (to) => keep({ step: Math.max(0, Math.min(count, to)) });
  useKeys({ ArrowLeft: () => go(now - 1), ArrowRight: () => go(now + 1), " ": () => go(now === count ? 0 : now + 1) });
  if (word.splits.length) return html`<table class="splits"><tbody>${word.splits.map((split, i) => html`<tr class=${i === 0 ? "lit" : ""}><td>${split.pieces.map((piece, j) => html`<span class="piece">${piece}<small class="num">${fixed(split.scores[j], 2)}</small></span>`)}</td><td class="num">${fixed(split.total, 2)}</td><td class="soft">${i === 0 ? t("split.best") : t("split.second")}</td></tr>`)}</tbody></table>`;
  if (!count) return html`<p class="row pieces-now">${word.tokens.map((token) => html`<span class="piece">${token}</span>`)}<span class="soft small">${t("tokens.whole")}</span></p>`;
  const symbols = now === 0 ? word.symbols : word.steps[now - 1].symbols;
  const joined = now === 0 ? null : word.steps[now - 1];
  return html`<div class="replay"><div class="row"><button class="button" aria-label=${t("step.back")} disabled=${now === 0} onClick=${() => go(now - 1)}>←</button>
      <input type="range" min="0" max=${count} value=${now} aria-label=${t("tokens.step")} onInput=${(event) => go(+event.target.value)} />
      <button class="button" aria-label=${t("step.next")} disabled=${now === count} onClick=${() => go(now + 1)}>→</button><span class="num soft">${now} / ${count}</span></div>
    <p class="row pieces-now" aria-live="polite">${symbols.map((symbol) => html`<span class="piece ${joined && symbol === joined.parts.join("") ? "lit" : ""}">${symbol}</span>`)}</p>
    <p class="soft small">${joined ? t(algorithm === "BPE" ? "tokens.merge" : "tokens.longest", { parts: joined.parts.join(" + "), rank: whole(joined.rank) }) : t("tokens.letters")}</p></div>`;
}

// Which word came from where, and why the beam chose it: threads, matrix, tree, all lit together.
import { html, useEffect, useMemo, useRef, useState } from "studio/core/html.js";
import { matrix, post, unpacked } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { address, keep, number } from "studio/core/route.js";
import { fixed, percent } from "studio/core/format.js";
import { calm, useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { numpy, rowsOf, standalone } from "studio/core/export.js";
import { Asker, Check, Count, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsWays } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Heat, heatSvg } from "studio/parts/heat.js";
import { linesSvg } from "studio/parts/lines.js";
import { Links } from "studio/parts/links.js";
import { FINISHED, Tree, pathTo, plain, visible } from "studio/parts/tree.js";
import { grouped, merged } from "studio/parts/words.js";

const EXAMPLES = {
  de: ["Ein Mann fährt auf einem roten Fahrrad.", "Zwei Kinder spielen am Strand mit einem Hund."],
  pt: ["O livro está em cima da mesa.", "O cão que mordeu o carteiro fugiu.", "Ela não sabia que o banco estava fechado."],
};

const numbers = (text) => (text ? text.split(",").map(Number) : []);

export default function Translate({ model, params, limits }) {
  const examples = EXAMPLES[model.source] ?? [];
  const [text, setText] = useState(params.text ?? examples[0] ?? "");
  const [which, setWhich] = useState(0);
  const [at, setAt] = useState(null); // what the pointer is on
  const [pinned, setPinned] = useState(null);
  const [node, setNode] = useState(null);
  const { last, error, busy, run, stop } = useWork();
  const beam = number(params.beam) ?? 4;
  const penalty = number(params.penalty) ?? 1;
  const prefix = params.prefix ?? "";

  const ask = (words = text, patch = {}) => {
    const now = { text: words, beam, penalty, prefix: "", rank: null, q: null, ...patch };
    keep(now);
    if (!words.trim()) return;
    setPinned(number(now.q ?? "") === null ? null : { row: number(now.q), column: null });
    run(async (signal) => {
      const body = { model: model.name, text: words, beam: now.beam, n_best: now.beam, length_penalty: now.penalty, prefix: numbers(now.prefix) };
      const found = await post("/api/translate", body, signal);
      setWhich(Math.min(number(now.rank) ?? 0, found.sentences[0]?.hypotheses.length - 1 || 0));
      return { found, stamp: Date.now() };
    });
  };
  useEffect(() => { if (text) ask(text, { prefix, rank: params.rank, q: params.q }); }, []);
  useEffect(() => { if (last) keep({ q: pinned?.row ?? null }); }, [pinned]);

  const sentence = last?.found.sentences[0];
  const hypothesis = sentence?.hypotheses[which];
  const cross = useCross(model, sentence, which, last?.stamp);
  const words = useMemo(() => hypothesis && cross && aligned(sentence, hypothesis, cross), [hypothesis, cross]);
  const tour = useTour(words, last?.stamp);
  const lit = node && words ? litBy(node, sentence, hypothesis, words) : (at ?? pinned ?? tour.at);
  const hover = (place) => { tour.stop(); setAt(place); };
  const pick = (place) => setPinned((before) => (before && before.row === place.row && before.column === place.column ? null : place));
  const rank = (step) => choose(Math.max(0, Math.min(sentence?.hypotheses.length - 1 || 0, which + step)));
  const choose = (i) => { setWhich(i); setPinned(null); keep({ rank: i || null }); };
  const force = (ids) => ask(text, { prefix: ids.join(",") });
  const walk = (step) => words && setPinned({ row: Math.max(0, Math.min(words.below.length - 1, (lit?.row ?? (step > 0 ? -1 : words.below.length)) + step)), column: null });
  useKeys({ "[": () => rank(-1), "]": () => rank(1), ArrowLeft: () => walk(-1), ArrowRight: () => walk(1), Escape: () => { setPinned(null); tour.stop(); } });

  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${(words) => ask(words)} onStop=${stop} busy=${busy} examples=${examples} rows=${1} label=${t("translate.label", { language: t(`language.${model.source}`) })} action=${t("translate")}
      more=${html`<${Count} label=${t("beam")} value=${beam} min=${1} max=${limits.beam} onChange=${(value) => ask(text, { beam: value ?? 4 })} /><${Count} label=${t("penalty")} value=${penalty} min=${0} max=${3} step=${0.1} onChange=${(value) => ask(text, { penalty: value ?? 1 })} />`} />
    <${Trouble} error=${error} />
    ${words && html`<div class="stack" aria-busy=${busy}>
      <${Panel} className="hero" label=${t("links.title")} title=${prefix ? html`<${Forced} sentence=${sentence} onUndo=${() => ask(text)} />` : ""} name="alignment"
        ways=${{ svg: () => linesSvg({ matrix: words.matrix, queries: words.below.map((w) => w.text), keys: words.above.map((w) => w.text), at: lit, title: hypothesis.text }), json: () => last.found, rows: () => [["", ...words.above.map((w) => w.text)], ...rowsOf(words.matrix).map((row, i) => [words.below[i].text, ...row])] }}>
        <${Links} ...${words} at=${lit} onHover=${hover} onPick=${pick} labels=${[t("source"), t("translation")]} langs=${[model.source, model.target]} />
      </${Panel}>
      ${sentence.tree && html`<${Beam} sentence=${sentence} hypothesis=${hypothesis} words=${words} lit=${lit} node=${node} setNode=${(each) => { tour.stop(); setNode(each); }} onForce=${force} beam=${beam} />`}
      <div class="translate-grid">
        <${Panel} title=${t("alignment")} name="alignment-matrix" tools=${html`<a class="small" href=${address("attention", { model: model.name, text, ids: hypothesis.ids.join(","), present: params.present })}>${t("alignment.heads")}</a>`}
          ways=${matrixWays(words, hypothesis)}>
          <${Heat} matrix=${words.matrix} rows=${words.below.map((w) => w.text)} columns=${words.above.map((w) => w.text)} at=${lit} onHover=${hover} onStep=${setPinned} onPick=${pick} largest=${40} label=${t("alignment")} describe=${described(words)} />
        </${Panel}>
        <${Alternatives} sentence=${sentence} hypothesis=${hypothesis} words=${words} row=${lit?.row ?? 0} onForce=${force} />
        <${Best} sentence=${sentence} which=${which} onPick=${choose} />
      </div>
      ${last.found.note && html`<p class="soft">${last.found.note}</p>`}
    </div>`}`;
}

/** Words of both sides and the weights between them; ends and paddings are left out of the threads, not of the sums. */
function aligned(sentence, hypothesis, cross) {
  const above = grouped(sentence.source.tokens).filter((word) => !word.special);
  const below = grouped(hypothesis.tokens).filter((word) => !word.special).map((word) => {
    const p = word.tokens.reduce((product, i) => product * hypothesis.tokens[i].p, 1);
    return { ...word, small: percent(p), className: word.tokens.some((i) => hypothesis.tokens[i].forced) ? "forced" : "" };
  });
  return { above, below, matrix: merged(cross, below, above), tokens: cross };
}

/** Of the best the weights came with it; those of others are asked for. */
function useCross(model, sentence, which, stamp) {
  const own = useMemo(() => sentence?.cross && unpacked(sentence.cross.weights), [stamp]);
  const { last, run } = useWork();
  useEffect(() => {
    if (which > 0 && sentence) run(async (signal) => ({ stamp, which, weights: await matrix("/api/attention/head", { model: model.name, text: sentence.source.text, ids: sentence.hypotheses[which].ids, kind: "cross", layer: null, head: null }, signal) }));
  }, [which, stamp]);
  return which === 0 ? own : last?.stamp === stamp && last.which === which ? last.weights : null;
}

/** Once, after a translation, the words light up one after the other: it shows what can be done here. */
function useTour(words, stamp) {
  const [at, setAt] = useState(null);
  const timer = useRef();
  const done = useRef(0);
  const stop = () => { clearInterval(timer.current); if (at) setAt(null); };
  useEffect(() => {
    clearInterval(timer.current);
    setAt(null);
    if (!words || done.current === stamp) return;
    done.current = stamp;
    if (calm()) return setAt({ row: 0, column: null });
    let row = -1;
    timer.current = setInterval(() => {
      row++;
      if (row >= words.below.length) clearInterval(timer.current), setAt(null);
      else setAt({ row, column: null });
    }, 650);
    return () => clearInterval(timer.current);
  }, [words, stamp]);
  return { at, stop };
}

/** A node of the tree lights the word that stands at its step, if its path is what was written. */
function litBy(node, sentence, hypothesis, words) {
  const path = pathTo(sentence.tree.nodes, node.id);
  const same = path.every((each, i) => each.token === hypothesis.ids[i]);
  const row = words.below.findIndex((word) => word.tokens.includes(node.step - 1));
  return same && row >= 0 ? { row, column: null } : null;
}

function matrixWays(words, hypothesis) {
  const [rows, columns] = [words.below, words.above].map((each) => each.map((word) => word.text));
  return {
    svg: () => heatSvg({ matrix: words.matrix, rows, columns, full: 1, title: hypothesis.text }),
    json: () => ({ target: rows, source: columns, weights: rowsOf(words.matrix) }),
    rows: () => [["", ...columns], ...rowsOf(words.matrix).map((row, i) => [rows[i], ...row])],
    numpy: () => `import numpy as np\n\ntarget = ${JSON.stringify(rows)}\nsource = ${JSON.stringify(columns)}\nweights = ${numpy(rowsOf(words.matrix))}\n`,
  };
}

function described({ matrix: { values, shape: [, m] }, above, below }) {
  return below.map((word, i) => {
    const row = values.subarray(i * m, (i + 1) * m);
    const best = row.indexOf(Math.max(...row));
    return `${word.text} ← ${above[best]?.text} ${fixed(row[best], 2)}`;
  }).join("; ");
}

function Forced({ sentence, onUndo }) {
  const words = grouped(sentence.hypotheses[0].tokens.filter((token) => token.forced)).map((word) => word.text).join(" ");
  return html`<span class="row">${t("forced", { words })}<button class="button small" onClick=${onUndo}>${t("forced.undo")}</button></span>`;
}

function Beam({ sentence, hypothesis, words, lit, node, setNode, onForce, beam }) {
  const [whole, setWhole] = useState(false);
  const frame = useRef();
  const nodes = sentence.tree.nodes;
  const best = sentence.hypotheses.length;
  const hidden = nodes.length - visible(nodes, false, best).length;
  const step = lit?.row !== null && lit?.row !== undefined ? words.below[lit.row]?.tokens.at(-1) + 1 : null;
  const path = useMemo(() => pathOf(nodes, hypothesis.ids), [nodes, hypothesis]);
  const pointed = node?.id ?? (step ? path[step - 1]?.id : null);
  return html`<${Panel} title=${t("tree")} note=${t("tree.note", { beam })} name="beam-tree" tools=${html`<${Check} label=${t("tree.whole", { n: hidden })} value=${whole} onChange=${setWhole} />`}
    ways=${{ svg: () => standalone(frame.current), json: () => sentence.tree, rows: () => [["id", "parent", "step", "token", "p", "total", "score", "why"], ...nodes.map((each) => [each.id, each.parent ?? "", each.step, each.text ?? "", Math.exp(each.log_probability), each.total, each.score, each.why ?? ""])] }}>
    <p class="why-chosen">${why(sentence)}</p>
    <${Tree} nodes=${nodes} whole=${whole} best=${best} lit=${pointed} onHover=${setNode} onPick=${(each) => onForce(pathTo(nodes, each.id).map((one) => one.token))} label=${t("tree")} svgRef=${frame} />
    <p class="reading" aria-live="polite">${node ? html`<b>${pathTo(nodes, node.id).map((each) => plain(each.text)).join(" ")}</b> ${percent(Math.exp(node.log_probability))} · ${node.why || t("tree.went")} · ${t("tree.score", { score: fixed(node.score) })}` : html`<span class="soft"><i class="greedy-dot"></i>${t("tree.hint")}</span>`}</p>
  </${Panel}>`;
}

/** The nodes that a hypothesis went through. */
function pathOf(nodes, ids) {
  const path = [];
  let parent = 0;
  for (const id of ids) {
    const next = nodes.find((node) => node.parent === parent && node.token === id);
    if (!next) break;
    path.push(next);
    parent = next.id;
  }
  return path;
}

function Alternatives({ sentence, hypothesis, words, row, onForce }) {
  const nodes = sentence.tree?.nodes ?? [];
  const word = words.below[row] ?? words.below[0];
  const step = word?.tokens[0] ?? 0;
  const path = pathOf(nodes, hypothesis.ids);
  const parent = step === 0 ? 0 : path[step - 1]?.id;
  const rows = nodes.filter((node) => node.parent === parent).sort((a, b) => b.log_probability - a.log_probability);
  const before = hypothesis.ids.slice(0, step);
  const listed = rows.slice(0, 8).map((node) => ({ name: plain(node.text), p: Math.exp(node.log_probability), lit: node.token === hypothesis.ids[step], label: t("tree.force"), action: () => onForce([...before, node.token]) }));
  const title = t("alternatives", { word: word?.text ?? "" });
  return html`<${Panel} title=${title} className="alternatives" name="alternatives" ways=${barsWays(listed, title, { full: 1 })}>
    <${Bars} full=${1} rows=${listed} />
    ${rows.length === 0 && html`<p class="soft small">${t("alternatives.none")}</p>`}
  </${Panel}>`;
}

/** How likely a word of it is on the way, as a mean of its tokens: what the beam compares, in a number that says something. */
const mean = (hypothesis) => Math.exp(hypothesis.log_probability / Math.max(1, hypothesis.ids.length));

/** Why this one, in a sentence: it has the highest score of all that were finished. */
function why({ hypotheses: [first, second], tree }) {
  const best = { n: tree.nodes.filter((node) => FINISHED.includes(node.reason)).length, score: fixed(first.score), p: percent(mean(first)) };
  return second ? t("chosen.of", { ...best, text: second.text, other: fixed(second.score), q: percent(mean(second)) }) : t("chosen.alone", best);
}

function Best({ sentence, which, onPick }) {
  const table = () => [["text", "score", "log-probability", "p a token"], ...sentence.hypotheses.map((each) => [each.text, each.score, each.log_probability, mean(each)])];
  return html`<${Panel} title=${t("nbest")} note=${t("nbest.note")} className="nbest" name="translations" ways=${{ json: () => sentence.hypotheses, rows: table }}>
    <ol class="best">${sentence.hypotheses.map((each, i) => html`<li><button type="button" aria-pressed=${i === which} class="button plain" onClick=${() => onPick(i)}><span dir="auto">${each.text}</span><span class="num soft">${percent(mean(each))} <small>${fixed(each.score)}</small></span></button></li>`)}</ol>
    ${sentence.greedy && html`<p class="soft small"><i class="greedy-dot"></i>${sentence.greedy.text === sentence.hypotheses[0].text ? t("greedy.same") : t("greedy.other", { text: sentence.greedy.text })}</p>`}
  </${Panel}>`;
}

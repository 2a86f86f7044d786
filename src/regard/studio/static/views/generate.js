// Writing token by token: what else could have come, before and after filtering; a click takes another way.
import { html, useEffect, useRef, useState } from "studio/core/html.js";
import { stream } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep, number } from "studio/core/route.js";
import { percent, shown } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { Asker, Check, Count, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsWays, wordsSvg } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Words } from "studio/parts/words.js";

const QUESTIONS = ["What is the capital of France?", "Tell me a story about a small village by the sea.", "What are three things one should know about attention?"];
const EXAMPLES = ["The capital of France is", "Once upon a time, in a small village by the sea,", "The three most important things about attention are"];

export default function Generate({ model, params, limits }) {
  const chats = model.chat && params.raw !== "1"; // who is spoken to answers; who is not goes on
  const examples = chats ? QUESTIONS : EXAMPLES;
  const [text, setText] = useState(params.text ?? examples[0]);
  const [tokens, setTokens] = useState([]);
  const [done, setDone] = useState(null);
  const [at, setAt] = useState(null);
  const [pinned, setPinned] = useState(null);
  const [branches, setBranches] = useState([]);
  const written = useRef([]);
  const { error, busy, run, stop } = useWork();
  const settings = { max: number(params.max) ?? 40, temperature: number(params.temperature), top_k: number(params.top_k), top_p: number(params.top_p), seed: number(params.seed) ?? 0, raw: params.raw === "1" };

  const ask = (words = text, patch = {}, forced = []) => {
    const now = { ...settings, ...patch };
    keep({ text: words, ...now, raw: now.raw ? "1" : null, forced: forced.join(",") });
    if (!words.trim()) return;
    written.current = [];
    setTokens([]);
    setDone(null);
    setPinned(null);
    const body = { model: model.name, prompt: words, max_new: now.max, seed: now.seed, raw: now.raw, forced, top: 12, stream: true };
    for (const name of ["temperature", "top_k", "top_p"]) if (now[name] !== null) body[name] = now[name];
    let waits = false;
    const show = () => { waits = false; setTokens(written.current.slice()); };
    run(async (signal) => {
      await stream("/api/generate", body, (event, data) => {
        if (event === "token") {
          written.current.push(data);
          if (!waits) waits = true, requestAnimationFrame(show);
        }
        if (event === "done") setDone(data);
      }, signal);
      show();
    });
  };
  useEffect(() => { if (params.text) ask(text, {}, params.forced ? params.forced.split(",").map(Number) : []); else ask(); }, []);

  const branch = (i, id) => {
    setBranches((before) => [{ text: tokens.map((token) => token.piece).join(""), ids: tokens.map((token) => token.id) }, ...before].slice(0, 6));
    ask(text, {}, [...tokens.slice(0, i).map((token) => token.id), id]);
  };
  const now = at ?? pinned ?? (tokens.length ? tokens.length - 1 : null);
  const token = now === null ? null : tokens[now];
  const walk = (by) => tokens.length && setPinned(Math.max(0, Math.min(tokens.length - 1, (now ?? -1) + by)));
  useKeys({ ArrowLeft: () => walk(-1), ArrowRight: () => walk(1), Escape: () => setPinned(null) });
  const filtered = settings.temperature !== null || settings.top_k !== null || settings.top_p !== null;
  const pieces = tokens.map((each, i) => ({ text: each.text, lit: i === now, shade: 0.9 * (1 - each.p_base), title: percent(each.p_base) }));
  const others = token && choices(token).map((each) => ({ name: each.text, p: filtered ? each.p_final : each.p_base, was: filtered ? each.p_base : undefined, lit: each.id === token.id, faded: !each.kept, label: t("branch.here"), action: () => branch(now, each.id) }));
  return html`
    <${Asker} value=${text} onInput=${setText} onRun=${(words) => ask(words)} onStop=${stop} busy=${busy} examples=${examples} rows=${2} label=${t(chats ? "prompt.chat" : "prompt")} action=${t("write")}
      more=${html`<${Count} label=${t("max")} value=${settings.max} min=${1} max=${limits.max_new} onChange=${(max) => ask(text, { max: max ?? 40 })} />
        <${Count} label=${t("temperature")} value=${settings.temperature} min=${0.05} max=${5} step=${0.05} placeholder="–" onChange=${(temperature) => ask(text, { temperature })} />
        <${Count} label="top-k" value=${settings.top_k} min=${1} max=${1000} placeholder="–" onChange=${(top_k) => ask(text, { top_k })} />
        <${Count} label="top-p" value=${settings.top_p} min=${0.01} max=${1} step=${0.01} placeholder="–" onChange=${(top_p) => ask(text, { top_p })} />
        <${Count} label=${t("seed")} value=${settings.seed} min=${0} max=${999999} onChange=${(seed) => ask(text, { seed: seed ?? 0 })} />
        ${model.chat && html`<${Check} label=${t("raw")} value=${settings.raw} onChange=${(raw) => ask(text, { raw })} />`}`} />
    <${Trouble} error=${error} />
    ${(tokens.length > 0 || busy) && html`<div class="sides">
      <div class="stack"><${Panel} title=${t("written")} note=${done ? t(`reason.${done.reason}`, { n: tokens.length }) : ""} name="generated" ways=${done && { svg: () => wordsSvg({ items: pieces, title: text }), json: () => ({ prompt: text, ...done, tokens }), rows: () => [["i", "id", "text", "p before", "p after"], ...tokens.map((each) => [each.i, each.id, each.text, each.p_base, each.p_final])] }}>
        <p class="prompt soft" dir="auto">${text}</p>
        <${Words} className="pieces flow" label=${t("written")} at=${now} items=${pieces} onHover=${setAt} onPick=${setPinned} />
        <p class="away" aria-live="polite">${done ? done.text : ""}</p>
        <p class="soft small">${t("generate.shade")}</p>
      </${Panel}>
      ${branches.length > 0 && html`<${Panel} title=${t("branches")}><ul class="plain-list">${branches.map((each) => html`<li><button class="button plain" onClick=${() => ask(text, {}, each.ids)}>${each.text}</button></li>`)}</ul></${Panel}>`}</div>
      ${token && html`<${Panel} title=${t("instead", { word: shown(token.text), n: now + 1 })} note=${filtered ? t("before.after") : ""} name="choices" ways=${barsWays(others, t("instead", { word: shown(token.text), n: now + 1 }), { full: 1 })}>
        <${Bars} full=${1} rows=${others} />
        <p class="soft small">${t("rest", { p: percent(token.rest) })} ${filtered ? t("cut") : ""}</p>
      </${Panel}>`}
    </div>`}`;
}

/** The token itself may be less likely than all that are listed. */
function choices(token) {
  return token.top.some((each) => each.id === token.id) ? token.top : [...token.top, { id: token.id, text: token.text, p_base: token.p_base, p_final: token.p_final, kept: true }];
}

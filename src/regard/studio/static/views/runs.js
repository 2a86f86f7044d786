// Training runs while they run: only what is new is fetched, from a cursor on.
import { html, useEffect, useRef, useState } from "studio/core/html.js";
import { get } from "studio/core/api.js";
import { said, t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { fixed, whole } from "studio/core/format.js";
import { Check, Empty, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { Plot } from "studio/parts/plot.js";

const EVERY = 2000; // milliseconds
const SHOWN = ["loss", "lr", "tokens_per_second", "norm"];

export default function Runs({ params }) {
  const [runs, setRuns] = useState(null);
  const [error, setError] = useState(null);
  const picked = (params.runs ?? "").split(",").filter(Boolean);
  useEffect(() => {
    let timer;
    const ask = async () => {
      try {
        setRuns((await get("/api/runs")).runs);
        setError(null);
      } catch (problem) {
        setError(problem);
      }
      timer = setTimeout(ask, 5 * EVERY);
    };
    ask();
    return () => clearTimeout(timer);
  }, []);
  const chosen = runs && (picked.length ? runs.filter((run) => picked.includes(run.id)) : runs.slice(0, 1));
  const toggle = (id) => {
    const now = chosen.map((run) => run.id);
    keep({ runs: (now.includes(id) ? now.filter((each) => each !== id) : [...now, id].slice(-10)).join(",") });
  };
  return html`<${Trouble} error=${error} />
    ${runs && runs.length === 0 && html`<${Empty}><p>${t("runs.none")}</p><code>regard train recipe.toml</code></${Empty}>`}
    ${runs?.length > 0 && html`<div class="stack"><${Panel} title=${t("runs.list")}><div class="scroll tall" tabindex="0" role="group" aria-label=${t("runs.list")}><table class="wide"><thead><tr><td></td><th>${t("name")}</th><th>${t("runs.task")}</th><th>${t("runs.state")}</th><th class="num">${t("runs.step")}</th><th class="num">${t("runs.loss")}</th><th class="num">${t("runs.score")}</th><th class="num">${t("runs.left")}</th></tr></thead>
      <tbody>${runs.map((run) => html`<tr class=${chosen.includes(run) ? "lit" : ""}><td><input type="checkbox" aria-label=${run.name} checked=${chosen.includes(run)} onChange=${() => toggle(run.id)} /></td><td>${run.name}</td><td>${run.task}</td><td><span class="state ${run.state}">${t(`run.${run.state}`)}</span></td><td class="num">${whole(run.step)}${run.of ? ` / ${whole(run.of)}` : ""}</td><td class="num">${fixed(run.loss)}</td><td class="num">${Object.entries(run.score ?? {}).map(([name, value]) => `${name} ${fixed(value, 1)}`).join(" ") || "–"}</td><td class="num">${time(run.seconds_left)}</td></tr>`)}</tbody></table></div></${Panel}>
      ${chosen.length > 0 && html`<${Watched} key=${chosen.map((run) => run.id).join()} runs=${chosen} />`}</div>`}`;
}

function time(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [h, m] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)];
  return h ? `${h} h ${m} min` : m ? `${m} min` : `${Math.round(seconds)} s`;
}

/** Series of several runs, each with its own cursor. */
function useSeries(runs) {
  const [found, setFound] = useState({});
  const [error, setError] = useState(null);
  const kept = useRef({});
  useEffect(() => {
    let timer;
    let here = true;
    const ask = async () => {
      try {
        for (const { id } of runs) {
          const before = kept.current[id];
          const news = await get(`/api/runs/${encodeURIComponent(id)}/series?after=${before?.cursor ?? 0}&max=2000`);
          kept.current[id] = before && !news.reset ? joined(before, news) : news;
        }
        if (here) setFound({ ...kept.current }), setError(null);
      } catch (problem) {
        if (here) setError(problem);
      }
      const live = Object.values(kept.current).some((each) => each.status.state === "running" || each.status.state === "silent");
      if (here && (live || !Object.keys(kept.current).length)) timer = setTimeout(ask, EVERY);
    };
    ask();
    return () => { here = false; clearTimeout(timer); };
  }, []);
  return [found, error];
}

function joined(before, news) {
  const both = (a = {}, b = {}) => Object.fromEntries([...new Set([...Object.keys(a), ...Object.keys(b)])].map((key) => [key, [...padded(a, key), ...padded(b, key)]]));
  const padded = (part, key) => part[key] ?? (part.step ?? []).map(() => null);
  return { ...news, train: both(before.train, news.train), valid: both(before.valid, news.valid), samples: [...before.samples, ...news.samples], events: [...before.events, ...news.events] };
}

function Watched({ runs }) {
  const [found, error] = useSeries(runs);
  const [log, setLog] = useState(false);
  const all = runs.map((run) => [run, found[run.id]]).filter(([, each]) => each);
  if (!all.length) return html`<${Trouble} error=${error} />`;
  const keysOf = (part) => [...new Set(all.flatMap(([, each]) => Object.keys(each[part] ?? {})))].filter((key) => key !== "step");
  const valid = keysOf("valid").filter((key) => key !== "loss");
  const train = SHOWN.filter((key) => keysOf("train").includes(key) && key !== "loss");
  const samples = all.flatMap(([run, each]) => each.samples.map((sample) => ({ run, ...sample })));
  const rows = (part, key) => () => [["run", "step", key], ...all.flatMap(([run, each]) => (each[part].step ?? []).map((step, i) => [run.name, step, each[part][key]?.[i] ?? ""]))];
  const name = (key) => said(`series.${key}`, key);
  return html`<${Trouble} error=${error} /><div class="halves">
    <${Panel} title=${name("loss")} name="loss" tools=${html`<${Check} label=${t("log.scale")} value=${log} onChange=${setLog} />`} ways=${{ canvas: true, json: () => found, rows: rows("train", "loss") }}><${Plot} log=${log} lines=${all.flatMap(([run, each], ink) => losses(run, each, ink, all.length > 1))} /></${Panel}>
    ${valid.map((key) => html`<${Panel} title=${name(key)} name=${key} ways=${{ canvas: true, rows: rows("valid", key) }}><${Plot} lines=${all.map(([run, each]) => ({ name: run.name, xs: each.valid.step, ys: each.valid[key] ?? [], dots: true }))} /></${Panel}>`)}
    ${train.map((key) => html`<${Panel} title=${name(key)} name=${key} ways=${{ canvas: true, rows: rows("train", key) }}><${Plot} lines=${all.map(([run, each]) => ({ name: run.name, xs: each.train.step, ys: each.train[key] ?? [] }))} /></${Panel}>`)}
  </div>
  ${samples.length > 0 && html`<${Samples} samples=${samples} />`}
  <${Panel} title=${t("runs.events")}><div class="scroll tall" tabindex="0" role="log" aria-label=${t("runs.events")}><ul class="plain-list small">${all.flatMap(([run, each]) => each.events.slice(-60).reverse().map((event) => html`<li><span class="num soft">${new Date(event.time * 1000).toLocaleTimeString()}</span> ${runs.length > 1 ? html`<b>${run.name}</b> ` : ""}${event.text}</li>`))}</ul></div></${Panel}>`;
}

/** Of one run both curves; of several only those of the checks, which can be told apart. */
function losses(run, { train, valid }, ink, several) {
  const checks = valid?.loss ? [{ ink, name: `${run.name} ${t("runs.valid")}`, xs: valid.step, ys: valid.loss, dots: true }] : [];
  return several && checks.length ? checks : [{ ink, faint: true, name: `${run.name} ${t("runs.train")}`, xs: train.step, ys: train.loss }, ...checks.map((line) => ({ ...line, ink: ink + 1 }))];
}

/** The same sentences at every check: a slider goes through the run. */
function Samples({ samples }) {
  const [at, setAt] = useState(null);
  const now = Math.min(at ?? samples.length - 1, samples.length - 1);
  const sample = samples[now];
  return html`<${Panel} title=${t("runs.samples")} note="${sample.run.name} · ${t("runs.step")} ${whole(sample.step)}" name="samples" ways=${{ json: () => samples.map(({ run, ...rest }) => ({ run: run.name, ...rest })) }}>
    <input class="slider" type="range" min="0" max=${samples.length - 1} value=${now} aria-label=${t("runs.step")} onInput=${(event) => setAt(+event.target.value)} />
    <ul class="plain-list" aria-live="polite">${sample.texts.map((text) => html`<li dir="auto">${typeof text === "string" ? text : Object.values(text).join(" → ")}</li>`)}</ul></${Panel}>`;
}

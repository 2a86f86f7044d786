// What `regard race` measured: recurrence against attention, as curves and as tables.
import { html, useEffect, useRef, useState } from "studio/core/html.js";
import { get } from "studio/core/api.js";
import { t } from "studio/core/strings.js";
import { keep } from "studio/core/route.js";
import { whole } from "studio/core/format.js";
import { useWork } from "studio/core/hooks.js";
import { useKeys } from "studio/core/keys.js";
import { Choice, Empty, Trouble } from "studio/parts/controls.js";
import { Panel } from "studio/parts/panel.js";
import { Plot } from "studio/parts/plot.js";

const trouble = (message, hint) => Object.assign(new Error(message), { hint });

/** A file of the reader's own is never sent anywhere. */
async function opened(file) {
  const found = await file.text().then(JSON.parse).catch(() => null);
  if (found?.race !== 1 || typeof found.sheets !== "object") throw trouble(t("race.wrong", { name: file.name }), "regard race --json > race.json");
  return { name: file.name, ...found };
}

export default function Race({ params }) {
  const [races, setRaces] = useState(null);
  const chooser = useRef();
  const { last, error, run } = useWork();
  useEffect(() => void get("/api/races").then((found) => setRaces(found.races), () => setRaces([])), []);
  const id = races?.find((each) => each.id === params.race)?.id ?? races?.[0]?.id;
  useEffect(() => { if (id) run((signal) => get(`/api/races/${id}`, signal)); }, [id]);
  useKeys({ "/": () => chooser.current.focus() });
  return html`
    <div class="asker"><div class="row">
      ${races?.length > 0 && html`<${Choice} label=${t("race.of")} value=${id} options=${races.map((each) => [each.id, each.name])} onChange=${(value) => keep({ race: value })} />`}
      <label class="field">${t("race.open")}<input type="file" ref=${chooser} accept=".json,application/json" onChange=${(event) => event.target.files[0] && run(() => opened(event.target.files[0]))} /></label>
      ${last && html`<span class="soft small grow">${[last.name, last.date, last.computer?.cpu, t("race.seed", { seed: last.seed }), t("race.seconds", { n: whole(Math.round(last.seconds)) })].filter(Boolean).join(" · ")}</span>`}
    </div></div>
    <${Trouble} error=${error} />
    ${races?.length === 0 && !last && html`<${Empty}><p>${t("race.none")}</p><code>regard race --json > race.json; regard studio pt-en race.json</code></${Empty}>`}
    ${last && html`<div class="halves">${Object.entries(last.sheets).map(([name, sheet]) => html`<${Sheet} key=${name} name=${name} sheet=${sheet} />`)}</div>`}`;
}

const cell = (value) => (value === null || value === undefined ? "–" : typeof value !== "number" ? String(value) : Number.isInteger(value) ? whole(value) : String(+value.toPrecision(3)));

/** A key that is a number comes before all others in JavaScript: files say the order, older ones begin with the name. */
function Sheet({ name, sheet: { title, columns: told, rows, says = [], curves } }) {
  const columns = told ?? [...new Set(rows.flatMap(Object.keys))].sort((a, b) => (b === "") - (a === ""));
  const table = html`<div class="scroll" tabindex="0" role="group" aria-label=${title}><table><thead><tr>${columns.map((each, i) => html`<th scope="col" class=${i ? "num" : ""}>${each || t("name")}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${columns.map((each, i) => (i ? html`<td class="num">${cell(row[each])}</td>` : html`<th scope="row">${cell(row[each])}</th>`))}</tr>`)}</tbody></table></div>`;
  const lines = curves && Object.entries(curves.series).map(([each, ys]) => ({ name: each, xs: curves.xs, ys, dots: true }));
  return html`<${Panel} title=${title} name=${name} ways=${{ ...(curves ? { canvas: true } : {}), json: () => ({ title, rows, says, curves }), rows: () => [columns, ...rows.map((row) => columns.map((each) => row[each] ?? ""))] }}>
    ${curves && html`<${Plot} lines=${lines} axis=${curves.axis} log=${!!curves.logarithmic} logX=${!!curves.logarithmic && curves.xs[0] > 0} />`}
    ${says.length > 0 && html`<p class="small soft">${says.join(" ")}</p>`}
    ${curves ? html`<details class="more"><summary>${t("race.numbers")}</summary>${table}</details>` : table}
  </${Panel}>`;
}

// Names with bars: probabilities, labels, alternatives. A row with an action is a button.
import { html } from "studio/core/html.js";
import { percent, shown } from "studio/core/format.js";

/** rows: [{name, p, was?, note?, lit?, faded?, action?, label?}]; `was` is drawn as a second, thinner bar. */
export function Bars({ rows, full, say = percent }) {
  const most = full ?? Math.max(1e-9, ...rows.map((row) => Math.abs(row.p)));
  return html`<ul class="bars">${rows.map((row) => {
    const width = `${Math.min(100, (100 * Math.abs(row.p)) / most)}%`;
    const inside = html`
      <span class="name" dir="auto">${shown(row.name)}</span>
      <span class="bar"><i class=${row.p < 0 ? "less" : ""} style=${{ width }}></i>${row.was !== undefined && html`<b style=${{ width: `${Math.min(100, (100 * row.was) / most)}%` }}></b>`}</span>
      <span class="num">${say(row.p)}</span>${row.note && html`<span class="note">${row.note}</span>`}`;
    const kind = `${row.lit ? "lit" : ""} ${row.faded ? "faded" : ""}`;
    return html`<li class=${kind}>${row.action ? html`<button type="button" title=${row.label} onClick=${row.action} onMouseEnter=${row.hover}>${inside}</button>` : html`<div>${inside}</div>`}</li>`;
  })}</ul>`;
}

// The frame of a figure: a title, what is to be seen, tools, and the ways out.
import { html, useEffect, useRef, useState } from "studio/core/html.js";
import { t } from "studio/core/strings.js";
import { copy } from "studio/core/hooks.js";
import { csv, numpy, png, save, standalonePage, xml } from "studio/core/export.js";
import { Icon } from "studio/parts/icons.js";

/** `ways`: svg() text, canvas: true, or which of several, where it is painted, json() anything, rows() a table, numpy() code; all are offered. */
export function Panel({ title, note, tools, ways, name = "figure", children, className = "", label }) {
  return html`<section class="panel ${className}" aria-label=${label ?? title}>
    ${(title || tools || ways) && html`<header class=${ways ? "leaves" : ""}>
      ${title && html`<h2>${title}</h2>`}${note && html`<span class="note">${note}</span>`}
      ${tools && html`<div class="tools">${tools}</div>`}${ways && html`<${Ways} ways=${ways} name=${name} title=${title ?? name} />`}
    </header>`}
    ${children}
  </section>`;
}

function Ways({ ways, name, title }) {
  const [open, setOpen] = useState(false);
  const [menu, frame] = [useRef(), useRef()];
  useEffect(() => {
    if (!open) return;
    menu.current.querySelector("[role=menuitem]").focus();
    const outside = (event) => menu.current?.parentElement.contains(event.target) || setOpen(false);
    addEventListener("pointerdown", outside);
    return () => removeEventListener("pointerdown", outside);
  }, [open]);
  const moved = (event) => {
    const items = [...menu.current.querySelectorAll("[role=menuitem]")];
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
    if (event.key === "Escape") {
      setOpen(false);
      menu.current.parentElement.querySelector("button").focus();
    }
    if (step || event.key === "Escape") event.preventDefault();
  };
  const choose = (action) => () => {
    setOpen(false);
    action();
  };
  const painted = () => frame.current.closest(".panel").querySelector(ways.canvas === true ? "canvas" : ways.canvas);
  const picture = () => (ways.svg ? ways.svg() : `<img alt="${xml(title)}" src="${painted().toDataURL()}">`);
  const items = [
    ways.svg && ["svg", () => save(`${name}.svg`, ways.svg(), "image/svg+xml")],
    ways.svg && ["png", async () => save(`${name}.png`, await png(ways.svg()))],
    ways.canvas && ["png", () => painted().toBlob((blob) => save(`${name}.png`, blob))],
    (ways.svg || ways.canvas) && ["html", () => save(`${name}.html`, standalonePage(title, picture(), ways.rows?.(), ways.json?.()), "text/html")],
    ways.json && ["json", () => save(`${name}.json`, JSON.stringify(ways.json(), null, 1), "application/json")],
    ways.rows && ["csv", () => save(`${name}.csv`, csv(ways.rows()), "text/csv")],
    ways.rows && ["copy-csv", () => copy(csv(ways.rows()), t("copied"))],
    ways.numpy && ["numpy", () => copy(ways.numpy(), t("copied"))],
  ].filter(Boolean);
  return html`<div class="menu" ref=${frame}>
    <button class="button plain icon export" aria-haspopup="menu" aria-expanded=${open} title=${t("export")} aria-label=${t("export")} onClick=${() => setOpen(!open)}><${Icon} name="out" /></button>
    ${open && html`<div role="menu" ref=${menu} onKeyDown=${moved}>${items.map(([key, action]) => html`<button role="menuitem" tabindex="-1" onClick=${choose(action)}>${t(`export.${key}`)}</button>`)}</div>`}
  </div>`;
}

/** Numbers of a vector or a row: names where there are any, all digits, copies. */
export function Numbers({ title, values, names }) {
  if (!values) return null;
  const list = Array.from(values);
  const size = Math.hypot(...list);
  return html`<div class="numbers">
    <div class="row"><h3>${title}</h3>
      <button class="button plain small" onClick=${() => copy(`import numpy as np\n\nx = ${numpy(list)}\n`, t("copied"))}>NumPy</button>
      <button class="button plain small" onClick=${() => copy(csv(names ? list.map((x, i) => [names[i], x]) : [list]), t("copied"))}>CSV</button></div>
    <p class="soft small">${t("numbers.size", { n: list.length, size: size.toPrecision(4) })}</p>
    <div class="scroll numbers-list" tabindex="0" role="group" aria-label=${title}>
      ${names
        ? html`<table><tbody>${list.map((x, i) => html`<tr><td>${names[i]}</td><td class="num">${x}</td></tr>`)}</tbody></table>`
        : html`<code>${list.map((x) => x).join(", ")}</code>`}
    </div>
  </div>`;
}

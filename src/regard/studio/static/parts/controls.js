// Small inputs: what to ask, which one, how much; and what is said when it does not work.
import { html, useRef, useState } from "studio/core/html.js";
import { t } from "studio/core/strings.js";
import { useKeys, walked } from "studio/core/keys.js";

/** The text, its examples, the button; Ctrl+Enter runs it from anywhere. */
export function Asker({ value, onInput, onRun, onStop, busy, examples = [], label, action, rows = 2, children, more }) {
  const area = useRef();
  const [open, setOpen] = useState(false);
  useKeys({ "Ctrl+Enter": () => onRun(value), "/": () => area.current.focus(), ".": () => busy && onStop?.() });
  return html`<form class="asker" onSubmit=${(event) => { event.preventDefault(); onRun(value); }}>
    <textarea ref=${area} rows=${rows} dir="auto" spellcheck="false" aria-label=${label} placeholder=${label} value=${value} onInput=${(event) => onInput(event.target.value)}></textarea>
    ${children}
    <div class="row">
      ${busy && onStop
        ? html`<button type="button" class="button" onClick=${onStop}>${t("stop")}</button>`
        : html`<button class="button main-action" disabled=${busy}>${action}</button>`}
      <div class="chips grow">${examples.map((text) => html`<button type="button" class="chip" title=${text} onClick=${() => { onInput(text); onRun(text); }}>${text}</button>`)}</div>
      ${more && html`<button type="button" class="button plain soft small" aria-expanded=${open} onClick=${() => setOpen(!open)}>${t("settings")} ${open ? "▴" : "▾"}</button>`}
    </div>
    ${more && open && html`<div class="row settings">${more}</div>`}
  </form>`;
}

/** One of a few, as a row of buttons: a radio group for the keyboard. */
export function Segments({ label, value, options, onChange }) {
  const at = Math.max(0, options.findIndex(([key]) => key === value));
  const moved = (event) => {
    const to = walked(event, at, options.length) ?? walked(event, at, options.length, false);
    if (to === null) return;
    event.preventDefault();
    onChange(options[to][0]);
    event.currentTarget.children[to].focus();
  };
  return html`<div class="segments" role="radiogroup" aria-label=${label} data-arrows onKeyDown=${moved}>
    ${options.map(([key, name], i) => html`<button type="button" role="radio" aria-checked=${i === at} tabindex=${i === at ? 0 : -1} onClick=${() => onChange(key)}>${name}</button>`)}
  </div>`;
}

export const Check = ({ label, value, onChange, title }) => html`<label class="field" title=${title}><span><input type="checkbox" checked=${value} onChange=${(event) => onChange(event.target.checked)} />${label}</span></label>`;

export const Count = ({ label, value, onChange, min, max, step = 1, placeholder }) => html`<label class="field">${label}<input type="number" min=${min} max=${max} step=${step} placeholder=${placeholder} value=${value ?? ""} onChange=${(event) => onChange(event.target.value === "" ? null : +event.target.value)} /></label>`;

export const Choice = ({ label, value, options, onChange }) => html`<label class="field">${label}<select value=${value} onChange=${(event) => onChange(event.target.value)}>${options.map(([key, name]) => html`<option value=${key} selected=${String(key) === String(value)}>${name}</option>`)}</select></label>`;

export const Trouble = ({ error }) => error && html`<div class="trouble" role="alert"><strong>${error.message}</strong>${error.hint && html`<span class="soft">${error.hint}</span>`}</div>`;

export const Empty = ({ children }) => html`<div class="panel empty">${children}</div>`;

// Words in a row, each a button; arrow keys walk, the pointer only has to pass.
import { html, useRef } from "studio/core/html.js";
import { shown } from "studio/core/format.js";
import { walked } from "studio/core/keys.js";

/** items: [{text, special?, small?, shade? (0..1, below 0 the other ink), lit?, title?}] */
export function Words({ items, at, onHover, onPick, label, className = "", refs }) {
  const row = useRef();
  const current = Math.max(0, Math.min(items.length - 1, at ?? 0));
  const moved = (event) => {
    const to = walked(event, [...row.current.children].indexOf(document.activeElement), items.length);
    if (to === null) return;
    event.preventDefault();
    row.current.children[to].focus();
  };
  return html`<div class="words ${className}" ref=${row} role="group" aria-label=${label} data-arrows onKeyDown=${moved} onPointerLeave=${() => onHover?.(null)}>
    ${items.map((item, i) => html`<button type="button" key=${i} class="word ${item.special ? "special" : ""} ${item.lit ? "lit" : ""} ${item.shade ? "shaded" : ""} ${item.className ?? ""}" dir="auto" tabindex=${i === current ? 0 : -1} title=${item.title} aria-pressed=${onPick ? i === at : undefined}
      ref=${(element) => refs && (refs.current[i] = element)} style=${shadeOf(item.shade)}
      onPointerEnter=${() => onHover?.(i)} onFocus=${() => onHover?.(i)} onBlur=${() => onHover?.(null)} onClick=${() => onPick?.(i)}>${shown(item.text)}${item.small !== undefined && html`<small>${item.small}</small>`}</button>`)}
  </div>`;
}

/** Never so dark that the word on it could not be read. */
export function shadeOf(shade) {
  if (!shade) return undefined;
  const strength = Math.min(1, Math.abs(shade)) * 42;
  return { background: `color-mix(in srgb, var(--${shade < 0 ? "minus" : "mark"}) ${strength.toFixed(1)}%, var(--panel))` };
}

/** Tokens of one word together: {text, tokens: [i…], special}. */
export function grouped(tokens) {
  const words = [];
  for (const token of tokens) {
    const last = words.at(-1);
    if (last && last.word === token.word) {
      last.text += token.text;
      last.tokens.push(token.i);
      last.special &&= token.special;
    } else words.push({ word: token.word, text: token.text, tokens: [token.i], special: token.special });
  }
  return words.map((word) => ({ ...word, text: word.special ? word.text : word.text.trim() || word.text }));
}

/** Weights between words: what is looked at adds up, what looks is averaged; each row still sums to 1. */
export function merged({ values, shape: [, m] }, rows, columns) {
  const out = new Float32Array(rows.length * columns.length);
  rows.forEach((row, r) => columns.forEach((column, c) => {
    let sum = 0;
    for (const i of row.tokens) for (const j of column.tokens) sum += values[i * m + j];
    out[r * columns.length + c] = sum / row.tokens.length;
  }));
  return { shape: [rows.length, columns.length], values: out };
}

// The beam's tree: a column a step, the chosen path a straight line on top, what was given up below it.
import { html, useEffect, useMemo, useRef, useState } from "studio/core/html.js";
import { cut, fixed, percent, shown } from "studio/core/format.js";
import { calm } from "studio/core/hooks.js";
import { t } from "studio/core/strings.js";

const HEIGHT = 38;
const STEP = 50;
const GAP = 20;
export const FINISHED = ["chosen", "end", "limit"];

const ruler = document.createElement("canvas").getContext("2d");
ruler.font = '600 13px system-ui, "Noto Sans", "DejaVu Sans", sans-serif';

/** Which nodes are shown: those that were in the beam, and beside the chosen path what nearly was; or all.
 * Once the chosen one has ended, only what became one of the `best`: the beam goes on filling up with what nobody wants. */
export function visible(nodes, whole, best) {
  if (whole) return nodes;
  const chosen = chosenPath(nodes);
  const end = Math.max(...[...chosen].map((id) => nodes[id].step));
  const listed = new Set(nodes.filter((node) => FINISHED.includes(node.reason) && node.rank <= best).flatMap((node) => pathTo(nodes, node.id).map((each) => each.id)));
  const near = (node) => chosen.has(node.parent) && Math.exp(node.log_probability) >= 0.01;
  return nodes.filter((node) => node.step === 0 || listed.has(node.id) || (node.step <= end && (node.reason !== "pruned" || near(node))));
}

export function chosenPath(nodes) {
  const path = new Set();
  let node = nodes.find((each) => each.reason === "chosen");
  while (node) {
    path.add(node.id);
    node = node.parent === null ? null : nodes[node.parent];
  }
  return path;
}

export function pathTo(nodes, id) {
  const path = [];
  for (let node = nodes[id]; node && node.parent !== null; node = nodes[node.parent]) path.unshift(node);
  return path;
}

/** Without the sign for a space that the vocabulary writes: between words every reader sees one. */
export const plain = (text) => shown(text === "▁" ? text : String(text ?? "").replace(/^[▁Ġ ]/, ""));

const named = (node) => (node.token === null ? t("tree.start") : FINISHED.includes(node.reason) && node.reason !== "limit" ? t("tree.end") : cut(plain(node.text), 14));

/** Branches are packed: each takes the first line below its parent that is free from its first step to its last. */
function layout(nodes, chosen) {
  const below = new Map(nodes.map((node) => [node.id, []]));
  for (const node of nodes) below.get(node.parent)?.push(node);
  for (const list of below.values()) list.sort((a, b) => chosen.has(b.id) - chosen.has(a.id) || b.total - a.total);
  const widths = [];
  for (const node of nodes) widths[node.step] = Math.max(widths[node.step] ?? 50, Math.min(120, ruler.measureText(named(node)).width + 18), FINISHED.includes(node.reason) ? 78 : 0);
  const lefts = widths.map((_, i) => widths.slice(0, i).reduce((sum, w) => sum + w + GAP, 8));
  const taken = [];
  const places = new Map();
  const put = (start, from) => {
    const chain = [start];
    while (below.get(chain.at(-1).id)?.length) chain.push(below.get(chain.at(-1).id)[0]);
    const [first, last] = [start.step, chain.at(-1).step];
    let line = from;
    while ((taken[line] ?? []).some(([a, b]) => first <= b && last >= a)) line++;
    (taken[line] ??= []).push([first, last]);
    for (const node of chain) places.set(node.id, { x: lefts[node.step], y: 8 + line * STEP, width: widths[node.step], line });
    for (const node of chain.slice().reverse()) for (const other of below.get(node.id).slice(1)) put(other, line + 1);
  };
  const root = nodes.find((node) => node.parent === null);
  if (root) put(root, 0);
  return { places, below, width: lefts.at(-1) + widths.at(-1) + 12, height: 8 + taken.length * STEP + 4 };
}

/** onPick(node) when a node is clicked; `lit` is the id of the node that is looked at elsewhere. */
export function Tree({ nodes, whole, best, lit, onHover, onPick, label, svgRef }) {
  const [focus, setFocus] = useState(null);
  const own = useRef();
  const frame = svgRef ?? own;
  const seen = useMemo(() => visible(nodes, whole, best), [nodes, whole, best]);
  const chosen = useMemo(() => chosenPath(nodes), [nodes]);
  const { places, below, width, height } = useMemo(() => layout(seen, chosen), [seen, chosen]);
  const pointed = lit ?? focus;
  const path = new Set(pointed === null || pointed === undefined || !nodes[pointed] ? [] : pathTo(nodes, pointed).map((node) => node.id));
  const outside = lit !== null && lit !== undefined && lit !== focus;
  useEffect(() => {
    const place = places.get(lit);
    const box = frame.current?.parentElement;
    if (!outside || !place || !box || box.matches(":hover")) return;
    if (place.x < box.scrollLeft || place.x + place.width > box.scrollLeft + box.clientWidth) box.scrollTo({ left: place.x - box.clientWidth / 2, behavior: calm() ? "auto" : "smooth" });
  }, [lit]);
  const first = seen.find((node) => node.step === 1)?.id;
  const goTo = (id) => id !== undefined && frame.current.querySelector(`[data-node="${id}"]`)?.focus();
  const moved = (event, node) => {
    const sisters = (below.get(node.parent) ?? []).map((each) => each.id);
    const column = seen.filter((each) => each.step === node.step).sort((a, b) => places.get(a.id).y - places.get(b.id).y).map((each) => each.id);
    const to = {
      ArrowRight: below.get(node.id)?.[0]?.id,
      ArrowLeft: node.step > 1 ? node.parent : undefined,
      ArrowDown: column[column.indexOf(node.id) + 1],
      ArrowUp: column[column.indexOf(node.id) - 1],
      Home: sisters[0],
    }[event.key];
    if (event.key.startsWith("Arrow") || event.key === "Home") event.preventDefault(), goTo(to);
    if (event.key === "Enter" || event.key === " ") event.preventDefault(), onPick?.(node);
  };
  const tabbed = places.has(focus) ? focus : first;
  return html`<div class="tree scroll" tabindex="-1"><svg ref=${frame} viewBox="0 0 ${width} ${height}" width=${width} height=${height} role="group" aria-label=${label} data-arrows>
    ${seen.filter((node) => node.parent !== null).map((node) => {
      const [a, b] = [places.get(node.parent), places.get(node.id)];
      if (!a || !b) return null;
      const [x1, y1, x2, y2] = [a.x + a.width, a.y + HEIGHT / 2, b.x, b.y + HEIGHT / 2];
      const kind = `edge ${chosen.has(node.id) ? "chosen" : ""} ${node.reason === "pruned" ? "pruned" : ""} ${path.has(node.id) ? "lit" : ""}`;
      return html`<path class=${kind} d="M${x1} ${y1}C${x1 + GAP / 2} ${y1} ${x2 - GAP / 2} ${y2} ${x2} ${y2}" style=${{ strokeWidth: `${1 + 4 * Math.exp(node.log_probability)}px` }} />`;
    })}
    ${seen.map((node) => {
      const place = places.get(node.id);
      if (!place) return null;
      const p = Math.exp(node.log_probability);
      const root = node.parent === null;
      const kind = `node ${root ? "root" : ""} ${chosen.has(node.id) ? "chosen" : ""} ${node.reason === "pruned" ? "pruned" : ""} ${FINISHED.includes(node.reason) ? "finished" : ""} ${path.has(node.id) ? "lit" : ""}`;
      const say = `${plain(node.text)} ${percent(p)}. ${node.why ?? ""} ${t("tree.score", { score: fixed(node.score) })}`;
      const inside = html`<rect width=${place.width} height=${HEIGHT} rx="9" />
        <text x=${place.width / 2} y=${root ? HEIGHT / 2 + 1 : 15} class="token">${named(node)}</text>
        ${!root && html`<text x=${place.width / 2} y="29" class="p">${FINISHED.includes(node.reason) ? `${node.rank ? `#${node.rank} · ` : ""}${fixed(node.score, 2)}` : percent(p)}</text>`}
        ${node.greedy && !root && html`<circle cx=${place.width - 7} cy="7" r="2.6" class="greedy" />`}`;
      const at = `translate(${place.x} ${place.y})`;
      if (root) return html`<g class=${kind} transform=${at}>${inside}</g>`;
      return html`<g key=${node.id} class=${kind} data-node=${node.id} transform=${at} role="button" tabindex=${node.id === tabbed ? 0 : -1} 
        onPointerEnter=${() => onHover?.(node)} onPointerLeave=${() => onHover?.(null)} onFocus=${() => { setFocus(node.id); onHover?.(node); }} onBlur=${() => { setFocus(null); onHover?.(null); }}
        onKeyDown=${(event) => moved(event, node)} onClick=${() => onPick?.(node)}><title>${say} ${onPick ? t("tree.force") : ""}</title>${inside}</g>`;
    })}
  </svg></div>`;
}

// Two lines of words and the threads between them: where each word came from, without a word of explanation.
import { html, useLayoutEffect, useRef, useState } from "studio/core/html.js";
import { percent } from "studio/core/format.js";
import { useWidth } from "studio/core/hooks.js";
import { Words } from "studio/parts/words.js";

/** matrix: rows are `below`, columns are `above`; at {row, column}: one of both may be lit. */
export function Links({ matrix, above, below, at, onHover, onPick, labels, langs = [] }) {
  const box = useRef();
  const [tops, bottoms] = [useRef([]), useRef([])];
  const width = useWidth(box);
  const [threads, setThreads] = useState([]);
  const [n, m] = matrix.shape;
  const row = at?.row ?? null;
  const column = row === null ? (at?.column ?? null) : null;
  const weight = (i, j) => matrix.values[i * m + j];
  useLayoutEffect(() => {
    const edge = box.current.getBoundingClientRect();
    const seat = (element, low) => {
      const place = element.getBoundingClientRect();
      return [place.left + place.width / 2 - edge.left, (low ? place.bottom : place.top) - edge.top];
    };
    const found = [];
    for (let i = 0; i < n; i++)
      for (let j = 0; j < m; j++)
        if (weight(i, j) >= 0.06 && tops.current[j] && bottoms.current[i]) found.push({ i, j, w: weight(i, j), from: seat(tops.current[j], true), to: seat(bottoms.current[i], false) });
    setThreads(found);
  }, [matrix, above, below, width]);
  const bestOf = Array.from({ length: n }, (_, i) => {
    const list = Array.from({ length: m }, (_, j) => weight(i, j));
    return list.indexOf(Math.max(...list));
  });
  const up = above.map((word, j) => {
    const share = row !== null ? weight(row, j) : column === j ? 1 : 0;
    return { ...word, shade: row !== null ? share : 0, lit: column === j || (row !== null && bestOf[row] === j), small: row !== null && share >= 0.06 ? percent(share) : "\u00a0" };
  });
  const down = below.map((word, i) => ({ ...word, lit: row === i, shade: column !== null ? weight(i, column) : 0, small: column !== null && weight(i, column) >= 0.06 ? percent(weight(i, column)) : word.small ?? "\u00a0" }));
  const lit = (thread) => (row !== null ? thread.i === row : column !== null ? thread.j === column : false);
  return html`<div class="links" ref=${box} lang=${langs[0]}>
    <${Words} items=${up} at=${at?.column} refs=${tops} label=${labels[0]} className="above" onHover=${(j) => onHover(j === null ? null : { row: null, column: j })} onPick=${(j) => onPick?.({ row: null, column: j })} />
    <svg class="threads" aria-hidden="true">${threads.map((thread) => {
      const [[x1, y1], [x2, y2]] = [thread.from, thread.to];
      const middle = (y1 + y2) / 2;
      const idle = row === null && column === null;
      const strength = lit(thread) ? 0.25 + 0.75 * thread.w : idle ? (bestOf[thread.i] === thread.j ? 0.16 + 0.5 * thread.w : 0.1 * thread.w) : 0.05;
      return html`<path d="M${x1} ${y1 + 1}C${x1} ${middle} ${x2} ${middle} ${x2} ${y2 - 1}" style=${{ strokeOpacity: strength, strokeWidth: `${1 + 5 * thread.w}px` }} />`;
    })}</svg>
    <${Words} items=${down} at=${at?.row} refs=${bottoms} label=${labels[1]} className="below" onHover=${(i) => onHover(i === null ? null : { row: i, column: null })} onPick=${(i) => onPick?.({ row: i, column: null })} />
  </div>`;
}

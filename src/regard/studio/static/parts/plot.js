// Curves over one axis, several on one sheet.
import { html, useEffect, useMemo, useRef } from "studio/core/html.js";
import { t } from "studio/core/strings.js";
import { fixed, large } from "studio/core/format.js";
import { css } from "studio/core/colour.js";
import { useTheme, useWidth } from "studio/core/hooks.js";

let library;
/** uPlot is only fetched by who looks at curves. */
function plotting() {
  library ??= new Promise((done, failed) => {
    const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/static/vendor/uplot.css" });
    const script = Object.assign(document.createElement("script"), { src: "/static/vendor/uplot.js", onload: () => done(window.uPlot), onerror: failed });
    document.head.append(sheet, script);
  });
  return library;
}

const short = (x) => (x === null ? "" : x !== 0 && Math.abs(x) < 0.01 ? x.toExponential(1) : Math.abs(x) >= 1e4 ? large(x) : String(+x.toPrecision(4)));

const INKS = ["mark", "minus", "good", "soft", "bad", "ink"];

/** lines: [{name, xs, ys, dots?, faint?, ink?}]; `log` is of the numbers, `logX` of the axis below them. */
export function Plot({ lines, log = false, logX = false, axis: name = t("runs.step") }) {
  const box = useRef();
  const plot = useRef();
  const width = useWidth(box);
  const theme = useTheme();
  const [low, high] = useMemo(() => reach(lines), [lines]);
  const deep = log && (low < 1e-12 || high > 1e15); // beyond what uPlot's own logarithms can do
  const data = useMemo(() => aligned(lines, (y) => (!log ? y : y > 0 ? (deep ? Math.log10(y) : y) : null)), [lines, log, deep]);
  const say = deep ? (x) => (x === null ? "" : `1e${Math.round(x)}`) : short;
  const shape = `${lines.map((line) => line.name).join()} ${width} ${theme} ${log} ${logX} ${deep}`;
  useEffect(() => {
    let here = true;
    plotting().then((uPlot) => {
      if (!here || !box.current) return;
      const axis = { stroke: css("soft"), grid: { stroke: css("line"), width: 1 }, ticks: { stroke: css("line") }, font: "11px system-ui, sans-serif" };
      plot.current = new uPlot({
        width, height: 220, legend: { live: true }, cursor: { y: false }, scales: { x: { time: false, distr: logX ? 3 : 1, log: 2 }, y: { distr: log && !deep ? 3 : 1 } },
        axes: [{ ...axis, values: (_, levels) => levels.map(short) }, { ...axis, size: 58, values: (_, levels) => levels.map(say), ...(deep ? { incrs: [1, 2, 5, 10, 20, 50] } : {}) }],
        series: [{ label: name }, ...lines.map((line, i) => ({ label: line.name, value: (_, y) => (y === null || y === undefined ? "–" : say(y)), stroke: css(INKS[(line.ink ?? i) % INKS.length], line.faint ? 0.55 : 1), width: line.faint ? 1 : 1.8, spanGaps: true, points: { show: !!line.dots, size: 5 } }))],
      }, data, box.current);
    });
    return () => { here = false; plot.current?.destroy(); plot.current = null; };
  }, [shape]);
  useEffect(() => plot.current?.setData(data), [data]);
  const last = lines.map((line) => `${line.name}: ${fixed(line.ys?.findLast?.((y) => y !== null), 3)}`).join("; ");
  return html`<div ref=${box} class="uplot-box" role="img" aria-label=${last}></div>`;
}

/** The least above nothing, and the most. */
function reach(lines) {
  const all = lines.flatMap((line) => line.ys ?? []).filter((y) => y > 0);
  return [all.reduce((a, b) => Math.min(a, b), Infinity), all.reduce((a, b) => Math.max(a, b), 0)];
}

/** uPlot wants one axis for all lines: nulls where a line has no number. */
function aligned(lines, scaled) {
  const xs = [...new Set(lines.flatMap((line) => line.xs ?? []))].sort((a, b) => a - b);
  const seat = new Map(xs.map((x, i) => [x, i]));
  return [xs, ...lines.map((line) => {
    const ys = new Array(xs.length).fill(null);
    (line.xs ?? []).forEach((x, i) => (ys[seat.get(x)] = scaled(line.ys?.[i] ?? null)));
    return ys;
  })];
}

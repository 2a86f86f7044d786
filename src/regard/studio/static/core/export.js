// Every figure leaves the page as SVG, PNG, JSON or CSV; nothing is sent anywhere.
import { css } from "studio/core/colour.js";

export function save(name, data, type) {
  const blob = data instanceof Blob ? data : new Blob([data], { type });
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "opacity", "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];

/** An SVG of the page as a file of its own: what the style sheet says is written into it. */
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const [from, to] = [svg, copy].map((each) => [each, ...each.querySelectorAll("*")]);
  from.forEach((element, i) => {
    const style = getComputedStyle(element);
    to[i].setAttribute("style", KEPT.map((name) => `${name}:${style.getPropertyValue(name)}`).join(";"));
    for (const name of ["class", "tabindex", "role", "data-arrows"]) to[i].removeAttribute(name);
  });
  const { width, height } = svg.viewBox.baseVal.width ? svg.viewBox.baseVal : svg.getBoundingClientRect();
  return wrapped(width, height, copy.innerHTML);
}

export function wrapped(width, height, inside, title = "") {
  const size = `width="${Math.ceil(width)}" height="${Math.ceil(height)}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} viewBox="0 0 ${Math.ceil(width)} ${Math.ceil(height)}">\n<title>${xml(title)}</title>\n<rect ${size} fill="${css("panel")}"/>\n${inside}\n</svg>\n`;
}

export const xml = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);

/** SVG painted at twice its size. */
export async function png(svg) {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await picture.decode();
  const canvas = Object.assign(document.createElement("canvas"), { width: picture.width * 2, height: picture.height * 2 });
  const pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.drawImage(picture, 0, 0);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const PAGE = "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem}img,svg{max-width:100%;height:auto}table{border-collapse:collapse;font-size:.85rem}td,th{padding:.15rem .5rem;text-align:right;border-bottom:1px solid #ddd}div{overflow:auto}";

/** One page that needs nothing else: the picture, its numbers as a table, and all of it as JSON for programs. */
export function standalonePage(title, picture, rows, data) {
  const table = rows ? `<div tabindex="0"><table>${rows.map((row) => `<tr>${row.map((each) => `<td>${xml(each)}</td>`).join("")}</tr>`).join("\n")}</table></div>` : "";
  const json = data === undefined ? "" : `<script type="application/json" id="capture">${JSON.stringify(data).replace(/</g, "\\u003c")}</scr` + `ipt>`;
  return `<!doctype html>\n<html lang="${document.documentElement.lang}"><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">\n<title>${xml(title)}</title><style>${PAGE}</style>\n<h1>${xml(title)}</h1>\n<figure>${picture}</figure>\n${table}\n${json}</html>\n`;
}

const cell = (value) => (typeof value === "number" ? String(value) : /[",\n]/.test(value) ? `"${value.replace(/"/g, '""')}"` : value);
export const csv = (rows) => rows.map((row) => row.map(cell).join(",")).join("\n") + "\n";

/** As a literal that Python reads; nine digits bring every float32 back. */
export function numpy(values) {
  const say = (each) => (Array.isArray(each) || ArrayBuffer.isView(each) ? `[${Array.from(each, say).join(", ")}]` : Number.isFinite(each) ? `${+(+each).toPrecision(9)}` : each < 0 ? "-np.inf" : "np.nan");
  return `np.array(${say(values)}, dtype=np.float32)`;
}

/** Rows of a flat matrix. */
export const rowsOf = ({ values, shape: [n, m] }) => Array.from({ length: n }, (_, i) => Array.from(values.subarray(i * m, (i + 1) * m)));

// The inks of the figures (inspection/figures/drawing.py), read from the style sheet so that both themes are one code.

const cache = new Map();

export function theme() {
  const set = document.documentElement.dataset.theme;
  return set || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

/** The three channels of an ink: mark, minus, paper, ink, soft, grid. */
export function ink(name) {
  const key = `${theme()} ${name}`;
  if (!cache.has(key)) {
    const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    cache.set(key, [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
  }
  return cache.get(key);
}

export const css = (name, strength = 1) => `rgb(${ink(name).join(" ")} / ${strength})`;

/** 511 colours from full minus over the paper to full mark, as 32-bit pixels for a canvas. */
export function ramp(log = false) {
  const [paper, mark, minus] = ["panel", "mark", "minus"].map(ink);
  return Uint32Array.from({ length: 511 }, (_, i) => {
    const x = (i - 255) / 255;
    const strength = log ? Math.log1p(99 * Math.abs(x)) / Math.log(100) : Math.abs(x);
    const [r, g, b] = paper.map((from, c) => Math.round(from + ((x < 0 ? minus : mark)[c] - from) * strength));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  });
}

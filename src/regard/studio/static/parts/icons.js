// Line drawings of 24 units, one path each.
import { html } from "studio/core/html.js";

const PATHS = {
  translate: "M4 6h9M8.5 4v2M6 6c0 4 3 7 7 8M11 6c-.6 4-3 7-7 8M12 20l4-9 4 9M13.5 17h5",
  generate: "M4 7h10M4 12h7M4 17h5M15 19l5-9M14 12l2-2M18 21l3-1",
  fill: "M3 12h5M16 12h5M10 8h4v8h-4z",
  classify: "M4 6h9M4 12h14M4 18h6M17 6h.01M20 18h.01",
  answer: "M9.5 9a2.5 2.5 0 1 1 3.6 2.2c-.8.5-1.1 1-1.1 1.8M12 17h.01M12 21a9 9 0 1 1 0-18 9 9 0 0 1 0 18z",
  tag: "M3 12V4h8l9 9-8 8-9-9zM7.5 8h.01",
  embed: "M5 19h.01M8 9h.01M13 14h.01M17 6h.01M19 16h.01M3 3v18h18",
  attention: "M5 6h2M5 12h2M5 18h2M17 6h2M17 12h2M17 18h2M8 6c5 0 3 12 8 12M8 12h8M8 18c5 0 3-12 8-12",
  explain: "M4 5h16v14H4zM4 10h16M9 10v9M14.5 10v9",
  tokens: "M3 8h6v8H3zM11 8h3v8h-3zM16 8h5v8h-5z",
  positions: "M3 12c2-6 4-6 6 0s4 6 6 0 4-6 6 0M3 21h18",
  image: "M3 5h18v14H3zM3 16l5-5 4 4 3-3 6 5M15.5 9.5h.01",
  runs: "M4 4v16h16M7 15l4-4 3 2 5-7",
  race: "M5 21V4M5 5h12l-3 4 3 4H5M9 5v8M13 5v8",
  model: "M12 3l8 4.5v9L12 21l-8-4.5v-9zM12 12l8-4.5M12 12v9M12 12L4 7.5",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8zM12 2v2M12 20v2M2 12h2M20 12h2M5 5l1.4 1.4M17.6 17.6L19 19M19 5l-1.4 1.4M6.4 17.6L5 19",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5z",
  screen: "M3 4h18v12H3zM8 20h8M12 16v4",
  help: "M9.5 9a2.5 2.5 0 1 1 3.6 2.2c-.8.5-1.1 1-1.1 1.8M12 17h.01M12 21a9 9 0 1 1 0-18 9 9 0 0 1 0 18z",
  out: "M12 3v12M7.5 10.5L12 15l4.5-4.5M4 20h16",
  link: "M10 14a4 4 0 0 0 6 .4l3-3a4 4 0 0 0-5.7-5.7L12 7M14 10a4 4 0 0 0-6-.4l-3 3a4 4 0 0 0 5.7 5.7L12 17",
};

export const Icon = ({ name }) => html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;

// Single keys, never while someone types; a view registers its own and takes them back when it goes.
import { useEffect, useRef } from "studio/core/html.js";

const layers = [];
export let enabled = localStorage.getItem("regard.keys") !== "off";

export function setEnabled(on) {
  enabled = on;
  localStorage.setItem("regard.keys", on ? "on" : "off");
}

function nameOf(event) {
  const shift = event.shiftKey && event.key.length > 1 ? "Shift+" : "";
  return (event.ctrlKey || event.metaKey ? "Ctrl+" : "") + shift + event.key;
}

const types = (target) => target.closest?.("input:not([type=checkbox], [type=radio], [type=range]), textarea, select, [contenteditable]");

addEventListener("keydown", (event) => {
  const name = nameOf(event);
  if (document.querySelector("dialog[open]")) return; // it has its own keys
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  const always = name === "Ctrl+Enter" || name === "Escape";
  if (!always && (!enabled || types(event.target))) return;
  if (event.key === " " && event.target.closest?.("button, a, summary, input")) return;
  if (event.key.startsWith("Arrow") && event.target.closest?.("[data-arrows], input, select")) return;
  for (const { layer } of layers) {
    const action = layer.current[name];
    if (action) {
      event.preventDefault();
      action(event);
      return;
    }
  }
});

/** keys: {"m": action, "Ctrl+Enter": action, "Shift+ArrowUp": action}; the deepest that knows a key has it. */
export function useKeys(keys, depth = 1) {
  const layer = useRef({});
  layer.current = keys;
  useEffect(() => {
    layers.push({ layer, depth });
    layers.sort((a, b) => b.depth - a.depth);
    return () => layers.splice(layers.findIndex((each) => each.layer === layer), 1);
  }, []);
}

/** Arrow keys that walk over n things; true if the key was one. */
export function walked(event, at, n, across = true) {
  const back = across ? "ArrowLeft" : "ArrowUp";
  const on = across ? "ArrowRight" : "ArrowDown";
  const to = { [back]: at - 1, [on]: at + 1, Home: 0, End: n - 1 }[event.key];
  return to === undefined ? null : Math.max(0, Math.min(n - 1, to));
}

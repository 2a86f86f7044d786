// What several parts need of the browser: widths, work that can be stopped, and saying things once.
import { useCallback, useEffect, useLayoutEffect, useRef, useState } from "studio/core/html.js";

/** The width of an element as it changes. */
export function useWidth(ref, start = 600) {
  const [width, setWidth] = useState(start);
  useLayoutEffect(() => {
    const seen = () => ref.current && setWidth(Math.floor(ref.current.clientWidth));
    const observer = new ResizeObserver(seen);
    seen();
    observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return width;
}

/** Counts up whenever light turns dark: what is painted must be painted again. */
export function useTheme() {
  const [count, setCount] = useState(0);
  useEffect(() => {
    const changed = () => setCount((n) => n + 1);
    const media = matchMedia("(prefers-color-scheme: dark)");
    addEventListener("theme", changed);
    media.addEventListener("change", changed);
    return () => {
      removeEventListener("theme", changed);
      media.removeEventListener("change", changed);
    };
  }, []);
  return count;
}

/**
 * One piece of work at a time: run(work) stops the one before. `work` gets a signal and gives the result.
 * `last` stays while the next is on its way, so that nothing flickers.
 */
export function useWork() {
  const [state, setState] = useState({ busy: false, last: null, error: null });
  const current = useRef(null);
  const run = useCallback(async (work) => {
    current.current?.abort();
    const control = (current.current = new AbortController());
    setState((before) => ({ ...before, busy: true, error: null }));
    try {
      const last = await work(control.signal);
      if (!control.signal.aborted) setState({ busy: false, last, error: null });
      return last;
    } catch (error) {
      if (!control.signal.aborted) setState((before) => ({ ...before, busy: false, error }));
    }
  }, []);
  const stop = useCallback(() => {
    current.current?.abort();
    setState((before) => ({ ...before, busy: false }));
  }, []);
  useEffect(() => () => current.current?.abort(), []);
  useEffect(() => {
    if (!state.busy) return;
    const bar = setTimeout(() => dispatchEvent(new CustomEvent("busy", { detail: 1 })), 150);
    return () => {
      clearTimeout(bar);
      dispatchEvent(new CustomEvent("busy", { detail: 0 }));
    };
  }, [state.busy]);
  return { ...state, run, stop };
}

export const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

export function toast(text) {
  dispatchEvent(new CustomEvent("toast", { detail: text }));
}

export async function copy(text, done) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = Object.assign(document.createElement("textarea"), { value: text });
    document.body.append(area);
    area.select();
    document.execCommand("copy"); // pages beyond loopback have no clipboard of their own
    area.remove();
  }
  toast(done);
}

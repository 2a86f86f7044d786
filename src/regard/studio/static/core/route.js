// The address is the state: #/view?model=&text=&layer=… A reload, or a friend, sees the same picture.
import { useEffect, useState } from "studio/core/html.js";

export function parse(hash = location.hash) {
  const [, path, query] = hash.match(/^#?\/?([^?]*)\??(.*)$/s);
  return { view: path || "translate", params: Object.fromEntries(new URLSearchParams(query)) };
}

export function address(view, params) {
  const kept = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = new URLSearchParams(kept).toString();
  return `#/${view}${query ? `?${query}` : ""}`;
}

export function go(view, params = {}) {
  location.hash = address(view, params);
}

/** Changes some parameters without a new entry in the history. */
export function keep(patch) {
  const { view, params } = parse();
  const next = address(view, { ...params, ...patch });
  if (next === location.hash) return;
  history.replaceState(null, "", location.pathname + location.search + next);
  dispatchEvent(new Event("route"));
}

export function useRoute() {
  const [route, setRoute] = useState(parse());
  useEffect(() => {
    const changed = () => setRoute(parse());
    addEventListener("hashchange", changed);
    addEventListener("route", changed);
    return () => {
      removeEventListener("hashchange", changed);
      removeEventListener("route", changed);
    };
  }, []);
  return route;
}

/** A parameter that is a number; null where it is none. */
export const number = (value) => (value === undefined || value === "" || Number.isNaN(+value) ? null : +value);

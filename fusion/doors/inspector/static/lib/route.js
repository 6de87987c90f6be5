// The address of a view: #/memories?q=database. Whatever a view shows can be linked, so its state stands here alone.
import { store, useStore } from "./store.js";

export const FIRST_VIEW = "ask";

export function parse(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  const params = Object.fromEntries(new URLSearchParams(search));
  const [view, ...rest] = path.split("/").map(decoded);
  return { view: view || FIRST_VIEW, ref: rest.join("/"), params };
}

/** A part of an address; one that nobody can decode stays as it is. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(view, { ref = "", ...params } = {}) {
  const kept = Object.entries(params).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(kept).toString();
  return `#/${view}${ref ? `/${encodeURIComponent(ref)}` : ""}${search ? `?${search}` : ""}`;
}

const route = store(parse(location.hash));

/** Read the address again. */
export function follow() {
  route.set(parse(location.hash));
}
addEventListener("hashchange", follow);

export const useRoute = () => useStore(route);

export function go(view, params) {
  location.hash = href(view, params);
}

/** Change parameters of the current view; with `replace` the browser's history has no entry for it. */
export function change(params, { replace = false } = {}) {
  const now = route.get();
  const next = href(now.view, { ref: now.ref, ...now.params, ...params });
  if (replace) {
    history.replaceState(null, "", next);
    follow();
  } else {
    location.hash = next;
  }
}

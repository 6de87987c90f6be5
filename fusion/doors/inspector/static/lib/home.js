// The home as all views see it: its status, and whose memories are looked at.
import { get, useLoad } from "./api.js";
import { useMemo } from "./html.js";
import { useRoute } from "./route.js";

export const EVERYBODY = "*";

/** Fields of a request for the memories of one user, of everybody, or of no user. */
export function scopeOf(user) {
  if (user === EVERYBODY) return { all_users: true };
  return user ? { user_id: user } : {};
}

/** The scope that the address names. */
export function useScope() {
  const { user } = useRoute().params;
  return useMemo(() => scopeOf(user), [user]);
}

export const useStatus = (every = 5000) => useLoad((signal) => get("/v1/status", {}, { signal }), [], { every });

/** The place of a backend in the home, which is its colour in every view. */
export function colours(backends) {
  return Object.fromEntries(backends.map((name, at) => [name, `b${at % 8}`]));
}

// The home as all views see it: its status, and whose memories are looked at.
import { get, useLoad } from "./api.js";
import { store } from "./store.js";

export const EVERYBODY = "*";

const ROLES = ["reader", "proposer", "writer", "operator"];

/** Whose key the page has: {name, role, tenant, decides_on_proposals}; null until the server has said it. */
export const caller = store(null);

/** Whether a caller may do what needs a role; the server decides where it is not known yet. */
export const allows = (who, needs) => !who || ROLES.indexOf(who.role) >= ROLES.indexOf(needs);

/** Fields of a request that looks at memories or changes them: those of one user, or of all where none is named. */
export const scopeOf = (user) => (user && user !== EVERYBODY ? { user_id: user } : {});

/** Fields of a question, which has to say that it asks for everybody's memories. */
export const askScopeOf = (user) => (user === EVERYBODY ? { all_users: true } : scopeOf(user));

/** The same for the command line: the flags of a command that looks at memories, and of one that asks. */
export const flagsOf = (user) => (user && user !== EVERYBODY ? ["--user", user] : []);
export const askFlagsOf = (user) => (user === EVERYBODY ? ["--all-users"] : flagsOf(user));

export const useStatus = (every = 5000) =>
  useLoad(
    async (signal) => {
      const status = await get("/v1/status", {}, { signal });
      if (status.caller.role !== caller.get()?.role) caller.set(status.caller);
      return status;
    },
    [],
    { every },
  );

/** The place of a backend in the home, which is its colour in every view. */
export function colours(backends) {
  return Object.fromEntries(backends.map((name, at) => [name, `b${at % 8}`]));
}

// The only place that starts a worker: the policy of the page lets no text become a script's address anywhere else.
const policy = globalThis.trustedTypes?.createPolicy("fusion-worker", { createScriptURL: (url) => url }) ?? { createScriptURL: (url) => url };

export function layoutWorker() {
  return new Worker(policy.createScriptURL(new URL("../parts/layout.js", import.meta.url).href), { type: "module" });
}

// Calls the TypeScript client for a test: one line of JSON for each call, and one for what became of it.
// Run it in a folder in which the package is installed. The argument is {"url", "options"} or {"home", "options"}.
import { createInterface } from "node:readline";

import { inspect } from "node:util";
import { Client, FusionError } from "memory-fusion-client";
import { homeClient } from "memory-fusion-client/home";

const { url, home, options } = JSON.parse(process.argv[2]);
const client = home ? homeClient(home, options) : new Client(url, options);

async function outcome({ method, args, abortAfterMs }) {
  if (abortAfterMs !== undefined) args.push({ signal: AbortSignal.timeout(abortAfterMs) });
  const began = performance.now();
  try {
    return { result: await client[method](...args), ms: performance.now() - began };
  } catch (error) {
    const { name, kind, status, message, retryAfterMs, timedOut, problem } = error;
    const shown = inspect({ error, client });
    return { error: { name, kind, status, message, retryAfterMs, timedOut, problem, ours: error instanceof FusionError, shown } };
  }
}

for await (const line of createInterface({ input: process.stdin })) console.log(JSON.stringify(await outcome(JSON.parse(line))));

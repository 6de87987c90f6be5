// A host with OpenClaw's plugin API: registers the plugin, and fires a hook for each line of JSON on stdin.
import { createInterface } from "node:readline";
import { argv, stdout } from "node:process";

const { register } = await import(argv[2]);
const hooks = {};
const warnings = [];
register({
  pluginConfig: JSON.parse(argv[3]),
  logger: { warn: (line) => warnings.push(line) },
  on: (name, handler) => (hooks[name] = handler),
});
for await (const line of createInterface({ input: process.stdin })) {
  const { hook, event, ctx } = JSON.parse(line);
  const result = (await hooks[hook]?.(event, ctx)) ?? null;
  stdout.write(`${JSON.stringify({ result, warnings: warnings.splice(0) })}\n`);
}

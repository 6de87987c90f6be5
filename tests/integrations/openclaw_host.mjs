// A host with OpenClaw's plugin API: registers the plugin, and for each line of JSON on stdin fires a hook, runs a tool, or
// calls a function of what the plugin has registered.
import { createInterface } from "node:readline";
import { argv, stdout } from "node:process";

const { register } = await import(argv[2]);
const hooks = {};
const tools = {};
const registered = {};
const warnings = [];
register({
  pluginConfig: JSON.parse(argv[3]),
  config: JSON.parse(argv[4] ?? "{}"),
  logger: { warn: (line) => void warnings.push(line) },
  on: (name, handler) => (hooks[name] = [...(hooks[name] ?? []), handler]),
  registerTool: (factory, { name }) => (tools[name] = factory),
  registerMemoryCorpusSupplement: (corpus) => (registered.corpus = corpus),
  registerMemoryPromptSupplement: (prompt) => (registered.prompt = prompt),
  registerMemoryCapability: (capability) => (registered.capability = capability),
});

const does = {
  // As the host: of several handlers the results are joined.
  hook: async ({ hook, event, ctx }) => {
    const results = [];
    for (const handler of hooks[hook] ?? []) results.push(await handler(event, ctx));
    return results.find((result) => result !== undefined) ?? null;
  },
  tool: async ({ tool, params, ctx }) => (await tools[tool](ctx).execute("1", params)).content[0].text,
  // "corpus.search": the function of that name, with one argument or several; a Set is sent as {set: […]}.
  call: async ({ call, args }) => {
    const path = call.split(".");
    const last = path.pop();
    let owner = registered;
    for (const name of path) owner = name === "manager" ? (await owner.getMemorySearchManager({})).manager : owner[name];
    return (await owner[last](...args.map(revived))) ?? null;
  },
  names: () => ({ tools: Object.keys(tools), hooks: Object.keys(hooks), registered: Object.keys(registered) }),
};

function revived(value) {
  if (typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, one?.set ? new Set(one.set) : one]));
}

for await (const line of createInterface({ input: process.stdin })) {
  const asked = JSON.parse(line);
  const what = Object.keys(does).find((name) => name in asked);
  let answer;
  try {
    answer = { result: (await does[what](asked)) ?? null };
  } catch (error) {
    answer = { result: null, error: error.message };
  }
  stdout.write(`${JSON.stringify({ ...answer, warnings: warnings.splice(0) })}\n`);
}

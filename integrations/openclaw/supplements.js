// What adds our memories to those of OpenClaw's own memory: to the results of its memory_search, and a hint in the prompt.
/** @import { OpenClawPluginApi } from "openclaw/plugin-sdk/plugin-entry" */
/** @import { Memory } from "./memory.js" */

const CORPUS = "memory-fusion";
const SEARCH_MS = 3000;
const MAX_RESULTS = 6;

/**
 * @param {OpenClawPluginApi} api
 * @param {Memory} memory
 */
export function registerSupplements(api, memory) {
  api.registerMemoryCorpusSupplement({
    async search({ query, maxResults = MAX_RESULTS, agentSessionKey }) {
      try {
        const body = { query, maxResults: Math.min(maxResults, 50), audience: memory.readsAs(agentSessionKey) };
        const { results } = await memory.ask("/v1/tools/memory_search", body, SEARCH_MS);
        return results.map(({ path, score, snippet, ref, startLine, endLine, citation, at }) => ({
          ...{ corpus: CORPUS, path, score, snippet, id: ref, startLine, endLine },
          ...(citation && { citation }),
          ...(at && { updatedAt: at }),
        }));
      } catch (error) {
        return quiet(api, memory, error, []);
      }
    },
    async get({ lookup, fromLine, lineCount, agentSessionKey }) {
      try {
        const lines = { ...(fromLine && { from: fromLine }), ...(lineCount && { lines: lineCount }) };
        const body = { path: lookup, ...lines, audience: memory.readsAs(agentSessionKey) };
        const { text, path, from = 1 } = await memory.ask("/v1/tools/memory_get", body, SEARCH_MS);
        return text ? { corpus: CORPUS, path, content: text, fromLine: from, lineCount: text.split("\n").length } : null;
      } catch (error) {
        return quiet(api, memory, error, null);
      }
    },
  });
  api.registerMemoryPromptSupplement(({ availableTools }) => {
    if (!availableTools.has("memory_search")) return [];
    const hint = 'memory_search and memory_get also search and read Memory fusion (all other memory systems) with corpus "all".';
    return ["## Memory fusion", hint, ""];
  });
}

/**
 * Nothing, after one line in the log: the host's own results stay.
 * @template T
 * @param {OpenClawPluginApi} api
 * @param {Memory} memory
 * @param {unknown} error
 * @param {T} nothing
 */
function quiet(api, memory, error, nothing) {
  api.logger.warn(`memory-fusion: its memories are not among the results: ${/** @type {Error} */ (error).message}`);
  void memory.start();
  return nothing;
}

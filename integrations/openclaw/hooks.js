// Recall before the model's call and capture after the reply, by OpenClaw's hooks.
//
// Memory must never delay an agent: a prompt waits at most 200 ms for its memories, and then goes on without them. A
// failure is one line in OpenClaw's log.
import { isPersons, questionOf } from "./sessions.js";
/** @import { OpenClawPluginApi } from "openclaw/plugin-sdk/plugin-entry" */
/** @import { Memory } from "./memory.js" */
/** @import { Session } from "./sessions.js" */
/** @import { Settings } from "./settings.js" */

const SERVERS_SHARE = 0.75; // of the time that a prompt waits, for the server's answer; the rest is the plugin's own
const MAX_TIMEOUT_MS = 60_000; // the longest deadline that the server accepts

/**
 * @param {OpenClawPluginApi} api
 * @param {Settings} settings
 * @param {Memory} memory
 */
export function registerHooks(api, settings, memory) {
  if (settings.recall) registerRecall(api, settings, memory);
  if (settings.capture) registerCapture(api, memory);
}

/**
 * @param {OpenClawPluginApi} api
 * @param {Settings} settings
 * @param {Memory} memory
 */
function registerRecall(api, settings, memory) {
  const { recallTimeoutMs: timeoutMs, place, recipe } = settings;
  const newContexts = new Set(); // sessions with a new context since their last question

  /**
   * @param {string} query
   * @param {Session} session
   */
  const recall = async (query, session) => {
    const id = memory.sessionOf(session);
    const asker = { agent_id: session.agentId ?? null, session_id: id ?? null, new_context: newContexts.delete(id) };
    const { block } = await memory.ask("/v1/fuse", {
      query,
      recipe,
      audience: memory.readsAs(session.sessionKey),
      asker: id ? asker : null,
      timeout_ms: Math.min(Math.max(1, Math.floor(timeoutMs * SERVERS_SHARE)), MAX_TIMEOUT_MS),
    }, timeoutMs);
    if (!block) return undefined;
    return place === "user" ? { prependContext: block } : { appendSystemContext: block };
  };
  api.on("before_prompt_build", async (event, ctx) => {
    const query = questionOf(event.currentUserMessage ?? event.prompt);
    if (!query || !isPersons(ctx) || memory.isPaused(ctx)) return undefined;
    try {
      return await within(recall(query, ctx), timeoutMs);
    } catch (error) {
      api.logger.warn(`memory-fusion: the prompt goes on without memories: ${/** @type {Error} */ (error).message}`);
      void memory.start();
      return undefined;
    }
  }, { timeoutMs: timeoutMs + 1000 });
  api.on("gateway_start", () => void memory.start());
  api.on("after_compaction", (_, ctx) => void newContexts.add(memory.sessionOf(ctx)));
}

/**
 * @param {OpenClawPluginApi} api
 * @param {Memory} memory
 */
function registerCapture(api, memory) {
  /**
   * @param {unknown} messages
   * @param {Session} session
   * @param {boolean} debounce
   */
  const capture = (messages, session, debounce) => {
    if (isPersons(session)) memory.capture(messages, session, debounce);
  };
  api.on("agent_end", (event, ctx) => capture(event.messages, ctx, true));
  api.on("before_reset", (event, ctx) => capture(event.messages, ctx, false)); // the next history would replace one that waits
  api.on("before_compaction", (_, ctx) => capture([], ctx, false));
}

/**
 * The result of a promise, or an error once the time is over; what it still does is left alone.
 * @template T
 * @param {Promise<T>} work
 * @param {number} ms
 * @returns {Promise<T>}
 */
function within(work, ms) {
  /** @type {NodeJS.Timeout | undefined} */
  let timer;
  /** @type {Promise<never>} */
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it took more than ${ms} ms`)), ms);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

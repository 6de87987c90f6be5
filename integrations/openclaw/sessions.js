// What OpenClaw says about a session: who asks in it, who reads along, and where its transcript is.
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

const MIN_PROMPT_CHARS = 5; // shorter ones ask nothing: yes, ok, go
const MAX_PROMPT_CHARS = 32_000; // of the longest query that the server accepts
const PROGRAMS = /(?:^|:)(?:cron|heartbeat|subagent|hook|acp)(?::|$)/; // in the keys of sessions that no person began
const AGENTS = /^agent:[^:]+:./; // the keys of an agent's sessions
const GROUP = /:(?:group|channel|room)(?::|$)/; // in those of groups
const BEHALF = /:(?:subagent|acp)(?::|$)/; // in those that work for another session, which may be a group's
const COMMAND = /^\/[\w:.-]+(?:\s|$)/; // a slash command

/**
 * @typedef {object} Session
 * @property {string | undefined} [agentId]
 * @property {string | undefined} [sessionKey]
 * @property {string | undefined} [sessionId]
 * @property {string | undefined} [workspaceDir]
 * @property {string | undefined} [channel]
 * @property {string | undefined} [trigger]
 * @property {{ kind?: string } | undefined} [inputProvenance]
 */

/**
 * Whether a person began this turn: not a heartbeat, a timer, another session or a subagent.
 * @param {Session} session
 */
export function isPersons({ trigger = "user", inputProvenance, sessionKey = "" }) {
  const kind = inputProvenance?.kind ?? "external_user";
  return trigger === "user" && kind === "external_user" && !PROGRAMS.test(sessionKey);
}

/**
 * Which memories a session may read: those for groups, unless its key says that it is one person's. A subagent may work
 * for a group, and a session without a key may be anybody's.
 * @param {string | undefined} sessionKey
 * @returns {"private" | "group"}
 */
export function readsAs(sessionKey) {
  const key = sessionKey ?? "";
  return AGENTS.test(key) && !GROUP.test(key) && !BEHALF.test(key) ? "private" : "group";
}

/**
 * For whom what is said or stored in a session is kept: for groups only if its key says that it is a group's.
 * @param {string | undefined} sessionKey
 * @returns {"private" | "group"}
 */
export function writesFor(sessionKey) {
  return GROUP.test(sessionKey ?? "") ? "group" : "private";
}

/**
 * The question in a prompt; "" for very short prompts and commands.
 * @param {unknown} prompt
 */
export function questionOf(prompt) {
  const said = String(prompt ?? "").replace(/<private>[\s\S]*?(?:<\/private>|$)/gi, "").trim();
  if (said.length < MIN_PROMPT_CHARS || COMMAND.test(said)) return "";
  const half = MAX_PROMPT_CHARS / 2;
  return said.length > MAX_PROMPT_CHARS ? said.slice(0, half) + said.slice(-half) : said;
}

/**
 * OpenClaw's database of an agent, or the file in which earlier versions keep a session; undefined if neither is there.
 * @param {Session} session
 */
export function transcriptOf({ agentId = "main", sessionId }) {
  const state = process.env.OPENCLAW_STATE_DIR ?? path.join(homedir(), ".openclaw");
  const agent = path.join(state, "agents", agentId);
  const places = [path.join(agent, "agent", "openclaw-agent.sqlite"), path.join(agent, "sessions", `${sessionId}.jsonl`)];
  return places.find((place) => existsSync(place));
}

// What OpenClaw says about a session: who asks in it, who reads along, and where its transcript is.
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

const MIN_PROMPT_CHARS = 5; // shorter ones ask nothing: yes, ok, go
const MAX_PROMPT_CHARS = 32_000; // of the longest query that the server accepts
const PROGRAMS = /(?:^|:)(?:cron|heartbeat|subagent|hook|acp)(?::|$)/; // in the keys of sessions that no person began
const AGENTS = /^agent:[^:]+:./; // the keys of an agent's sessions
const GROUP = /:(?:group|channel|room)(?::|$)/; // in those of groups
const BEHALF = /:(?:subagent|acp|hook)(?::|$)/; // in those that work for others: a session, which may be a group's, or a webhook
const DIRECT = /:(?:direct|dm)(?::|$)/; // in those with one person, who need not be the owner
const PLACE = /^agent:[^:]+:(?:(?!direct:|dm:)([^:]+):(?:(?!direct:|dm:)[^:]+:)?)?(?:direct|dm):/; // their channel, if they have one
const THREAD = /:thread:[^:]+$/; // at the end of those of a thread
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
 * Which memories a session may read: those for groups, unless its key says that it is the owner's. A subagent may work
 * for a group, a session without a key may be anybody's, and a direct message may be another person's.
 * @param {string | undefined} sessionKey
 * @param {readonly string[]} ownerPeers
 * @returns {"private" | "group"}
 */
export function readsAs(sessionKey, ownerPeers) {
  const key = sessionKey ?? "";
  if (!AGENTS.test(key) || GROUP.test(key) || BEHALF.test(key)) return "group";
  return !DIRECT.test(key) || isWithOwner(key, ownerPeers) ? "private" : "group";
}

/**
 * Whether a session of direct messages is with the owner. A peer without a channel names no one in a channel: there
 * another person may have the same name.
 * @param {string} key
 * @param {readonly string[]} ownerPeers
 */
function isWithOwner(key, ownerPeers) {
  const [place, channel] = PLACE.exec(key) ?? [];
  if (place === undefined) return false;
  const peer = key.slice(place.length).replace(THREAD, "");
  const who = channel ? `${channel}:${peer}` : peer;
  return ownerPeers.some((one) => one.toLowerCase() === who.toLowerCase());
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

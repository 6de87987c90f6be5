// Recall before the model's call and capture after the reply, by OpenClaw's hooks.
//
// Memory must never delay an agent: a prompt waits at most 200 ms for its memories, and then goes on without them. A
// failure is one line in OpenClaw's log.
//
// With a home on this computer, `fusion hook stop` captures a turn from OpenClaw's own transcript. It uses the same keys and
// bookmarks as `fusion ingest` and `[sessions]`, so each turn is stored once, whichever of them reads it. A server on another
// computer cannot read that file, and gets the whole history of the session by `POST /ingest`.
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";

import { homeServer, post, remoteServer } from "./server.js";

const DEFAULTS = { recipe: "seed002", place: "system", recallTimeoutMs: 200, recall: true, capture: true };
const SERVERS_SHARE = 0.75; // of that time, for the server's answer; the rest is the plugin's own
const MAX_TIMEOUT_MS = 60_000; // the longest deadline that the server accepts
const INGEST_MS = 10_000; // for a reply to POST /ingest, which nobody waits for
const START_EVERY_MS = 60_000; // between two tries to start the home's server
const MIN_PROMPT_CHARS = 5; // shorter ones ask nothing: yes, ok, go
const MAX_PROMPT_CHARS = 32_000; // of the longest query that the server accepts
const PROGRAMS = /(?:^|:)(?:cron|heartbeat|subagent|hook|acp)(?::|$)/; // in the keys of sessions that no person began
const GROUPS = /:(?:group|channel):/; // in the keys of chats that several people read
const COMMAND = /^\/[\w:.-]+(?:\s|$)/; // a slash command

export function register(api) {
  const settings = { ...DEFAULTS, ...api.pluginConfig };
  const memory = settings.url ? remoteMemory(api, settings) : localMemory(api, settings);
  const newContexts = new Set(); // sessions with a new context since their last question

  if (settings.recall) {
    const recall = async (event, ctx) => {
      const query = questionOf(event.currentUserMessage ?? event.prompt);
      if (!query || !isPersons(ctx)) return undefined;
      const session = memory.sessionOf(ctx);
      const asker = { agent_id: ctx.agentId, session_id: session, new_context: newContexts.delete(session) };
      const { block } = await post(memory.server(), "/v1/fuse", {
        query,
        recipe: settings.recipe,
        user_id: settings.userId,
        audience: audienceOf(ctx),
        asker: session ? asker : undefined,
        timeout_ms: Math.min(Math.max(1, Math.floor(settings.recallTimeoutMs * SERVERS_SHARE)), MAX_TIMEOUT_MS),
      }, settings.recallTimeoutMs);
      if (!block) return undefined;
      return settings.place === "user" ? { prependContext: block } : { appendSystemContext: block };
    };
    api.on("before_prompt_build", async (event, ctx) => {
      try {
        return await within(recall(event, ctx), settings.recallTimeoutMs);
      } catch (error) {
        api.logger.warn(`memory-fusion: the prompt goes on without memories: ${error.message}`);
        memory.start();
        return undefined;
      }
    }, { timeoutMs: settings.recallTimeoutMs + 1000 });
    api.on("gateway_start", () => memory.start());
    api.on("after_compaction", (event, ctx) => void newContexts.add(memory.sessionOf(ctx)));
  }
  if (settings.capture) {
    const captureWith = (debounce) => (event, ctx) => {
      if (isPersons(ctx)) memory.capture(event.messages, ctx, debounce);
    };
    api.on("agent_end", captureWith(true));
    api.on("before_reset", captureWith(false)); // the next history of this session would replace one that waits
  }
}

// A home on this computer: its server answers, and `fusion hook stop` reads OpenClaw's transcript.
function localMemory(api, settings) {
  const home = homeOf(settings);
  const command = settings.command ?? process.env.FUSION_COMMAND ?? "fusion";
  const reading = new Map(); // by transcript, whether it has to be read once more
  let started = -Infinity;

  const hook = (name, input, done) => {
    const user = settings.userId ? ["--user", settings.userId] : [];
    const child = spawn(command, ["hook", name, "--home", home, ...user], { stdio: ["pipe", "ignore", "pipe"], detached: true });
    let complaint = "";
    child.stderr.on("data", (chunk) => (complaint = `${complaint}${chunk}`.slice(0, 500)));
    child.stdin.on("error", () => {}); // it ended before it had read this; its exit says why
    child.on("error", (error) => {
      api.logger.warn(`memory-fusion: ${command} cannot be run: ${error.message}`);
      done();
    });
    child.on("exit", () => {
      if (complaint) api.logger.warn(`memory-fusion: ${complaint.trim()}`);
      done();
    });
    child.stdin.end(JSON.stringify(input));
    child.unref();
  };
  const read = (transcript, ctx) => {
    if (reading.has(transcript)) return void reading.set(transcript, true);
    reading.set(transcript, false);
    const input = { session_id: ctx.sessionId, transcript_path: transcript, cwd: ctx.workspaceDir };
    hook("stop", input, () => {
      const again = reading.get(transcript);
      reading.delete(transcript);
      if (again) read(transcript, ctx);
    });
  };
  return {
    server: () => homeServer(home),
    sessionOf: (ctx) => ctx.sessionId, // the session that the turns of a transcript belong to
    start() {
      if (Date.now() - started < START_EVERY_MS) return;
      started = Date.now();
      hook("session-start", {}, () => {});
    },
    capture(messages, ctx) {
      const transcript = transcriptOf(ctx);
      if (transcript) read(transcript, ctx);
      else api.logger.warn(`memory-fusion: the transcript of ${ctx.sessionKey} was not found; nothing is captured`);
    },
  };
}

// A server on another computer: it gets the whole history of a session after each turn.
function remoteMemory(api, settings) {
  let sent = Promise.resolve(); // one after the other: an older history that came last would take turns back
  return {
    server: () => remoteServer(settings.url),
    sessionOf: (ctx) => ctx.sessionKey,
    start() {},
    capture(messages, ctx, debounce) {
      const said = (Array.isArray(messages) ? messages : []).map(turnOf).filter(Boolean);
      if (!said.length || !ctx.sessionKey) return;
      const history = {
        messages: said,
        session_id: ctx.sessionKey,
        channel: ctx.channel,
        user_id: settings.userId,
        agent_id: ctx.agentId,
        audience: audienceOf(ctx),
        debounce,
      };
      sent = sent
        .then(() => post(remoteServer(settings.url), "/ingest", history, INGEST_MS))
        .catch((error) => api.logger.warn(`memory-fusion: the turn was not sent: ${error.message}`));
    },
  };
}

function homeOf(settings) {
  const given = settings.home ?? process.env.FUSION_HOME;
  if (given) return path.resolve(given.replace(/^~(?=\/|$)/, homedir()));
  return path.join(process.env.XDG_DATA_HOME || path.join(homedir(), ".local", "share"), "memory-fusion");
}

// OpenClaw's database of an agent, or the file in which earlier versions keep a session; undefined if neither is there.
function transcriptOf(ctx) {
  const state = process.env.OPENCLAW_STATE_DIR ?? path.join(homedir(), ".openclaw");
  const agent = path.join(state, "agents", ctx.agentId ?? "main");
  const places = [path.join(agent, "agent", "openclaw-agent.sqlite"), path.join(agent, "sessions", `${ctx.sessionId}.jsonl`)];
  return places.find((place) => existsSync(place));
}

// Whether a person began this turn: not a heartbeat, a timer, another session or a subagent.
function isPersons(ctx) {
  const kind = ctx.inputProvenance?.kind ?? "external_user";
  return (ctx.trigger ?? "user") === "user" && kind === "external_user" && !PROGRAMS.test(ctx.sessionKey ?? "");
}

function audienceOf(ctx) {
  return GROUPS.test(ctx.sessionKey ?? "") ? "group" : "private";
}

// The question in a prompt; "" for very short prompts and commands.
function questionOf(prompt) {
  const said = String(prompt ?? "").replace(/<private>[\s\S]*?(?:<\/private>|$)/gi, "").trim();
  if (said.length < MIN_PROMPT_CHARS || COMMAND.test(said)) return "";
  const half = MAX_PROMPT_CHARS / 2;
  return said.length > MAX_PROMPT_CHARS ? said.slice(0, half) + said.slice(-half) : said;
}

// A message with its text alone: pictures and calls of tools would only be thrown away by the server.
function turnOf(message) {
  if (message?.role !== "user" && message?.role !== "assistant") return undefined;
  const blocks = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const text = blocks.filter((one) => one?.type === "text" && typeof one.text === "string").map((one) => one.text).join("\n");
  const { role, timestamp, provenance, stopReason } = message;
  return text.trim() ? { role, content: text, timestamp, provenance, stopReason } : undefined;
}

// The result of a promise, or an error once the time is over; what it still does is left alone.
function within(work, ms) {
  let timer;
  const late = new Promise((resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`it took more than ${ms} ms`)), ms);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

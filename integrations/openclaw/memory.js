// The memory behind the plugin: the server of a home on this computer, or a server on another.
//
// With a home, `fusion hook stop` captures a turn from OpenClaw's own transcript. It uses the same keys and bookmarks as
// `fusion ingest` and `[sessions]`, so each turn is stored once, whichever of them reads it. A server on another computer
// cannot read that file, and gets the whole history of the session by `POST /ingest`.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";

import { Client, FusionError } from "../typescript/client.js";
import { homeClient, homeFolder } from "../typescript/home.js";
import { readsAs, transcriptOf, writesFor } from "./sessions.js";
/** @import { Body, Reply } from "../typescript/types.d.ts" */
/** @import { Session } from "./sessions.js" */
/** @import { Settings } from "./settings.js" */

const INGEST_MS = 10_000; // for a reply to POST /ingest, which nobody waits for
const START_EVERY_MS = 60_000; // between two tries to start the home's server
const STARTING_MS = 20_000; // in which a server that was started should answer
const EVERY = "*"; // stands for all sessions in the file of what is paused

/** @typedef {{ warn: (line: string) => void }} Logger */

/** @typedef {ReturnType<typeof memoryOf>} Memory */
/** @typedef {"/v1/fuse" | "/v1/tools/memory_search" | "/v1/tools/memory_get" | "/v1/memories" | "/v1/forget" | "/v1/flush/plan"} Asked */

/**
 * @param {Settings} settings
 * @param {Logger} logger
 */
export function memoryOf(settings, logger) {
  const place = settings.url ? remotePlace(settings, settings.url, logger) : localPlace(settings, logger);
  return {
    ...place,
    /** @param {string | undefined} sessionKey of a session, and which memories it may read */
    readsAs: (sessionKey) => readsAs(sessionKey, settings.ownerPeers),
    /**
     * The reply to a request of the user of the settings. Where several users have memories and the settings name none,
     * those of no user are asked for. The server refuses a question that names nobody there, but by a ref or a path it
     * finds the memories of every user: so a question is asked before. Rejects once the time is over.
     * @template {Asked} P
     * @param {P} route
     * @param {Body<`POST ${P}`>} body
     * @param {number} timeoutMs
     * @returns {Promise<Reply<`POST ${P}`>>}
     */
    async ask(route, body, timeoutMs) {
      const client = place.client();
      const until = Date.now() + timeoutMs;
      const limits = () => ({ timeoutMs: Math.max(1, until - Date.now()), retries: 0 });
      /** @param {object} request */
      const post = (request) => {
        const sent = /** @type {any} */ ({ body: request, ...limits() });
        return /** @type {Promise<any>} */ (client.request("POST", route, sent));
      };
      if (settings.userId !== undefined) return post({ ...body, user_id: settings.userId });
      try {
        if (isByRef(route, body)) await client.request("GET", "/v1/receipts", { query: { limit: 1 }, ...limits() });
        return await post(body);
      } catch (error) {
        if (!(error instanceof FusionError) || error.kind !== "NobodyNamed") throw error;
        return post({ ...body, user_id: "" });
      }
    },
  };
}

/**
 * Whether a request names the memories that it reads or deletes.
 * @param {Asked} route
 * @param {object} body
 */
function isByRef(route, body) {
  return route === "/v1/tools/memory_get" || (route === "/v1/forget" && "refs" in body);
}

/**
 * A home on this computer.
 * @param {Settings} settings
 * @param {Logger} logger
 */
function localPlace(settings, logger) {
  const home = homeFolder(settings.home);
  /** @type {Map<string, boolean>} by transcript, whether it has to be read once more */
  const reading = new Map();
  let started = -Infinity;
  let starting = Promise.resolve(false);

  /**
   * Runs a hook of the command, which writes nothing to this process but its complaints; false if it cannot be run.
   * @param {string} name
   * @param {object} input
   * @returns {Promise<boolean>}
   */
  const hook = (name, input) =>
    new Promise((resolve) => {
      const user = settings.userId ? ["--user", settings.userId] : [];
      const words = ["hook", name, "--home", home, ...user];
      const child = spawn(settings.command, words, { stdio: ["pipe", "ignore", "pipe"], detached: true });
      let complaint = "";
      child.stderr.on("data", (chunk) => (complaint = `${complaint}${chunk}`.slice(0, 500)));
      child.stdin.on("error", () => {}); // it ended before it had read this; its exit says why
      child.on("error", (error) => {
        logger.warn(`memory-fusion: ${settings.command} cannot be run: ${error.message}`);
        resolve(false);
      });
      child.on("exit", () => {
        if (complaint) logger.warn(`memory-fusion: ${complaint.trim()}`);
        resolve(true);
      });
      child.stdin.end(JSON.stringify(input));
      child.unref();
    });
  /**
   * @param {string} transcript
   * @param {Session} session
   */
  const read = async (transcript, session) => {
    if (reading.has(transcript)) return void reading.set(transcript, true);
    do {
      reading.set(transcript, false);
      await hook("stop", { session_id: session.sessionId, transcript_path: transcript, cwd: session.workspaceDir });
    } while (reading.get(transcript));
    reading.delete(transcript);
  };
  return {
    client: () => homeClient(home),
    /** @param {Session} session the session that the turns of its transcript belong to */
    sessionOf: (session) => session.sessionId,
    /** Starts the home's server, if that was not tried a moment ago; whether one that was started may still come up. */
    async start() {
      if (Date.now() - started >= START_EVERY_MS) {
        started = Date.now();
        starting = hook("session-start", {});
      }
      return (await starting) && Date.now() - started < STARTING_MS;
    },
    /** @param {Session} session whether `fusion pause` has paused it */
    isPaused(session) {
      try {
        const paused = JSON.parse(readFileSync(path.join(home, "paused.json"), "utf8"));
        return EVERY in paused || (session.sessionId ?? "") in paused;
      } catch {
        return false; // nothing is paused
      }
    },
    /**
     * @param {unknown} _messages they have no keys by which they would be stored once
     * @param {Session} session
     */
    capture(_messages, session) {
      const transcript = transcriptOf(session);
      if (transcript) void read(transcript, session);
      else logger.warn(`memory-fusion: the transcript of ${session.sessionKey} was not found; nothing is captured`);
    },
  };
}

/**
 * A server on another computer: it gets the whole history of a session after each turn.
 * @param {Settings} settings
 * @param {string} url
 * @param {Logger} logger
 */
function remotePlace(settings, url, logger) {
  const client = () => new Client(url, { apiKey: process.env.FUSION_API_KEY || undefined });
  let sent = Promise.resolve(); // one after the other: an older history that came last would take turns back
  return {
    client,
    /** @param {Session} session */
    sessionOf: (session) => session.sessionKey,
    start: async () => false,
    /** @param {Session} _session */
    isPaused: (_session) => false,
    /**
     * @param {unknown} messages
     * @param {Session} session
     * @param {boolean} debounce
     */
    capture(messages, session, debounce) {
      const said = (Array.isArray(messages) ? messages : []).map(turnOf).filter((turn) => turn !== undefined);
      if (!said.length || !session.sessionKey) return;
      const body = {
        messages: said,
        session_id: session.sessionKey,
        channel: session.channel ?? null,
        user_id: settings.userId ?? null,
        agent_id: session.agentId ?? null,
        audience: writesFor(session.sessionKey),
        debounce,
      };
      sent = sent
        .then(() => client().request("POST", "/ingest", { body, timeoutMs: INGEST_MS }))
        .then(() => {}, (error) => logger.warn(`memory-fusion: the turn was not sent: ${error.message}`));
    },
  };
}

/**
 * A message with its text alone: pictures and calls of tools would only be thrown away by the server.
 * @param {any} message
 */
function turnOf(message) {
  if (message?.role !== "user" && message?.role !== "assistant") return undefined;
  const blocks = Array.isArray(message.content) ? message.content : [{ type: "text", text: message.content }];
  const texts = blocks.filter((/** @type {any} */ one) => one?.type === "text" && typeof one.text === "string");
  const text = texts.map((/** @type {any} */ one) => one.text).join("\n");
  const { role, timestamp, provenance, stopReason } = message;
  return text.trim() ? { role, content: text, timestamp, provenance, stopReason } : undefined;
}

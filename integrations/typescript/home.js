// @ts-self-types="./home.d.ts"
// A client of the server of a home on this computer, with the home's own token. Not for browsers.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { closeSync, constants, fstatSync, openSync, readSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { homedir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";

import { Client } from "./client.js";
import { UnreachableError } from "./errors.js";
/** @import { ClientOptions, Fetch } from "./types.d.ts" */

const MAX_PROOF_BYTES = 1 << 16;
const MAX_RECORD_BYTES = 1 << 16;
const MAX_TOKEN_BYTES = 200;
const TOKEN = /^[A-Za-z0-9_-]{43,128}$/;
const LOOPBACK = new Set(["127.0.0.1", "[::1]", "localhost"]);
const HOW_TO_REPLACE = "Remove it, and the next start of the server makes a new one.";
const OTHERS = 0o077; // the permissions of group and others

/**
 * A client of the server of a home: the one given, else that of FUSION_HOME, else the user's own. The server has to run.
 *
 * Each request is sent on a connection on which the server has proved that it knows the home's token: another program may
 * have taken the port of a server that has stopped.
 * @param {string} [home]
 * @param {Omit<ClientOptions, "apiKey" | "fetch">} [options]
 */
export function homeClient(home, options) {
  return new Client("http://127.0.0.1", { ...options, fetch: homeFetch(homeFolder(home)) });
}

/**
 * The folder of a home. A `.fusion` folder above the current one is not looked for: it may be another's.
 * @param {string} [home]
 */
export function homeFolder(home) {
  const named = home || process.env.FUSION_HOME;
  if (named) return path.resolve(named.replace(/^~(?=\/|$)/, homedir()));
  return path.join(process.env.XDG_DATA_HOME || path.join(homedir(), ".local", "share"), "memory-fusion");
}

/**
 * A fetch that sends each request to the server of a home, wherever that listens now.
 * @param {string} home
 * @returns {Fetch}
 */
function homeFetch(home) {
  return async (url, { method = "GET", headers, body, signal }) => {
    const server = serverOf(home);
    const socket = await provenSocket(server, signal ?? undefined);
    const { pathname, search } = new URL(url);
    const sent = { ...Object.fromEntries(new Headers(headers)), host: server.url.host };
    const target = { method, path: pathname + search, headers: sent, createConnection: () => socket };
    return new Promise((resolve, reject) => {
      const request = http.request({ ...target, ...(signal ? { signal } : {}) }, (reply) => resolve(responseOf(reply)));
      request.on("error", reject);
      request.on("socket", (used) => {
        if (used !== socket) return void request.destroy(new UnreachableError("This runtime opens a connection of its own."));
        request.setHeader("authorization", `Bearer ${server.token}`);
        request.end(body ?? undefined);
      });
    });
  };
}

/** @typedef {{ url: URL, pid: number, token: string }} Server */

/**
 * The running server of a home, with its token. Throws if none runs, or its address or token cannot be trusted.
 * @param {string} home
 * @returns {Server}
 */
function serverOf(home) {
  let url, pid;
  try {
    const record = JSON.parse(readOwn(path.join(home, "server.json"), MAX_RECORD_BYTES));
    [url, pid] = [new URL(record.url), record.pid];
  } catch (error) {
    throw new UnreachableError(`No server of ${home} runs. Start it: fusion serve --home ${home}`, { cause: error });
  }
  if (url.protocol !== "http:" || !LOOPBACK.has(url.hostname)) {
    throw new UnreachableError(`The server of ${home} is not on this computer: ${url}`);
  }
  const file = path.join(home, "token");
  const token = readOwn(file, MAX_TOKEN_BYTES).trim();
  if (!TOKEN.test(token)) throw new UnreachableError(`${file} does not hold a token. ${HOW_TO_REPLACE}`);
  return { url, pid, token };
}

/**
 * A small file that only this user can read and change, not through a link.
 * @param {string} file
 * @param {number} maxBytes
 */
function readOwn(file, maxBytes) {
  const descriptor = openSync(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    const found = fstatSync(descriptor);
    if (!found.isFile() || found.uid !== process.geteuid?.() || found.mode & OTHERS) {
      throw new UnreachableError(`${file} is not a file that only you can read. ${HOW_TO_REPLACE}`);
    }
    const buffer = Buffer.alloc(maxBytes);
    return buffer.subarray(0, readSync(descriptor, buffer)).toString("utf8");
  } finally {
    closeSync(descriptor);
  }
}

/**
 * A connection on which the server has proved, by an HMAC of a nonce and its address, that it knows the token.
 * @param {Server} server
 * @param {AbortSignal} [signal]
 * @returns {Promise<net.Socket>}
 */
function provenSocket(server, signal) {
  const { url } = server;
  return new Promise((resolve, reject) => {
    const socket = net.connect({ host: url.hostname.replace(/^\[|\]$/g, ""), port: Number(url.port || 80) });
    const unproven = () => new UnreachableError(`What answers at ${url.host} does not know the home's token.`);
    const nonce = randomBytes(16).toString("hex");
    let received = Buffer.alloc(0);
    /** @param {unknown} [error] */
    const end = (error) => {
      socket.off("data", read).off("error", end).off("close", closed);
      signal?.removeEventListener("abort", aborted);
      if (error === undefined) return resolve(socket);
      socket.on("error", () => {}).destroy();
      reject(error);
    };
    const closed = () => end(new Error("the server closed the connection"));
    const aborted = () => end(signal?.reason);
    /** @param {Buffer} chunk */
    const read = (chunk) => {
      received = Buffer.concat([received, chunk]);
      try {
        const proved = isProved(received, nonce, socket, server);
        if (proved) end();
        else if (proved === false || received.length > MAX_PROOF_BYTES) end(unproven());
      } catch {
        end(unproven()); // the body of the reply is no JSON
      }
    };
    signal?.addEventListener("abort", aborted, { once: true });
    socket.on("data", read).on("error", end).on("close", closed);
    socket.write(`GET /healthz HTTP/1.1\r\nhost: ${url.host}\r\nx-fusion-challenge: ${nonce}\r\n\r\n`);
    if (signal?.aborted) aborted();
  });
}

/**
 * Whether a reply proves the token and the process; undefined while it is not whole.
 * @param {Buffer} received
 * @param {string} nonce
 * @param {net.Socket} socket
 * @param {Server} server
 */
function isProved(received, nonce, socket, { token, pid }) {
  const end = received.indexOf("\r\n\r\n");
  if (end < 0) return undefined;
  const head = received.subarray(0, end).toString("latin1");
  const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? NaN);
  if (!head.startsWith("HTTP/1.1 200") || Number.isNaN(length)) return false;
  if (received.length < end + 4 + length) return undefined;
  const address = `${socket.remoteAddress?.replace(/^::ffff:/, "")} ${socket.remotePort}`;
  const expected = Buffer.from(createHmac("sha256", token).update(`${nonce} ${address}`).digest("hex"));
  const given = Buffer.from(/^x-fusion-proof: *(\S+)/im.exec(head)?.[1] ?? "");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return false;
  return JSON.parse(received.subarray(end + 4).toString("utf8")).pid === pid;
}

/**
 * A reply of node:http as one of fetch.
 * @param {http.IncomingMessage} reply
 */
function responseOf(reply) {
  const headers = new Headers();
  for (const [name, value] of Object.entries(reply.headers)) if (value !== undefined) headers.set(name, String(value));
  const status = reply.statusCode ?? 0;
  if (status === 204 || status === 304) return new Response(null, { status, headers });
  return new Response(/** @type {ReadableStream} */ (Readable.toWeb(reply)), { status, headers });
}

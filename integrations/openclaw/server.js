// Requests to a memory-fusion server: to that of a home only once it has proved that it knows the home's token.
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { readFileSync, statSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import net from "node:net";
import path from "node:path";

const MAX_PROOF_CHARS = 1 << 16;
const MAX_REPLY_CHARS = 8 << 20;
const LOOPBACK = new Set(["127.0.0.1", "[::1]", "localhost"]);

// The running server of a home. Throws if none runs, or its address or token cannot be trusted.
export function homeServer(home) {
  let record;
  try {
    record = JSON.parse(readFileSync(path.join(home, "server.json"), "utf8"));
  } catch {
    throw new Error(`no server of ${home} runs`);
  }
  const file = path.join(home, "token");
  const { uid, mode } = statSync(file);
  if (uid !== process.getuid() || mode & 0o077) throw new Error(`other users can read or change ${file}`);
  if (!LOOPBACK.has(new URL(record.url).hostname)) throw new Error(`${record.url} is not on this computer`);
  const token = readFileSync(file, "utf8").trim();
  return { url: record.url, key: token, agentFor: (signal) => new ProvingAgent(token, record.pid, signal) };
}

// A server at an address, with the key in FUSION_API_KEY.
export function remoteServer(url) {
  return { url, key: process.env.FUSION_API_KEY };
}

// The reply to a request, as JSON. Rejects for any other status than 200 and 202, and once the time is over.
export function post({ url, key, agentFor }, route, body, ms) {
  return new Promise((resolve, reject) => {
    const target = new URL(route, url);
    const headers = { "content-type": "application/json", ...(key ? { authorization: `Bearer ${key}` } : {}) };
    const signal = AbortSignal.timeout(ms);
    const options = { method: "POST", headers, agent: agentFor?.(signal) ?? false, signal };
    const request = (target.protocol === "https:" ? https : http).request(target, options, (reply) => {
      let text = "";
      reply.setEncoding("utf8");
      reply.on("error", reject);
      reply.on("data", (chunk) => {
        text += chunk;
        if (text.length > MAX_REPLY_CHARS) request.destroy(new Error(`the reply to ${route} is too long`));
      });
      reply.on("end", () => {
        try {
          const found = JSON.parse(text);
          if (reply.statusCode === 200 || reply.statusCode === 202) resolve(found);
          else reject(new Error(`${route}: ${reply.statusCode}: ${found.detail ?? ""}`));
        } catch {
          reject(new Error(`${route}: ${reply.statusCode}, and no JSON`));
        }
      });
    });
    request.on("error", reject);
    request.end(JSON.stringify(body));
  });
}

// Opens connections on which the server has proved, by an HMAC of a nonce and its address, that it knows the token: another
// program may have taken the port, and the token must not be sent to it.
class ProvingAgent extends http.Agent {
  constructor(token, pid, signal) {
    super();
    this.token = token;
    this.pid = pid;
    this.signal = signal; // ends the wait for a proof: the request has no connection yet that it could end itself
  }

  createConnection(options, ready) {
    const socket = net.connect({ host: options.host.replace(/^\[|\]$/g, ""), port: options.port });
    const nonce = randomBytes(16).toString("hex");
    let received = Buffer.alloc(0);
    const end = (error) => {
      this.signal.removeEventListener("abort", aborted);
      socket.off("data", read).off("error", end).off("close", closed);
      if (error) socket.destroy();
      ready(error ?? null, error ? undefined : socket);
    };
    const closed = () => end(new Error("the server closed the connection"));
    const read = (chunk) => {
      received = Buffer.concat([received, chunk]);
      if (received.length > MAX_PROOF_CHARS) return end(new Error("the server's proof is too long"));
      try {
        const proved = this.proved(received, nonce, socket);
        if (proved !== undefined) end(proved ? undefined : new Error("what answers does not know the home's token"));
      } catch (error) {
        end(error);
      }
    };
    const aborted = () => end(new Error("the server did not prove itself in time"));
    this.signal.addEventListener("abort", aborted);
    socket.on("data", read).on("error", end).on("close", closed);
    socket.write(`GET /healthz HTTP/1.1\r\nhost: ${options.host}:${options.port}\r\nx-fusion-challenge: ${nonce}\r\n\r\n`);
  }

  // Whether a reply proves the token and the process; undefined while it is not whole.
  proved(received, nonce, socket) {
    const end = received.indexOf("\r\n\r\n");
    if (end < 0) return undefined;
    const head = received.subarray(0, end).toString("latin1");
    const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? NaN);
    if (!head.startsWith("HTTP/1.1 200") || Number.isNaN(length)) return false;
    if (received.length < end + 4 + length) return undefined;
    const address = `${socket.remoteAddress.replace(/^::ffff:/, "")} ${socket.remotePort}`;
    const expected = Buffer.from(createHmac("sha256", this.token).update(`${nonce} ${address}`).digest("hex"));
    const given = Buffer.from(/^x-fusion-proof: *(\S+)/im.exec(head)?.[1] ?? "");
    if (given.length !== expected.length || !timingSafeEqual(given, expected)) return false;
    return JSON.parse(received.subarray(end + 4).toString("utf8")).pid === this.pid;
  }
}

// @ts-self-types="./errors.d.ts"
/** @import { Problem } from "./api.d.ts" */

const PREFIX = "urn:memory-fusion:error:";
const MAX_MESSAGE_CHARS = 2000;

/** An error that the server replied with, as problem details (RFC 9457). */
export class FusionError extends Error {
  /**
   * @param {string} message
   * @param {{ kind?: string, status?: number, retryAfterMs?: number | undefined, problem?: Partial<Problem>, cause?: unknown }} [more]
   */
  constructor(message, { kind = "HttpError", status = 0, retryAfterMs, problem = {}, cause } = {}) {
    super(message.slice(0, MAX_MESSAGE_CHARS), cause === undefined ? undefined : { cause });
    this.name = new.target.name;
    /** the server's class of the error, such as NotFound, BadInput or Overloaded; HttpError for a plain HTTP error */
    this.kind = kind;
    /** the HTTP status; 0 without a reply */
    this.status = status;
    /** milliseconds after which the same request may succeed, if the server says so */
    this.retryAfterMs = retryAfterMs;
    /** the problem details as the server sent them */
    this.problem = problem;
  }
}

/** No memory-fusion server answered in time: there is none, another program answered, or the time was over. */
export class UnreachableError extends FusionError {
  /**
   * @param {string} message
   * @param {{ timedOut?: boolean, passing?: boolean, status?: number, cause?: unknown }} [more]
   */
  constructor(message, { timedOut = false, passing = false, status = 0, cause } = {}) {
    super(message, { kind: "ServerUnreachable", status, cause });
    /** whether the time was over */
    this.timedOut = timedOut;
    /** whether another try may succeed: the connection failed or broke */
    this.passing = passing;
  }
}

/**
 * The error of a reply with problem details.
 * @param {Record<string, unknown>} problem
 * @param {number} status
 * @param {string | null} retryAfter the header of the reply
 */
export function errorOf(problem, status, retryAfter) {
  const type = typeof problem.type === "string" ? problem.type : "";
  const said = [problem.detail, problem.title].find((text) => typeof text === "string" && text !== "");
  return new FusionError(typeof said === "string" ? said : `The server answers ${status}.`, {
    kind: type.startsWith(PREFIX) ? type.slice(PREFIX.length) : "HttpError",
    status,
    retryAfterMs: waitMs(problem.retry_after_s, retryAfter),
    problem,
  });
}

/**
 * Milliseconds to wait, by the problem's seconds, else by Retry-After as seconds or a date.
 * @param {unknown} seconds
 * @param {string | null} header
 */
function waitMs(seconds, header) {
  if (typeof seconds === "number" && Number.isFinite(seconds)) return Math.max(0, seconds * 1000);
  if (!header) return undefined;
  const ms = /^\d+$/.test(header) ? Number(header) * 1000 : Date.parse(header) - Date.now();
  return Number.isFinite(ms) ? Math.max(0, ms) : undefined;
}

/** @import { Problem } from "./api.d.ts" */
import type { Problem } from "./api.d.ts";
/** An error that the server replied with, as problem details (RFC 9457). */
export declare class FusionError extends Error {
    /** the server's class of the error, such as NotFound, BadInput or Overloaded; HttpError for a plain HTTP error */
    kind: string;
    /** the HTTP status; 0 without a reply */
    status: number;
    /** milliseconds after which the same request may succeed, if the server says so */
    retryAfterMs: number | undefined;
    /** the problem details as the server sent them */
    problem: Partial<Problem>;
    /**
     * @param {string} message
     * @param {{ kind?: string, status?: number, retryAfterMs?: number | undefined, problem?: Partial<Problem>, cause?: unknown }} [more]
     */
    constructor(message: string, { kind, status, retryAfterMs, problem, cause }?: {
        kind?: string;
        status?: number;
        retryAfterMs?: number | undefined;
        problem?: Partial<Problem>;
        cause?: unknown;
    });
}
/** No memory-fusion server answered in time: there is none, another program answered, or the time was over. */
export declare class UnreachableError extends FusionError {
    /** whether the time was over */
    timedOut: boolean;
    /** whether another try may succeed: the connection failed or broke */
    passing: boolean;
    /**
     * @param {string} message
     * @param {{ timedOut?: boolean, passing?: boolean, status?: number, cause?: unknown }} [more]
     */
    constructor(message: string, { timedOut, passing, status, cause }?: {
        timedOut?: boolean;
        passing?: boolean;
        status?: number;
        cause?: unknown;
    });
}
/**
 * The error of a reply with problem details.
 * @param {Record<string, unknown>} problem
 * @param {number} status
 * @param {string | null} retryAfter the header of the reply
 */
export declare function errorOf(problem: Record<string, unknown>, status: number, retryAfter: string | null): FusionError;

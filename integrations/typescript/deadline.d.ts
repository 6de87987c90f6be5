/** The time of one call, which ends early with the signal of its caller. */
export declare class Deadline {
    #private;
    /**
     * @param {number} ms
     * @param {AbortSignal} [signal]
     */
    constructor(ms: number, signal?: AbortSignal);
    /** Aborts at the end, with the error that the call rejects with. */
    get signal(): AbortSignal;
    /** Milliseconds until the end. */
    get leftMs(): number;
    /**
     * The result of work, or the error of the signal once it aborts, even if the work does not end then.
     * @template T
     * @param {Promise<T>} work
     * @returns {Promise<T>}
     */
    limit<T>(work: Promise<T>): Promise<T>;
    /** Releases the timer and the caller's signal. */
    release(): void;
}

// @ts-self-types="./deadline.d.ts"
import { UnreachableError } from "./errors.js";

/** The time of one call, which ends early with the signal of its caller. */
export class Deadline {
  #controller = new AbortController();
  #timer;
  #followed;
  #endsAt;

  /**
   * @param {number} ms
   * @param {AbortSignal} [signal]
   */
  constructor(ms, signal) {
    this.#endsAt = performance.now() + ms;
    const late = () => new UnreachableError(`The server did not answer within ${ms} ms.`, { timedOut: true });
    this.#timer = setTimeout(() => this.#controller.abort(late()), ms);
    this.#followed = signal;
    if (signal?.aborted) this.#follow();
    else signal?.addEventListener("abort", this.#follow, { once: true });
  }

  /** Aborts at the end, with the error that the call rejects with. */
  get signal() {
    return this.#controller.signal;
  }

  /** Milliseconds until the end. */
  get leftMs() {
    return this.#endsAt - performance.now();
  }

  /**
   * The result of work, or the error of the signal once it aborts, even if the work does not end then.
   * @template T
   * @param {Promise<T>} work
   * @returns {Promise<T>}
   */
  async limit(work) {
    /** @type {() => void} */
    let stop = () => {};
    const aborted = new Promise((_, reject) => {
      stop = () => reject(this.signal.reason);
    });
    if (this.signal.aborted) stop();
    else this.signal.addEventListener("abort", stop, { once: true });
    try {
      return await /** @type {Promise<T>} */ (Promise.race([work, aborted]));
    } finally {
      this.signal.removeEventListener("abort", stop);
    }
  }

  /** Releases the timer and the caller's signal. */
  release() {
    clearTimeout(this.#timer);
    this.#followed?.removeEventListener("abort", this.#follow);
  }

  #follow = () => this.#controller.abort(this.#followed?.reason);
}

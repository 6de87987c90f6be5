// One question: the backends as they answer, the answer, its candidates, and the block of a changed recipe.
import { Problem, lines, post } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

const NOTHING = { state: "idle", backends: {}, answer: null, candidates: [], recording: null, error: null };

/** milliseconds that a slider has to rest */
const KNOB_PAUSE_MS = 30;

export function useAsking() {
  const [asked, setAsked] = useState(NOTHING);
  const running = useRef(null);

  const stop = useCallback(() => {
    running.current?.abort();
    running.current = null;
    setAsked((now) => (now.state === "asking" ? { ...now, state: "idle" } : now));
  }, []);

  const ask = useCallback(async (question) => {
    running.current?.abort();
    const abort = new AbortController();
    running.current = abort;
    setAsked({ ...NOTHING, state: "asking" });
    try {
      for await (const line of lines("/v1/ask", { ...question, record: true }, { signal: abort.signal })) {
        if (abort.signal.aborted) return;
        if (line.backend) setAsked((now) => ({ ...now, backends: { ...now.backends, [line.backend]: line } }));
        else if (line.answer) setAsked((now) => ({ ...now, ...line, state: "answered" }));
        else if (line.problem) throw new Problem(line.problem.status, line.problem);
      }
    } catch (error) {
      if (!abort.signal.aborted) setAsked((now) => ({ ...now, state: "failed", error }));
    }
  }, []);

  useEffect(() => stop, [stop]);
  return { ...asked, ask, stop };
}

/** The answer packed again with changed numbers. The latest change wins; in between the last answer stands. */
export function useReplay(recording, changes) {
  const [state, setState] = useState({ replayed: null, error: null });
  useEffect(() => {
    if (!recording || !Object.keys(changes).length) {
      setState({ replayed: null, error: null });
      return undefined;
    }
    const abort = new AbortController();
    const timer = setTimeout(async () => {
      try {
        const replayed = await post("/v1/replay", { recording, ...changes }, { signal: abort.signal });
        setState({ replayed, error: null });
      } catch (error) {
        if (!abort.signal.aborted) setState((now) => ({ ...now, error }));
      }
    }, KNOB_PAUSE_MS);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [recording, JSON.stringify(changes)]);
  return state;
}

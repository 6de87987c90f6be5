// One question: the backends as they answer, the answer, its candidates, and the block of a changed recipe.
import { Problem, lines, post } from "./api.js";
import { useCallback, useEffect, useRef, useState } from "./html.js";

const NOTHING = { state: "idle", backends: {}, answer: null, candidates: [], recording: null, error: null };

const UNCHANGED = { replayed: null, error: null };

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

/** The answer packed again with changed numbers. One request at a time: the next has the latest change. */
export function useReplay(recording, changes) {
  const [state, setState] = useState(UNCHANGED);
  const wanted = useRef(null);
  const asking = useRef(false);

  async function follow() {
    asking.current = true;
    for (let asked = null; wanted.current && wanted.current !== asked; ) {
      asked = wanted.current;
      const stands = () => wanted.current?.recording === asked.recording;
      try {
        const replayed = await post("/v1/replay", asked);
        if (stands()) setState({ replayed, error: null });
      } catch (error) {
        if (stands()) setState((now) => ({ ...now, error }));
      }
    }
    asking.current = false;
  }

  useEffect(() => {
    wanted.current = recording && Object.keys(changes).length ? { recording, ...changes } : null;
    if (!wanted.current) setState(UNCHANGED);
    else if (!asking.current) follow();
  }, [recording, JSON.stringify(changes)]);
  useEffect(() => () => {
    wanted.current = null;
  }, []);
  // The effect runs after the page is drawn: without changes, nothing of them may be drawn meanwhile.
  return Object.keys(changes).length ? state : UNCHANGED;
}

// A value that components follow.
import { useEffect, useState } from "./html.js";

export function store(initial) {
  let value = initial;
  const followers = new Set();
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      for (const follow of [...followers]) follow(value);
    },
    follow(follow) {
      followers.add(follow);
      return () => followers.delete(follow);
    },
  };
}

/** The current value of a store; the component is drawn again when it changes. */
export function useStore(followed) {
  const [value, setValue] = useState(followed.get());
  useEffect(() => {
    setValue(followed.get());
    return followed.follow(setValue);
  }, [followed]);
  return value;
}

// The list of questions that a person saves. It stays in this browser until the person signs out.
import { store } from "./store.js";

const KEPT = "memory-fusion-questions";

function kept() {
  try {
    const found = JSON.parse(localStorage.getItem(KEPT) ?? "[]");
    return Array.isArray(found) ? found.filter((one) => typeof one?.query === "string") : [];
  } catch {
    return []; // somebody else wrote there
  }
}

export const questions = store(kept());

export function saveQuestion(question) {
  const others = questions.get().filter((one) => one.query !== question.query);
  questions.set([...others, question]);
  localStorage.setItem(KEPT, JSON.stringify(questions.get()));
}

/** Somebody else may use this browser next, with another key. */
export function forgetQuestions() {
  localStorage.removeItem(KEPT);
  questions.set([]);
}

export function downloadQuestions() {
  const text = questions.get().map((one) => JSON.stringify(one)).join("\n");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${text}\n`], { type: "application/x-ndjson" }));
  link.download = "questions.jsonl";
  link.click();
  URL.revokeObjectURL(link.href);
}

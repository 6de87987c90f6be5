// The session of this tab. `fusion open` leads here with a code that works once; an API key can be pasted instead.
//
// A server that was started again does not know the session. Before the page sends it anything, the server proves that it
// knows the renewal key, so another program that has taken the port learns nothing.
const KEPT = "memory-fusion";
const bytes = new TextEncoder();

let session = null; // {token, renewal_id, renewal_key}; a pasted key has the token alone

function keep(next) {
  session = next;
  // The renewal key stays in memory: a page of another program at this address could read what is stored.
  if (next) sessionStorage.setItem(KEPT, next.token);
  else sessionStorage.removeItem(KEPT);
}

async function send(path, body) {
  const reply = await fetch(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    credentials: "omit",
  });
  return reply.ok ? reply.json() : null;
}

async function hmac(key, text) {
  const made = await crypto.subtle.importKey("raw", bytes.encode(key), { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  const signed = new Uint8Array(await crypto.subtle.sign("HMAC", made, bytes.encode(text)));
  return [...signed].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export const token = () => session?.token;

export function signOut() {
  keep(null);
}

export function useKey(key) {
  keep({ token: key });
}

/** Sign in with the code of the address, or with what this tab has kept. True if the code did not work any more. */
export async function begin() {
  const code = /^#code=([\w-]+)$/.exec(location.hash)?.[1];
  const kept = sessionStorage.getItem(KEPT);
  if (kept) session = { token: kept };
  if (!code) return false;
  history.replaceState(null, "", location.pathname); // a code is no address: it works once
  const opened = await send("/v1/inspector/sessions", { code });
  if (opened) keep(opened);
  return !opened && !kept;
}

/** The session anew from a server that was started again. False if the page has to be opened again. */
export async function renew() {
  if (!session?.renewal_key || !crypto.subtle) return false;
  const { renewal_id, renewal_key } = session;
  const port = location.port || (location.protocol === "https:" ? "443" : "80");
  const nonce = [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  const asked = await send("/v1/inspector/renewals", { renewal_id, nonce });
  if (!asked || asked.proof !== (await hmac(renewal_key, `server ${port} ${nonce}`))) return false;
  const proof = await hmac(renewal_key, `page ${port} ${asked.challenge}`);
  const opened = await send("/v1/inspector/sessions", { challenge: asked.challenge, proof });
  if (opened) keep(opened);
  return Boolean(opened);
}

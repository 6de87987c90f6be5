// Who opens the page without a session learns how to get one.
import { signedIn } from "../lib/api.js";
import { html, useState } from "../lib/html.js";
import * as session from "../lib/session.js";
import { S } from "../strings.js";

export function SignIn({ stale }) {
  const [refused, setRefused] = useState(false);
  async function submit(event) {
    event.preventDefault();
    const key = new FormData(event.target).get("key").trim();
    const reply = await fetch("/v1/status", { headers: { authorization: `Bearer ${key}` }, credentials: "omit" });
    setRefused(!reply.ok);
    if (!reply.ok) return;
    session.useKey(key);
    signedIn();
  }
  return html`<main class="gate stack panel"><div class="body">
    <h1>${S.signIn.title}</h1>
    <p>${stale ? S.signIn.stale : S.signIn.lead}</p>
    <pre class="notice">${S.signIn.code}</pre>
    <form class="stack" onSubmit=${submit}>
      <p class="muted">${S.signIn.or}</p>
      <label class="field">${S.signIn.key}<input name="key" type="password" required autocomplete="off" /></label>
      ${refused && html`<div class="notice bad" role="alert">${S.signIn.refused}</div>`}
      <div class="row"><button class="first">${S.signIn.submit}</button></div>
    </form>
  </div></main>`;
}

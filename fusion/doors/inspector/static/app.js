// The frame of the page: who is signed in, the views, and what is said about the server.
import { Boundary } from "./parts/boundary.js";
import { Empty, Toast } from "./parts/basics.js";
import { Icon } from "./parts/icons.js";
import { SignIn } from "./parts/sign_in.js";
import { connection, remove, signedIn } from "./lib/api.js";
import { EVERYBODY, useStatus } from "./lib/home.js";
import { html, render, useEffect, useState } from "./lib/html.js";
import { forgetQuestions } from "./lib/questions.js";
import { FIRST_VIEW, change, follow, href, useRoute } from "./lib/route.js";
import * as session from "./lib/session.js";
import { useStore } from "./lib/store.js";
import { S } from "./strings.js";
import { visible } from "./lib/text.js";
import { Ask } from "./views/ask.js";
import { Graph } from "./views/graph.js";
import { Health } from "./views/health.js";
import { Live } from "./views/live.js";
import { Memories } from "./views/memories.js";
import { Timeline } from "./views/timeline.js";
import { Upkeep } from "./views/upkeep.js";

const VIEWS = { ask: Ask, live: Live, memories: Memories, graph: Graph, timeline: Timeline, upkeep: Upkeep, health: Health };
const THEME = "memory-fusion-theme";

function App({ stale }) {
  const { state } = useStore(connection);
  if (state === "signed-out") return html`<${SignIn} stale=${stale} />`;
  return html`<${Frame} offline=${state === "offline"} />`;
}

function Frame({ offline }) {
  const route = useRoute();
  const { value: status } = useStatus();
  const View = Object.hasOwn(VIEWS, route.view) ? VIEWS[route.view] : null;
  const user = route.params.user;
  useEffect(() => {
    document.title = View ? `${S.views[route.view]} – ${S.name}` : S.name;
  }, [route.view]);
  return html`<div class="frame">
    <a class="hidden" href="#content" onClick=${skip}>${S.skip}</a>
    <div class="side">
      <a class="brand" href=${href(FIRST_VIEW, { user })}><img src="icon.svg" alt="" />${S.name}</a>
      <nav aria-label=${S.viewsLabel}>
        ${Object.entries(S.views).map(([name, text]) => html`<a key=${name} href=${href(name, { user })} aria-current=${name === route.view ? "page" : undefined}><${Icon} name=${name} />${text}</a>`)}
      </nav>
      <div class="foot">
        <${Whose} agents=${status?.agents} user=${user} />
        ${status?.caller && html`<span>${visible(S.caller(status.caller.name, status.caller.role, status.caller.tenant))}</span>`}
        <div class="row"><${Theme} /><button class="plain" onClick=${signOut}>${S.signOut}</button></div>
      </div>
    </div>
    <main id="content" tabindex="-1">
      ${offline && html`<div class="notice warn" role="status">${S.offline}</div>`}
      ${status?.caller && status.caller.role !== "operator" && html`<p class="notice small">${S.roles.may[status.caller.role]}</p>`}
      ${View ? html`<${Boundary} key=${route.view}><${View} route=${route} status=${status} /><//>` : html`<${Empty} title=${S.notFound} />`}
    </main>
    <${Toast} />
  </div>`;
}

function skip(event) {
  event.preventDefault(); // the hash is the address of a view
  document.getElementById("content").focus();
}

async function signOut() {
  await remove("/v1/inspector/sessions").catch(() => null); // without a server it ends by its time
  forgetQuestions();
  session.signOut();
  location.reload();
}

/** Whose memories all views show: everybody's, or those of the user that is named. */
function Whose({ user = "" }) {
  return html`<label class="field">${S.whose}
    <input list="users" value=${user === EVERYBODY ? S.everybody : user} placeholder=${S.noUser} onChange=${(event) => change({ user: event.target.value === S.everybody ? EVERYBODY : event.target.value.trim() })} />
    <datalist id="users"><option value=${S.everybody}></option></datalist>
  </label>`;
}

function Theme() {
  const [theme, setTheme] = useState(document.documentElement.dataset.theme);
  function turn() {
    const dark = theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    const next = dark ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem(THEME, next);
    setTheme(next);
  }
  return html`<button class="plain" onClick=${turn}>${S.theme}</button>`;
}

const kept = localStorage.getItem(THEME);
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
const stale = await session.begin();
follow(); // the code was no address
if (session.token()) signedIn();
render(html`<${App} stale=${stale} />`, document.getElementById("app"));

// Ask: a question, the backends as they answer, the block as the agent gets it, and every candidate with its reason.
import { Candidate } from "../parts/candidate.js";
import { Chip, Copy, CopyCalls, Empty, Fault, Meter, Tabs, command, curl, replayCurl, say } from "../parts/basics.js";
import { Compared } from "../parts/compared.js";
import { Missing } from "../parts/missing.js";
import { Knobs, addressOf, known, knobsOf } from "../parts/knobs.js";
import { get, post, useLoad } from "../lib/api.js";
import { useAsking, useReplay } from "../lib/asking.js";
import { EVERYBODY, askFlagsOf, askScopeOf, colours, scopeOf } from "../lib/home.js";
import { html, useEffect, useMemo, useRef, useState } from "../lib/html.js";
import { downloadQuestions, questions, saveQuestion } from "../lib/questions.js";
import { change } from "../lib/route.js";
import { useStore } from "../lib/store.js";
import { ms, number, visible, words } from "../lib/text.js";
import { S } from "../strings.js";

/** candidates that are drawn at first */
const DRAWN = 100;
/** after which a slider that rests is in the address: browsers refuse hundreds of changes in a row */
const REST_MS = 300;

export function Ask({ route, status }) {
  const { q = "", recipe = "", backends = "", user, b: other = "", show = "in", knobs: written = "" } = route.params;
  const chosen = useMemo(() => (backends ? backends.split(",") : []), [backends]);
  const names = (status?.backends ?? []).map((backend) => backend.name);
  const colourOf = useMemo(() => colours(names), [names.join()]);
  const { value: recipes } = useLoad((signal) => get("/v1/recipes", {}, { signal }), []);
  const asking = useAsking();
  const [knobs, setKnobs] = useState(() => knobsOf(written));
  const asked = useRef(null);
  const [votes, setVotes] = useState({});
  const values = valuesOf(recipes, recipe);
  const changes = known(knobs, values);
  const { replayed, error: replayError } = useReplay(asking.recording, changes);

  useEffect(() => {
    if (asked.current) setKnobs({}); // a first question keeps those of its address
    asked.current = true;
    setVotes({});
    if (q) asking.ask(question());
  }, [q, recipe, backends, user]);

  useEffect(() => {
    if (written !== addressOf(knobs)) setKnobs(knobsOf(written));
  }, [written]);

  useEffect(() => {
    if (addressOf(knobs) === written) return undefined;
    const rest = setTimeout(() => change({ knobs: addressOf(knobs) }, { replace: true }), REST_MS);
    return () => clearTimeout(rest);
  }, [knobs]);

  function question() {
    return { query: q, ...askScopeOf(user), ...(recipe && { recipe }), ...(chosen.length && { backends: chosen }) };
  }

  function submit(event) {
    event.preventDefault();
    const wanted = new FormData(event.target).get("q").trim();
    if (wanted === q) asking.ask(question());
    else change({ q: wanted, show: "" });
  }

  function save() {
    const useful = Object.keys(votes).filter((ref) => votes[ref] === "useful");
    saveQuestion({ query: q, ...(user && user !== EVERYBODY && { user_id: user }), ...(useful.length && { expected: { refs: useful } }) });
    say(S.ask.saved);
  }

  const shown = replayed ?? asking;
  const most = changes.budget_chars ?? values?.pack?.budget_chars;
  return html`
    <div class="head"><h1>${S.ask.title}</h1><p class="lead">${S.ask.lead}</p></div>
    <form class="ask" onSubmit=${submit} role="search">
      <label class="hidden" for="question">${S.ask.question}</label>
      <input id="question" name="q" key=${q} defaultValue=${q} placeholder=${S.ask.placeholder} autocomplete="off" maxlength="4000" required autofocus />
      ${asking.state === "asking" ? html`<button type="button" onClick=${asking.stop}>${S.ask.stop}</button>` : html`<button class="first">${S.ask.submit}</button>`}
    </form>
    <div class="row">
      <label class="row small">${S.ask.recipe}
        <select value=${recipe} onChange=${(event) => change({ recipe: event.target.value })}>
          <option value="">${recipes?.default ?? ""}</option>
          ${(recipes?.recipes ?? []).filter((one) => one.name !== recipes.default).map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}
        </select>
      </label>
      <span class="row small" role="group" aria-label=${S.ask.backends}>
        ${names.map((name) => html`<button key=${name} type="button" aria-pressed=${!chosen.length || chosen.includes(name)} onClick=${() => change({ backends: toggled(names, chosen, name) })}><span class="row"><span class="dot ${colourOf[name]}"></span>${visible(name)}</span></button>`)}
      </span>
      ${q && html`<span class="push row">
        <button class="plain" onClick=${save}>${S.ask.saveQuestion}</button>
        <${CopyCalls} cli=${changes.changes ? null : command("fuse", q, ...(recipe ? ["--recipe", recipe] : []), ...chosen.flatMap((name) => ["--backend", name]), ...limitsOf(changes), ...askFlagsOf(user), "-v")} http=${Object.keys(changes).length ? replayCurl(question(), changes) : curl("POST", "/v1/fuse", question())} />
      </span>`}
    </div>
    ${q ? html`<${Answering} asking=${asking} names=${chosen.length ? chosen : names} colourOf=${colourOf} />` : html`<${Start} isEmpty=${status?.memories?.current === 0} />`}
    <${Fault} error=${asking.error} />
    ${asking.answer && html`
      <${Knobs} values=${values} changes=${changes} onChange=${setKnobs} took=${replayed?.answer?.took_ms} error=${replayError} />
      <div class="columns">
        <div class="stack answer">
          <${Block} answer=${shown.answer} most=${most} />
          <${Missing} key=${asking.answer.receipt_id} answer=${asking.answer} candidates=${asking.candidates} scope=${scopeOf(user)} user=${user} />
        </div>
        <${Candidates} answer=${shown.answer} candidates=${shown.candidates} weights=${weightsOf(values, changes)} colourOf=${colourOf} show=${show} query=${q} user=${user} votes=${votes} setVotes=${setVotes} />
      </div>
      <${Compared} question=${{ query: q, ...askScopeOf(user) }} recipe=${recipe || recipes?.default || "default"} recipes=${recipes?.recipes ?? []} other=${other} user=${user} />`}
  `;
}

function toggled(names, chosen, name) {
  const now = chosen.length ? chosen : names;
  const next = now.includes(name) ? now.filter((one) => one !== name) : names.filter((one) => now.includes(one) || one === name);
  return next.length === names.length || !next.length ? "" : next.join(",");
}

/** The flags of `fusion fuse` for the limits of the block; it has none for weights. */
const limitsOf = ({ budget_chars: chars, max_results: most }) => [...(chars ? ["--budget", chars] : []), ...(most ? ["--max-results", most] : [])];

/** The values of a recipe by part and name. */
const valuesOf = (recipes, name) => (recipes?.recipes ?? []).find((one) => one.name === (name || recipes.default))?.fields;

const weightsOf = (values, changes) => ({ ...values?.rerank?.signals, ...changes.changes?.rerank?.signals });

/** Each backend as it answers. */
function Answering({ asking, names, colourOf }) {
  const slowest = Math.max(1, ...Object.values(asking.backends).map((one) => one.took_ms));
  return html`<div class="answering" aria-live="polite">
    ${names.map((name) => {
      const one = asking.answer?.backends?.find((found) => found.name === name) ?? asking.backends[name];
      const bad = one && !["ok", "empty", "skipped"].includes(one.status);
      return html`<div key=${name} class=${!one && asking.state === "asking" ? "waiting" : ""}>
        <div class="row"><span class="dot ${colourOf[name] ?? ""}"></span><strong>${visible(name)}</strong>
          <span class="push small ${bad ? "" : "muted"}">${one ? (bad ? html`<${Chip} tone="bad">${words(one.status)}<//>` : ms(one.took_ms)) : asking.state === "asking" ? S.ask.asking : "–"}</span></div>
        <div class="small muted">${one ? S.ask.hits(one.count ?? 0) : " "}</div>
        <div class="bar" aria-hidden="true"><span class=${colourOf[name] ?? "b7"} style=${{ width: one ? `${Math.max(3, (one.took_ms / slowest) * 100)}%` : "0" }}></span></div>
        ${one?.detail && html`<p class="small said">${visible(one.detail)}</p>`}
        ${one?.dropped && html`<p class="small muted said">${S.ask.corrected}: ${Object.entries(one.dropped).map(([why, count]) => `${words(why)} ${number(count)}`).join(", ")}</p>`}
      </div>`;
    })}
  </div>`;
}

/** The block, byte for byte, with its sizes. */
function Block({ answer, most }) {
  const characters = [...answer.block].length;
  return html`<section class="panel" aria-label=${S.ask.block}>
    <header>
      <h2>${S.ask.block}</h2>
      <span class="small muted">${S.ask.size(characters, most)}</span>
      ${answer.degraded && html`<${Chip} tone="warn">${S.ask.degraded}<//>`}
      <span class="push"><${Copy} label=${S.ask.copyBlock} text=${answer.block} /></span>
    </header>
    <${Meter} value=${characters} most=${most} label=${S.ask.size(characters, most)} />
    ${answer.block ? html`<pre class="block said" tabindex="0">${visible(answer.block)}</pre>` : html`<div class="body"><p class="muted">${S.ask.noBlock}</p>${answer.abstained && html`<p><${Chip} tone="warn">${visible(S.ask.abstained(answer.abstained))}<//></p>`}</div>`}
  </section>`;
}

function Candidates({ answer, candidates, weights, colourOf, show, query, user, votes, setVotes }) {
  const members = useMemo(() => new Map(answer.memories.flatMap((excerpt) => excerpt.members.map((member) => [member.ref, member]))), [answer]);
  const isIn = candidates.filter((one) => one.decision === "packed");
  const isOut = candidates.filter((one) => one.decision !== "packed");
  const listed = show === "out" ? isOut : isIn;
  const [all, setAll] = useState(false);

  async function vote(ref, value) {
    const next = { ...votes, [ref]: votes[ref] === value ? undefined : value };
    setVotes(next);
    const of = (wanted) => Object.keys(next).filter((one) => next[one] === wanted);
    try {
      await post("/v1/feedback", { receipt_id: answer.receipt_id, useful: of("useful"), useless: of("useless"), ...(user && user !== EVERYBODY && { user_id: user }) });
      say(S.ask.voted);
    } catch (error) {
      setVotes(votes);
      say(error.message, { tone: "bad" });
    }
  }

  const drawn = (list) => list.slice(0, all ? list.length : DRAWN).map((one) => html`<${Candidate} key=${one.ref} candidate=${one} member=${members.get(one.ref)} weights=${weights} colourOf=${(name) => colourOf[name] ?? ""} find=${query} vote=${votes[one.ref]} onVote=${one.decision === "packed" ? (value) => vote(one.ref, value) : null} scope=${user ? { user } : {}} />`);
  return html`<section class="panel">
    <header><${Tabs} label=${S.ask.found} chosen=${show} onChoose=${(name) => change({ show: name }, { replace: true })} tabs=${[["in", S.ask.in(isIn.length)], ["out", S.ask.out(isOut.length)], ["backends", S.ask.byBackend]]} /></header>
    <div class="body scroll">
      ${show === "backends" ? html`<${ByBackend} candidates=${candidates} answer=${answer} colourOf=${colourOf} />` : drawn(listed)}
      ${show !== "backends" && !all && listed.length > DRAWN && html`<button type="button" onClick=${() => setAll(true)}>${S.ask.showAll(listed.length)}</button>`}
    </div>
  </section>`;
}

/** What each backend returned, in its own order, and what became of it. */
function ByBackend({ candidates, answer, colourOf }) {
  return html`${answer.backends.map((backend) => {
    const found = candidates
      .flatMap((one) => (one.source_hits ?? []).filter((hit) => hit.backend === backend.name).map((hit) => ({ one, hit })))
      .sort((a, b) => a.hit.rank - b.hit.rank);
    return html`<section key=${backend.name} class="stack">
      <h3 class="row"><span class="dot ${colourOf[backend.name] ?? ""}"></span>${visible(backend.name)} <span class="small muted">${S.ask.hits(found.length)}, ${ms(backend.took_ms)}</span></h3>
      <ol class="history small">${found.slice(0, 12).map(({ one, hit }) => html`<li key=${hit.native_id}><span class="row"><span class="mono">#${hit.rank}</span><span class="mono">${visible(one.ref)}</span><${Chip} tone=${one.decision === "packed" ? "good" : ""}>${words(one.decision)}<//><span class="muted">${visible(hit.reason ?? "")}</span></span></li>`)}</ol>
    </section>`;
  })}`;
}

function Start({ isEmpty }) {
  const saved = useStore(questions);
  if (isEmpty) return html`<${Empty} title=${S.ask.empty}><p>${S.ask.emptyLead}</p><code>fusion remember "We deploy on Tuesdays."</code><code>fusion init</code><//>`;
  return html`<${Empty} title=${S.ask.start}>
    <p>${S.ask.startLead}</p>
    <div class="row">${S.ask.examples.map((text) => html`<button key=${text} onClick=${() => change({ q: text })}>${text}</button>`)}</div>
    ${saved.length > 0 && html`<section class="stack">
      <h3>${S.ask.savedList} (${number(saved.length)})</h3>
      <div class="row">${saved.slice(-8).map((one) => html`<button key=${one.query} onClick=${() => change({ q: one.query, user: one.user_id ?? "" })}>${visible(one.query)}</button>`)}</div>
      <p class="small">${S.ask.savedHelp}</p>
      <div><button onClick=${downloadQuestions}>${S.ask.download}</button></div>
    </section>`}
  <//>`;
}

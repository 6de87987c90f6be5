// Graph: entities and relations around what is chosen, as a picture and as a list.
import { Chip, CopyCalls, Empty, Fault, Loading, Tabs, command, curl } from "../parts/basics.js";
import { Picture } from "../parts/picture.js";
import { TimeSlider } from "../parts/time_slider.js";
import { get, post, useLoad } from "../lib/api.js";
import { askFlagsOf, askScopeOf } from "../lib/home.js";
import { html, useMemo, useRef } from "../lib/html.js";
import { change, href } from "../lib/route.js";
import { visible } from "../lib/text.js";
import { S } from "../strings.js";

const MOST_NODES = 10_000;
const LISTED = 300;

export function Graph({ route }) {
  const { entity = "", to = "", depth = "2", at = "", show = "picture", user } = route.params;
  const body = { limit: MOST_NODES, ...(entity && { around: [entity], depth: Number(depth) }), ...(at && { at }), ...askScopeOf(user) };
  const { value, error, loading } = useLoad((signal) => post("/v1/graph/overview", body, { signal }), [JSON.stringify(body)]);
  const way = useLoad((signal) => (entity && to ? post("/v1/graph/path", { entity, to, ...askScopeOf(user) }, { signal }) : Promise.resolve(null)), [entity, to, user]);
  const names = useMemo(() => (value?.nodes ?? []).slice(0, 500).map((node) => node.name), [value]);
  const onWay = useMemo(() => new Set((way.value?.way?.edges ?? []).flatMap((edge) => [edge.subject, edge.object])), [way.value]);

  const places = useRef(new Map()); // by name, so that an entity stays where it is while time goes by

  function submit(event) {
    event.preventDefault();
    const form = new FormData(event.target);
    change({ entity: form.get("entity").trim(), to: form.get("to").trim(), depth: form.get("depth"), at: form.get("at") });
  }

  return html`
    <div class="head"><h1>${S.graph.title}</h1><p class="lead">${S.graph.lead}</p>
      <span class="push"><${CopyCalls} cli=${commandOf({ entity, depth, at, user })} http=${curl("POST", "/v1/graph/overview", body)} /></span></div>
    <form class="panel" onSubmit=${submit}><div class="body"><div class="row" key=${entity + to + at}>
      <label class="field grow">${S.graph.entity}<input name="entity" list="entities" defaultValue=${entity} /></label>
      <label class="field">${S.graph.depth}<input name="depth" type="number" min="1" max="3" defaultValue=${depth} /></label>
      <label class="field grow">${S.graph.path}<input name="to" list="entities" defaultValue=${to} /></label>
      <label class="field">${S.graph.at}<input name="at" type="date" defaultValue=${at} /></label>
      <datalist id="entities">${names.map((name) => html`<option key=${name} value=${name}></option>`)}</datalist>
      <button class="first">${S.graph.show}</button>
      <button type="button" onClick=${() => change({ entity: "", to: "", at: "" })}>${S.graph.whole}</button>
    </div></div></form>
    <${TimeSlider} at=${at} user=${user} onChange=${(date) => change({ at: date }, { replace: true })} />
    <${Fault} error=${error ?? way.error} />
    ${way.value && html`<div class="notice"><span class="said">${visible(way.value.way?.path ?? S.graph.noPath(entity, to))}</span>
      <span class="push"><${CopyCalls} cli=${command("mem", "graph", "path", entity, to, ...askFlagsOf(user))} http=${curl("POST", "/v1/graph/path", { entity, to, ...askScopeOf(user) })} /></span></div>`}
    ${loading && !value ? html`<${Loading} />` : value && !value.nodes.length ? html`<${Empty} title=${at ? S.graph.noneThen : S.graph.none}><p>${at ? S.graph.noneThenLead : S.graph.noneLead}</p><//>` : value && html`
      <section class="panel">
        <header><${Tabs} label=${S.graph.title} chosen=${show} onChoose=${(name) => change({ show: name }, { replace: true })} tabs=${[["picture", S.graph.picture], ["list", S.graph.list]]} /><span class="push small muted">${S.graph.size(value.nodes.length, value.edges.length)}</span></header>
        ${show === "list" ? html`<${List} graph=${value} user=${user} />` : html`<${Picture} graph=${value} known=${places.current} chosen=${entity} marked=${onWay} onChoose=${(name) => change({ entity: name, to: "" })} />`}
      </section>`}
  `;
}

/** The command that lists the same entities: it has neither a time nor the whole graph. */
function commandOf({ entity, depth, at, user }) {
  return entity && !at ? command("mem", "graph", "neighbors", entity, "--depth", depth, "--limit", "100", ...askFlagsOf(user)) : null;
}

function List({ graph, user }) {
  const C = S.graph.columns;
  return html`<div class="scroll"><table>
    <thead><tr><th>${C.subject}</th><th>${C.relation}</th><th>${C.object}</th><th>${C.since}</th><th>${C.until}</th><th>${C.refs}</th></tr></thead>
    <tbody>${graph.edges.slice(0, LISTED).map((edge, at) => html`<tr key=${at}>
      <td><a href=${href("graph", { entity: edge.source, user, show: "list" })}>${visible(edge.source)}</a></td><td>${visible(edge.relation)}</td><td><a href=${href("graph", { entity: edge.target, user, show: "list" })}>${visible(edge.target)}</a></td>
      <td>${visible(edge.valid_from ?? "")}</td><td>${visible(edge.valid_to ?? "")}</td>
      <td>${(edge.refs ?? (edge.ref ? [edge.ref] : [])).slice(0, 3).map((ref) => html`<a key=${ref} class="mono small" href=${href("memories", { ref: ref.replace(/^obs:/, ""), user })}>${visible(ref)}</a> `)}</td></tr>`)}</tbody>
  </table></div>`;
}

"""The client, the tools and the commands take what the models of requests declare, and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
from pydantic import BaseModel, Field, TypeAdapter, create_model

from fusion.client import calls as client
from fusion.doors import schemas
from fusion.doors.cli import ask, look, measure, pack, remember, review, tend
from fusion.doors.cli.mem import facts, grades, graph, standing
from fusion.doors.mcp.server import OWN_TOOLS

MODELS: Mapping[str, type[BaseModel]] = {
    "fuse": schemas.FuseBody,
    "pack": schemas.PackBody,
    "index": schemas.IndexBody,
    "timeline": schemas.TimelineBody,
    "records": schemas.RecordsBody,
    "why": schemas.WhyQuery,
    "compare": schemas.CompareBody,
    "feedback": schemas.FeedbackBody,
    "labels": schemas.LabelsQuery,
    "comparisons": schemas.ComparisonsQuery,
    "keep_comparison": schemas.ComparisonBody,
    "search": schemas.SearchBody,
    "update": schemas.UpdateBody,
    "memory": schemas.Scoped,
    "memories": schemas.MemoriesQuery,
    "document": schemas.DocumentQuery,
    "put_item": schemas.ItemBody,
    "item": schemas.Scoped,
    "forget_item": schemas.Scoped,
    "search_items": schemas.ItemSearchBody,
    "item_namespaces": schemas.ItemNamespacesBody,
    "forget": schemas.Scoped,
    "forget_many": schemas.ForgetBody,
    "forgotten": schemas.ForgottenQuery,
    "undo": schemas.UndoBody,
    "batches": schemas.BatchesQuery,
    "set_state": schemas.StateBody,
    "set_states": schemas.StatesBody,
    "prefix": schemas.PrefixBody,
    "decisions": schemas.DecisionsQuery,
    "trust": schemas.Scoped,
    "plans": schemas.PlansQuery,
    "undo_decision": schemas.UndoDecisionBody,
    "assert_fact": schemas.FactBody,
    "retract_fact": schemas.FactEndBody,
    "current_facts": schemas.FactsQuery,
    "fact_timeline": schemas.FactTimelineQuery,
    "lint_facts": schemas.FactLintQuery,
    "fact_pack": schemas.FactPackBody,
    "proposals": schemas.ProposalsQuery,
    "proposal": schemas.Scoped,
    "approve": schemas.ApproveBody,
    "reject": schemas.RejectBody,
    "extract": schemas.ExtractBody,
    "triage": schemas.TriageQuery,
    "decide_triage": schemas.TriageBody,
    "graph_neighbors": schemas.GraphBody,
    "graph_impact": schemas.GraphBody,
    "graph_path": schemas.GraphPathBody,
    "graph_match": schemas.GraphMatchBody,
    "graph_overview": schemas.GraphOverviewBody,
    "graph_pages": schemas.GraphPagesQuery,
    "card": schemas.CardQuery,
    "refresh_card": schemas.CardBody,
    "lint_cards": schemas.CardLintQuery,
    "sources": schemas.SourcesQuery,
    "retire": schemas.RetireBody,
    "memory_search": schemas.SearchToolBody,
    "memory_get": schemas.GetToolBody,
    "memory_append": schemas.AppendToolBody,
    "daily_logs": schemas.DailyLogsBody,
    "ingest_history": schemas.HistoryBody,
    "hybrid_search": schemas.CortexSearchBody,
    "recall": schemas.CortexQuestion,
    "session_state": schemas.SessionQuery,
    "flush_plan": schemas.FlushBody,
    "receipt": schemas.ReceiptQuery,
    "receipts": schemas.ReceiptsQuery,
    "replay": schemas.ReplayBody,
    "activity": schemas.ActivityQuery,
    "backend_history": schemas.BackendHistoryQuery,
    "status": schemas.Scoped,
    "audit": schemas.AuditQuery,
    "settle": schemas.SettleBody,
    "export": schemas.ExportQuery,
    "import_export": schemas.ImportQuery,
    "lifecycle": schemas.LifecycleBody,
    "grade": schemas.GradeBody,
    "run_job": schemas.RunJobBody,
    "job_log": schemas.JobLogQuery,
    "query_episodes": schemas.EpisodeQueryBody,
    "episode": schemas.Scoped,
    "grade_episode": schemas.EpisodeGradeBody,
    "working_set": schemas.WorkingSetQuery,
    "search_episodes": schemas.EpisodeSearchBody,
    "embed_episodes": schemas.EpisodeEmbedBody,
    "redact_episodes": schemas.EpisodeRedactBody,
}
WITHOUT = {
    "append_episodes",
    "backends",
    "do",
    "health",
    "inspector_link",
    "jobs",
    "pause_job",
    "propose",
    "ready",
    "recipes",
    "rebuild_facts",
    "remember",
    "resume_job",
}
"""calls that take a body of the caller's, or none"""
TOOL_MODELS: Mapping[str, type[BaseModel]] = {
    "memory_fuse": schemas.FuseBody,
    "memory_pack": schemas.PackBody,
    "memory_search": schemas.SearchToolBody,
    "memory_get": schemas.GetToolBody,
    "memory_store": schemas.MemoryBody,
    "memory_propose": schemas.ProposalBody,
    "memory_update": schemas.UpdateBody,
    "memory_append": schemas.AppendToolBody,
    "memory_forget": schemas.ForgetBody,
    "memory_timeline": schemas.TimelineBody,
    "memory_why": schemas.WhyQuery,
    "memory_facts": schemas.FactsQuery,
}
COMMANDS: Mapping[str, tuple[Callable[..., None], type[BaseModel]]] = {
    "fuse": (ask.fuse, schemas.FuseBody),
    "pack": (pack.pack, schemas.PackBody),
    "search": (ask.search, schemas.SearchBody),
    "compare": (measure.compare, schemas.CompareBody),
    "feedback": (measure.feedback, schemas.FeedbackBody),
    "remember": (remember.remember, schemas.MemoryBody),
    "update": (remember.update, schemas.UpdateBody),
    "memories": (look.memories, schemas.MemoriesQuery),
    "forget": (remember.forget, schemas.ForgetBody),
    "forgotten": (look.forgotten, schemas.ForgottenQuery),
    "state": (remember.state, schemas.StateBody),
    "decisions": (look.decisions, schemas.DecisionsQuery),
    "undo": (remember.undo, schemas.UndoBody),
    "assert_fact": (facts.assert_, schemas.FactBody),
    "retract_fact": (facts.retract, schemas.FactEndBody),
    "current_facts": (facts.current, schemas.FactsQuery),
    "fact_timeline": (facts.timeline, schemas.FactTimelineQuery),
    "lint_facts": (facts.lint, schemas.FactLintQuery),
    "fact_pack": (facts.pack, schemas.FactPackBody),
    "graph_neighbors": (graph.neighbors, schemas.GraphBody),
    "graph_impact": (graph.impact, schemas.GraphBody),
    "graph_path": (graph.path, schemas.GraphPathBody),
    "graph_match": (graph.match, schemas.GraphMatchBody),
    "lifecycle": (tend.lifecycle, schemas.LifecycleBody),
    "mem grade": (grades.grade, schemas.GradeBody),
    "mem plans": (standing.plans, schemas.PlansQuery),
    "propose": (review.propose, schemas.ProposalBody),
    "proposals": (review.proposals, schemas.ProposalsQuery),
    "approve": (review.approve, schemas.ApproveBody),
    "reject": (review.reject, schemas.RejectBody),
    "triage": (review.triage, schemas.TriageQuery),
}
CLIENT_NAMES = {
    ("document", "start"): "from",
    ("memory_get", "start"): "from",
    ("memory_search", "max_results"): "maxResults",
    ("memory_search", "min_score"): "minScore",
    ("settle", "wait_s"): "timeout_s",
}
"""names that Python cannot say, or says otherwise"""
COMMAND_NAMES = {
    "user": "user_id",
    "agent": "agent_id",
    "session": "session_id",
    "question": "query",
    "budget": "budget_chars",
    "block_format": "format",
    "backend": "backends",
    "lane": "lanes",
    "archive": "archived",
    "tag": "tags",
    "source": "sources",
    "object_": "object",
    "find": "q",
    "evidence": "derived_from",
}
IN_PATH = {
    ("memory", "ref"),
    ("episode", "ref"),
    ("grade_episode", "ref"),
    *{(name, part) for name in ("put_item", "item", "forget_item") for part in ("namespace", "key")},
    ("why", "ref"),
    ("trust", "ref"),
    ("update", "ref"),
    ("forget", "ref"),
    ("receipt", "receipt_id"),
    ("proposal", "name"),
    ("approve", "name"),
    ("reject", "name"),
    ("run_job", "name"),
    ("import_export", "pieces"),
}
OWN = {
    *{(name, option) for name in COMMANDS for option in ("home", "config", "direct", "as_json", "verbose", "yes")},
    *{("fuse", option) for option in ("asker_agent", "asker_session", "asker_channel")},  # fields of ``asker``
    *{(name, one) for name in ("pack", "memory_fuse", "memory_pack") for one in ("asker_agent", "asker_session")},
    ("pack", "tail_file"),  # tail_text, from a file
    *{(name, "where") for name in ("fuse", "pack", "search", "compare")},  # NAME=VALUE, of the fields of ``where``
    ("compare", "queries"),  # a file of questions
    ("compare", "seed"),
    ("compare", "list_"),  # asks for the stored comparisons instead
    ("compare", "limit"),
    ("compare", "cursor"),
    ("feedback", "export"),  # asks for the labels instead
    ("forget", "recorded"),  # time = "recorded"
    ("undo", "last"),  # says aloud what no id says, too
    ("undo", "run"),  # goes to another route
    ("proposals", "name"),  # in the path of another route
    ("approve", "name"),
    ("reject", "name"),
    ("triage", "item"),  # of the other route
    ("triage", "choice"),
    ("triage", "why"),
    ("update", "ref"),  # in the path of the route
    ("memory_update", "ref"),
    ("memory_get", "ref"),  # a tool's one of two: the path of the route takes both
    ("memory_forget", "ref"),  # one of `refs`
    ("memory_why", "ref"),  # in the path of the route
    ("memory_facts", "history"),  # asks the timeline of facts instead
}
"""what belongs to the command line or to a tool alone"""
DEFAULTS: Mapping[tuple[str, str], object] = {
    ("mcp memory_fuse", "max_results"): 8,  # a model's context is not a prompt's
    ("mcp memory_fuse", "budget_chars"): 6000,
    ("mcp memory_forget", "dry_run"): None,  # true with a query, false with a ref
    ("client settle", "timeout_s"): 30.0,
    ("cli assert_fact", "asserted_by"): "operator",  # who types a command is the owner
    ("cli retract_fact", "asserted_by"): "operator",
    ("client compare", "a"): ...,  # two arms, said one after the other
}
"""defaults of a door's own"""
OPTIONAL = {
    ("mcp memory_get", "path"),  # or ref
    ("cli fuse", "query"),
    ("cli pack", "query"),  # as an argument or an option
    ("cli compare", "query"),  # or --queries
    ("cli compare", "b"),
    ("cli feedback", "receipt_id"),  # or --export
}
"""what a request needs, and a door takes in two ways"""
UPPER, LOWER = ("maximum", "maxLength", "maxItems"), ("minimum", "minLength", "minItems")


@dataclass(frozen=True)
class Parameter:
    """One parameter as JSON Schema has it; ``default`` is ... where it is required."""

    types: frozenset[str]
    default: object
    bounds: Mapping[str, float]

    @classmethod
    def of(cls, schema: Mapping[str, Any], defs: Mapping[str, Any], default: object) -> Parameter:
        types: set[str] = set()
        bounds: dict[str, float] = {}
        parts = [schema]
        while parts:
            part = parts.pop()
            part = defs[part["$ref"].rpartition("/")[2]] if "$ref" in part else part
            parts += [*part.get("anyOf", ()), *part.get("oneOf", ())]
            types |= {part["type"]} if "type" in part else set()
            bounds |= {name: part[name] for name in (*UPPER, *LOWER) if name in part}
        return cls(frozenset(types - {"null"}), list(default) if isinstance(default, tuple) else default, bounds)

    @classmethod
    def hinted(cls, hint: object, default: object) -> Parameter:
        schema = TypeAdapter(hint).json_schema()
        return cls.of(schema, schema.get("$defs", {}), default)


def declared(model: type[BaseModel]) -> dict[str, Parameter]:
    schema = model.model_json_schema()
    needed = schema.get("required", ())
    return {
        name: Parameter.of(one, schema.get("$defs", {}), ... if name in needed else one.get("default"))
        for name, one in schema["properties"].items()
    }


def differences(door: str, name: str, given: Mapping[str, Parameter], model: type[BaseModel]) -> Iterator[str]:
    """What a door takes otherwise than its model; ``given`` is by the model's names."""
    at = f"{door} {name}"
    for parameter, here in given.items():
        there = declared(model).get(parameter)
        if there is None:
            yield f"{parameter}: {model.__name__} has no such field"
            continue
        if not here.types <= there.types | ({"array"} if door == "cli" and there.types == {"string"} else set()):
            yield f"{parameter}: {set(here.types)} here, {set(there.types)} in {model.__name__}"
        for bound in here.bounds.keys() | (there.bounds.keys() if door == "mcp" else set()):
            ours, theirs = here.bounds.get(bound), there.bounds.get(bound)
            if ours is None or (theirs is not None and (ours > theirs if bound in UPPER else ours < theirs)):
                yield f"{parameter}: {bound} {ours} here, {theirs} in {model.__name__}"
        if (at, parameter) in DEFAULTS:
            if here.default != DEFAULTS[at, parameter]:
                yield f"{parameter}: default {here.default!r} here, {DEFAULTS[at, parameter]!r} expected"
        elif there.default is ... and here.default is not ... and (at, parameter) not in OPTIONAL:
            yield f"{parameter}: optional here, required in {model.__name__}"
        elif there.default is not ... and here.default not in (None, there.default):  # None: left to the server
            yield f"{parameter}: default {here.default!r} here, {there.default!r} in {model.__name__}"


def of_signature(function: Callable[..., Any]) -> Iterator[tuple[str, Parameter]]:
    hints = get_type_hints(function, localns={"datetime": datetime}, include_extras=True)
    for name, one in inspect.signature(function).parameters.items():
        if one.kind is not inspect.Parameter.VAR_KEYWORD and name != "pieces":  # the body, sent piece by piece
            yield name, Parameter.hinted(_bounded(hints[name]), ... if one.default is one.empty else one.default)


def _bounded(hint: Any) -> Any:
    """A hint with the bounds of its typer.Option, as pydantic writes them."""
    if get_origin(hint) is not Annotated:
        return hint
    kind, *more = get_args(hint)
    found = {"ge": getattr(more[0], "min", None), "le": getattr(more[0], "max", None)}
    return Annotated[kind, Field(**found)] if any(value is not None for value in found.values()) else kind


def test_every_call_of_the_client_has_a_model() -> None:
    """A new call must be compared, or said to have no parameters of its own."""
    functions = {
        name
        for name, one in vars(client).items()
        if inspect.isfunction(one) and str(inspect.signature(one).return_annotation).startswith("Call[")
    }
    assert functions == MODELS.keys() | WITHOUT


@pytest.mark.feature("the client, the MCP tools and the commands accept the parameters that the requests declare")
@pytest.mark.parametrize("name", MODELS)
def test_the_client_takes_what_the_model_declares(name: str) -> None:
    """Names, types, defaults and what is required; and each field of the model can be said."""
    function = getattr(client, name)
    given = {
        CLIENT_NAMES.get((name, parameter), parameter): one
        for parameter, one in of_signature(function)
        if (name, parameter) not in IN_PATH and parameter not in ("reader", "idempotency_key")  # headers
    }
    assert [*differences("client", name, given, MODELS[name])] == []
    rest = [one for one in inspect.signature(function).parameters.values() if one.kind is one.VAR_KEYWORD]
    unsaid = declared(MODELS[name]).keys() - given.keys()
    assert unsaid <= (
        declared(schemas.Scoped).keys() if rest and rest[0].name == "scope" else unsaid if rest else set()
    )


def test_every_tool_has_a_model() -> None:
    """A new tool must be compared with a request."""
    assert OWN_TOOLS.keys() == TOOL_MODELS.keys()


@pytest.mark.parametrize("name", OWN_TOOLS)
def test_a_tool_takes_what_the_model_declares(name: str) -> None:
    """Names, types, bounds, defaults and what is required."""
    given = {
        {"limit": "maxResults"}.get(parameter, parameter): one
        for parameter, one in declared(OWN_TOOLS[name]).items()
        if (name, parameter) not in OWN
    }
    assert [*differences("mcp", name, given, TOOL_MODELS[name])] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_takes_what_the_model_declares(name: str) -> None:
    """Names, types, bounds, defaults and what is required; but for the options of the command line's own."""
    command, model = COMMANDS[name]
    known = declared(model)
    given = {
        parameter if parameter in known else COMMAND_NAMES.get(parameter, parameter): one
        for parameter, one in of_signature(command)
        if (name, parameter) not in OWN
    }
    assert [*differences("cli", name, given, model)] == []


def test_a_difference_is_noticed() -> None:
    """The comparison would hold of nothing if it let everything pass."""

    def wrong(query: int, max_results: int = 7, colour: str = "") -> None: ...

    given = dict(of_signature(wrong))
    found = " ".join(differences("client", "fuse", given, schemas.FuseBody))
    assert "colour: FuseBody has no such field" in found
    assert "query: {'integer'} here" in found
    assert "max_results: default 7 here, None in FuseBody" in found
    loose = create_model("Loose", query=(str, ""), max_results=(int, Field(default=8, ge=0, le=101)))
    found = " ".join(differences("mcp", "memory_fuse", declared(loose), schemas.FuseBody))
    assert "query: optional here" in found
    assert "maximum 101 here, 100" in found
    assert "minimum 0 here, 1" in found

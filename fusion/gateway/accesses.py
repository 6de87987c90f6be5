"""Notes each call of a request in the access log of its tenant: who did what to which memories, and never a text.

A call is noted once, by the outermost call of a request: what that does inside is part of it. Jobs have receipts of
their own (`fusion jobs log`), and a program that opens a home by itself is its own caller, so neither is noted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import Any

from fusion.contract import Scope
from fusion.journal.access_log import Access, AccessLog
from fusion.journal.external_refs import is_external
from fusion.lib.caller import CALLER, Caller
from fusion.lib.ids import parse_episode_ref, parse_short_ref, short_ref

MAX_REFS = 100
"""refs that an entry names"""
MAX_REF_CHARS = 600
_RECEIPT_ID = re.compile(r"r[0-9a-f]{1,32}")
OK, PREVIEW = "ok", "preview"
BACKEND = "backend"
"""the action of the verbs and drop-in routes that backends bring"""

_CALLS: Mapping[str, str] = {
    "ask": "fuse ask record compare replay pack index timeline search hybrid_search synthesis fact_pack prefix "
    "session_state",
    "read": "memory records document episode item receipt why inspect_trust daily_logs working_set card fact_timeline "
    "proposal memory_file",
    "list": "memories forgotten decisions batches origins plans labels receipts_page query_episodes search_episodes "
    "current_facts lint_facts lint_cards export_graph graph_neighbors graph_impact graph_path graph_match "
    "graph_overview search_items item_namespaces proposals triage accesses",
    "remember": "remember ingest_history append_to_log put_item assert_fact append_episodes propose extract feedback",
    "edit": "update refresh_card promote_memory_file undo_promotion_of_memory_file restore_memory_file",
    "forget": "forget forget_many forget_item undo redact_episodes",
    "state": "set_state set_states undo_decision undo_run approve reject decide_triage retract_fact run_lifecycle "
    "grade grade_episode retire",
    BACKEND: "do serve",
    "export": "export backup",
    "import": "import_export restore",
}
ACTIONS: Mapping[str, str] = {call: action for action, calls in _CALLS.items() for call in calls.split()}
"""the action of each call that is noted"""
NOT_NOTED = frozenset(
    "status backends ready settle activity backend_history recipes_of_home worth_asking_s refs check "
    "comparisons keep_comparison statements_waiting compare_statements read_by_second prune_receipts layers_waiting "
    "write_next_layers "
    "prefix_windows observe_prefix reflect_prefix tend_proposals harvest_episodes expire_episodes embed_episodes "
    "rebuild_facts".split()
)
"""the calls that show and change no memory: states, counts, and the work of jobs"""

_inside: ContextVar[bool] = ContextVar("inside_a_noted_call", default=False)


class Noted:
    """What a call did, for its entry; ``result`` is set if it returns."""

    def __init__(self) -> None:
        self.result: object = None


@contextmanager
def noted(log: AccessLog, call: str, arguments: Mapping[str, Any]) -> Iterator[Noted]:
    """Note a call that runs in the block, with its result or the kind of its error."""
    caller = CALLER.get()
    one = Noted()
    if caller is None or call not in ACTIONS or _inside.get():
        yield one
        return
    token = _inside.set(ACTIONS[call] != BACKEND)  # what a backend's own route asks of the gateway is noted as well
    outcome = PREVIEW if _is_preview(arguments) else OK
    try:
        yield one
    except BaseException as error:
        outcome = type(error).__name__
        raise
    finally:
        _inside.reset(token)
        if not _is_tail_without_news(call, one.result):
            log.note(entry(caller, call, arguments, one.result, outcome))


def entry(caller: Caller, call: str, arguments: Mapping[str, Any], result: object = None, outcome: str = OK) -> Access:
    """The entry of a call."""
    scope = scope_of(arguments) or Scope()
    answer = _receipt_of(result) or _asked_receipt(arguments)
    # The refs of an answer are in its receipt.
    refs = [] if _receipt_of(result) else list(dict.fromkeys([*_asked_refs(arguments), *_refs(result)]))
    return Access(
        time.time(),
        ACTIONS[call],
        _name_of(call, arguments),
        outcome,
        caller.key,
        caller.key_id,
        caller.role,
        caller.door,
        scope.user_id,
        scope.agent_id,
        scope.session_id,
        tuple(ref[:MAX_REF_CHARS] for ref in islice(refs, MAX_REFS)),
        len(refs),
        answer,
        _decision_of(result),
        caller.request_id,
    )


def scope_of(arguments: Mapping[str, Any]) -> Scope | None:
    """The scope that a call's arguments name, themselves or in a request."""
    values = (arguments.get("scope"), arguments.get("fields", {}).get("scope"), arguments.get("request"))
    scopes = (getattr(value, "scope", value) for value in values)
    return next((scope for scope in scopes if isinstance(scope, Scope)), None)


def _name_of(call: str, arguments: Mapping[str, Any]) -> str:
    """The name of a call; of a backend's own also the backend, with its verb or route."""
    if ACTIONS[call] != BACKEND:
        return call
    if (route := arguments.get("route")) is not None:
        return f"{arguments['backend']} {route.method} {route.path}"
    return f"{arguments['backend']} {type(arguments['verb']).__name__.lower()}"


def _is_tail_without_news(call: str, result: object) -> bool:
    """Whether a look at the latest answers has shown none: a page that follows them looks each second, and its entries
    would take the room of all others."""
    return call == "receipts_page" and _member(result, "receipts") == []


def _is_preview(arguments: Mapping[str, Any]) -> bool:
    return arguments.get("dry_run") is True or getattr(arguments.get("request"), "dry_run", None) is True


def _asked_receipt(arguments: Mapping[str, Any]) -> str | None:
    """The id of the receipt that a call names, unless a client has put some other text in its place."""
    asked = _text(arguments.get("receipt_id"))
    return asked if asked is not None and _RECEIPT_ID.fullmatch(asked) else None


def _asked_refs(arguments: Mapping[str, Any]) -> Iterator[str]:
    """The refs that a call names."""
    request = arguments.get("request")
    for source in (arguments.get("ref"), getattr(request, "ref", None)):
        if isinstance(source, str):
            yield from _known_form(source)
    for many in (arguments.get("refs"), getattr(request, "refs", None)):
        if isinstance(many, Sequence) and not isinstance(many, str):
            for one in many:
                yield from _known_form(one)


def canonical(ref: str) -> str | None:
    """The ref as entries have it; None for a text that has not the form of one."""
    if (seq := parse_short_ref(ref)) is not None:
        return short_ref(seq)
    is_ref = parse_episode_ref(ref) is not None or (is_external(ref) and ref.isascii() and ref.isalnum())
    return ref.lower() if is_ref else None


def _known_form(ref: str) -> list[str]:
    """The ref, unless a client has put some other text in its place, which no entry may have."""
    return [] if (one := canonical(ref)) is None else [one]


def _refs(result: object) -> Iterator[str]:
    """The refs of a result: its own, and those of the rows in it."""
    if (own := _text(_member(result, "ref"))) is not None:
        yield own
    if isinstance(result, str | bytes):
        return
    if isinstance(result, Sequence):
        parts: Iterable[object] = [result]
    elif isinstance(result, Mapping):
        parts = result.values()
    else:
        parts = [getattr(result, name, None) for name in getattr(result, "__dataclass_fields__", ())]
    for part in parts:
        if isinstance(part, Sequence) and not isinstance(part, str | bytes):
            for row in part:
                if (ref := _text(_member(row, "ref"))) is not None:
                    yield ref


def _receipt_of(result: object) -> str | None:
    """The id of the receipt of an answer, or of the answer in a result."""
    for one in (result, _member(result, "answer"), _first(result)):
        if (found := _text(_member(one, "receipt_id"))) is not None:
            return found
    return None


def _decision_of(result: object) -> str | None:
    """The id of the decision that a call made."""
    return _text(_member(_member(result, "decision"), "id"))


def _first(result: object) -> object:
    return result[0] if isinstance(result, tuple) and result else None


def _member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None

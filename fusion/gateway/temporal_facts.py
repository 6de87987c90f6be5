"""The calls on an open home about temporal facts: assert and end them, read what holds, lint, pack and rebuild."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fusion import wire
from fusion.contract import Origin, Scope, Trust
from fusion.errors import BadInput, NotFound
from fusion.gateway.in_tenant import in_tenant
from fusion.gateway.parts import TenantParts
from fusion.ingest.intake import NewMemory
from fusion.journal import observations, temporal_facts
from fusion.lib.budget import MAX_BUDGET_TOKENS
from fusion.lib.fact_lines import stated_in
from fusion.lib.fact_lint import issues_of
from fusion.lib.fact_timeline import view
from fusion.lib.ids import EPISODE, parse_short_ref
from fusion.lib.listing import RECORD, record_ref
from fusion.lib.temporal_facts import (
    ENTITY,
    SCHEMA,
    Assertion,
    By,
    Ending,
    FactObject,
    How,
    ObjectType,
    TemporalFact,
    Tier,
    entity_ref,
    object_of,
    predicate_of,
    written,
)
from fusion.recall.context_pack import BUDGET_TOKENS, MAX_ITEMS
from fusion.recall.fact_pack import FactPack, pack_of

MAX_SOURCES = 32
LINT_SUBJECTS = 10_000
"""subjects that one lint reads"""
STALE_SHOWN = 500
"""stale facts in the reply of a lint at most"""


@dataclass(frozen=True, slots=True)
class FactRequest:
    """What to assert. ``sources`` are refs of memories and observations, ``supersedes`` ids of facts."""

    subject: str
    predicate: str
    object: str
    sources: tuple[str, ...]
    scope: Scope
    object_type: ObjectType = "literal"
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    supersedes: tuple[str, ...] = ()
    confidence_tier: Tier | None = None
    asserted_by: By = "agent"


@dataclass(frozen=True, slots=True)
class EndRequest:
    """Which fact ends: ``invalidated`` from ``at``, by default from now on, or ``retracted``, as it never held."""

    fact: str
    scope: Scope
    how: How = "invalidated"
    at: datetime | None = None
    sources: tuple[str, ...] = ()
    asserted_by: By = "agent"


@dataclass(frozen=True, slots=True)
class FactPackRequest:
    """Of which subject to pack the current facts, and the limits."""

    subject: str
    scope: Scope
    budget_tokens: int = BUDGET_TOKENS
    max_items: int = MAX_ITEMS
    include_stale: bool = False


class FactCalls(TenantParts):
    """The calls of an open home about temporal facts, for one tenant."""

    __slots__ = ()

    @in_tenant
    async def assert_fact(self, request: FactRequest, *, is_owner: bool = True) -> wire.FactWritten:
        """Store an assertion as a memory and return the fact that it makes. Raises BadInput and NotFound.

        ``is_owner``: whether the caller may assert as the operator. It takes at least one source that the caller may
        see, and that belongs to one user: the fact is that user's, and no wider than its sources.
        """
        what = _assertion(request, self.live.now(), is_owner=is_owner)
        scope, sources = await self._sources(request.sources, request.scope)
        subject = entity_ref(what.subject)
        for old in what.supersedes:
            if await self.journal.read(temporal_facts.subject_of, old, scope) != subject:
                raise BadInput(f"supersedes: {old} is about another subject than {subject}")
        what = replace(what, sources=sources)
        memory = replace(_memory(f"{what.sentence}.", scope, what), valid_to=what.valid_to)
        return await self._written(memory, subject)

    @in_tenant
    async def retract_fact(self, request: EndRequest, *, is_owner: bool = True) -> wire.FactWritten:
        """Store that a fact ended, or never held, and return it as it is now. Raises BadInput and NotFound."""
        require_operator(request.asserted_by, is_owner=is_owner)
        subject = await self.journal.read(temporal_facts.subject_of, request.fact, request.scope)
        facts = await self._facts(request.scope, [subject])
        fact = next((one for one in facts if one.id == request.fact), None)
        if fact is None:
            raise BadInput(f"fact: {request.fact} is not current any more; `timeline` shows what became of it")
        at = request.at or self.live.now()
        if request.how == "invalidated" and at < fact.valid_from:
            raise BadInput("at: it is before the fact began; use how = retracted for what never held")
        owner = await self.journal.find(fact.ref, request.scope)
        scope, sources = (
            await self._sources(request.sources, request.scope) if request.sources else (owner.event.scope, ())
        )
        end = Ending(fact.id, fact.assertion.subject, request.how, at, sources, request.asserted_by)
        said = "does not hold any more" if request.how == "invalidated" else "never held"
        text = f"It {said} that {fact.assertion.sentence}."
        return await self._written(_memory(text, scope, end), subject, ends=fact.id)

    async def _written(self, memory: NewMemory, subject: str, *, ends: str | None = None) -> wire.FactWritten:
        """Store an assertion or an end; the fact that it made or ended, and what it superseded."""
        (kept,) = await self.intake.remember([memory], tenant=self.tenant, apart=True)
        if not kept.ref:
            raise BadInput(f"the fact was not stored: {kept.reason}")
        facts = await self._facts(replace(memory.scope, audience="private"), [subject])
        made = next(one for one in facts if one.id == ends or (ends is None and one.ref == kept.ref))
        return {
            "writes_performed": True,
            "fact": shown(made),
            "memory": record_ref(kept.ref),
            "superseded": [one.id for one in facts if made.id in one.superseded_by],
        }

    @in_tenant
    async def current_facts(
        self,
        scope: Scope,
        subject: str,
        *,
        predicate: str | None = None,
        at: datetime | None = None,
        include_stale: bool = False,
    ) -> wire.CurrentFacts:
        """The facts about a subject that hold now, or held ``at`` a time, and why others do not. Raises BadInput."""
        ref = entity_ref(subject)
        at = at or self.live.now()
        facts = _of_predicate(await self._facts(scope, [ref]), predicate)
        excluded = [(fact, why) for fact in facts if (why := why_not(fact, at, include_stale=include_stale))]
        out = {fact.id for fact, _ in excluded}
        return {
            "schema": SCHEMA,
            "subject": ref,
            "at": at.isoformat(),
            "facts": [shown(fact) for fact in facts if fact.id not in out],
            "excluded": [{"id": fact.id, "status": fact.status, "reason": why} for fact, why in excluded],
        }

    @in_tenant
    async def fact_timeline(
        self, scope: Scope, subject: str | None = None, *, fact: str | None = None, predicate: str | None = None
    ) -> wire.FactTimeline:
        """All facts about a subject, those that ended too, oldest first; or those of one fact's subject and predicate.

        Raises BadInput, and NotFound for a fact that is not there or out of scope.
        """
        if subject is not None and fact is None:
            ref = entity_ref(subject)
        elif fact is not None and subject is None:
            ref = await self.journal.read(temporal_facts.subject_of, fact, scope)
        else:
            raise BadInput("give a subject, or a fact")
        facts = _of_predicate(await self._facts(scope, [ref]), predicate)
        if fact is not None:
            named = next((one for one in facts if one.id == fact), None)
            if named is None:
                raise NotFound(f"there is no fact {fact!r} here")
            facts = [one for one in facts if one.assertion.predicate == named.assertion.predicate]
        facts.sort(key=lambda fact: (fact.valid_from, fact.recorded_at, fact.id))
        return {"schema": SCHEMA, "subject": ref, "facts": [shown(fact) for fact in facts]}

    @in_tenant
    async def lint_facts(self, scope: Scope) -> wire.FactLint:
        """What is wrong with a scope's facts. ``ok`` means without errors; warnings only make facts weaker."""
        subjects = await self.journal.read(temporal_facts.subjects, scope, LINT_SUBJECTS)
        facts = await self._facts(scope, subjects)
        issues = issues_of(facts)
        errors = sum(issue.severity == "error" for issue in issues)
        stale = [fact for fact in facts if fact.status == "stale"]
        return {
            "schema": SCHEMA,
            "ok": not errors,
            "counts": {
                "facts": len(facts),
                "errors": errors,
                "warnings": len(issues) - errors,
                "stale": len(stale),
            },
            "issues": [
                {
                    "code": one.code,
                    "severity": one.severity,
                    "fact": one.fact,
                    "message": one.message,
                    "other": one.other,
                }
                for one in issues
            ],
            "stale": [shown(fact) for fact in stale[:STALE_SHOWN]],
        }

    @in_tenant
    async def fact_pack(self, request: FactPackRequest) -> FactPack:
        """The current facts about a subject as a context pack, with the reason for each that is left out."""
        if not 1 <= request.budget_tokens <= MAX_BUDGET_TOKENS:
            raise BadInput(f"budget_tokens: give 1 to {MAX_BUDGET_TOKENS}")
        ref, now = entity_ref(request.subject), self.live.now()
        facts = await self._facts(request.scope, [ref])
        excluded = {one.id: why for one in facts if (why := why_not(one, now, include_stale=request.include_stale))}
        current = [one for one in facts if one.id not in excluded]
        return pack_of(ref, current, excluded, now, request.budget_tokens, request.max_items)

    @in_tenant
    async def rebuild_facts(self, tenant: str) -> wire.FactsRebuilt:
        """Delete the table of facts and derive it again from the memories."""
        before, after = await self.journal.write(temporal_facts.rebuild)
        return {"facts": after, "before": before}

    async def _facts(self, scope: Scope, subjects: Sequence[str]) -> list[TemporalFact]:
        """The facts about these subjects that a scope may see, as they are now."""
        asserted = await self.journal.read(temporal_facts.asserted, scope, subjects)
        refs = {one.ref for one in asserted}
        there = await self.journal.find_all(sorted(refs), scope)
        shown_texts = await self.journal.records([record.event.event_id for record in there.values()])
        lines: dict[str, list[Assertion]] = {}
        for record in shown_texts.values():
            lines[record.ref] = stated_in(record.event.text) if not record.forgotten else []
        days = self.settings.facts.stale_after_days
        max_age = timedelta(days=days) if days else None
        kept = [one for one in asserted if not one.is_line or _is_in(one.what, lines.get(one.ref, ()))]
        return view(kept, self.live.now(), max_age)

    async def _sources(self, refs: Sequence[str], scope: Scope) -> tuple[Scope, tuple[str, ...]]:
        """The scope of a fact with these sources, and the sources as they are stored. Raises BadInput and NotFound."""
        if not 1 <= len(refs) <= MAX_SOURCES:
            raise BadInput(f"sources: give 1 to {MAX_SOURCES} memories or observations that say so: obs:m1z, ep:12")
        found = [await self._source(ref, scope) for ref in dict.fromkeys(refs)]
        users = {of.user_id for _, of in found}
        if len(users) > 1:
            raise BadInput("sources: they belong to several users; a fact is one user's")
        private = any(of.audience == "private" for _, of in found)
        scope = replace(scope, user_id=users.pop(), run_id=None, session_id=None)
        return replace(scope, audience="private" if private else "group"), tuple(token for token, _ in found)

    async def _source(self, ref: str, scope: Scope) -> tuple[str, Scope]:
        """One source as it is stored, and whose it is. Raises BadInput and NotFound."""
        if ref.startswith(EPISODE):
            row = await self.journal.read(observations.find, ref, replace(scope, project=None))
            return f"{EPISODE}{row['seq']}", Scope(self.tenant, row["user_id"], audience=row["audience"])
        name = ref.removeprefix(RECORD)
        if parse_short_ref(name) is None:
            raise BadInput(f"sources: {ref[:64]!r} is no ref of a memory; `fusion memories` lists them: obs:m1z")
        record = await self.journal.find(name, scope)
        if record.trust == "quarantined":
            raise BadInput(f"sources: {ref} is quarantined, so nothing may rest on it")
        return record.event.event_id, record.event.scope


def why_not(fact: TemporalFact, at: datetime, *, include_stale: bool) -> str | None:
    """Why a fact is not told as what holds at a time; None if it is."""
    if not fact.holds_at(at):
        return fact.status if fact.status in ("superseded", "invalidated", "retracted") else "outside_interval"
    if include_stale or fact.authoritative:
        return None
    return "; ".join(fact.reasons) or fact.status


def require_operator(by: By, *, is_owner: bool) -> None:
    """Raise BadInput for a caller that asserts as the operator without being the owner."""
    if by == "operator" and not is_owner:
        raise BadInput(
            "asserted_by: only the owner asserts as operator: with the home's token, or an API key with "
            "all_users = true in [[server.keys]]"
        )


def _assertion(request: FactRequest, now: datetime, *, is_owner: bool) -> Assertion:
    require_operator(request.asserted_by, is_owner=is_owner)
    predicate = predicate_of(request.predicate)
    kind = "entity_ref" if request.object.startswith(ENTITY) else request.object_type
    since, until = request.valid_from or now, request.valid_to
    if until is not None and until <= since:
        raise BadInput("valid_to: it is not after valid_from, so the fact would never hold")
    entity_ref(request.subject)
    subject = " ".join(request.subject.removeprefix(ENTITY).split())
    what: FactObject = object_of(predicate, kind, request.object)
    tier, supersedes = request.confidence_tier, tuple(dict.fromkeys(request.supersedes))
    return Assertion(subject, predicate, what, since, until, (), supersedes, tier, request.asserted_by)


_ORIGINS: Mapping[By, Origin] = {"operator": "owner", "agent": "agent", "tool": "tool", "import": "import"}


def _memory(text: str, scope: Scope, what: Assertion | Ending) -> NewMemory:
    """The memory that has an assertion or an end; only what the operator says is trusted."""
    trust: Trust = "trusted" if what.by == "operator" else "unknown"
    return NewMemory(text, scope, "fact", trust=trust, origin=_ORIGINS[what.by], stated=(written(what),))


def _of_predicate(facts: list[TemporalFact], predicate: str | None) -> list[TemporalFact]:
    wanted = None if predicate is None else predicate_of(predicate)
    return [fact for fact in facts if wanted in (None, fact.assertion.predicate)]


def _is_in(what: Assertion | Ending, lines: Sequence[Assertion]) -> bool:
    """Whether a line of a note still states this: statements of a note can be forgotten one by one."""
    return any(replace(line, by=what.by) == what for line in lines)


def shown(fact: TemporalFact) -> wire.TemporalFact:
    """A fact in the shape of the schema."""
    what = fact.assertion
    return {
        "schema": SCHEMA,
        "id": fact.id,
        "subject": {"ref": fact.subject, "label": what.subject},
        "predicate": what.predicate,
        "object": {"type": what.object.type, "value": what.object.value},
        "valid_from": fact.valid_from.isoformat(),
        "valid_to": None if fact.valid_to is None else fact.valid_to.isoformat(),
        "status": fact.status,
        "confidence_tier": fact.tier,
        "source_refs": [{"ref": one.ref, "status": one.status, "trust": one.trust} for one in fact.sources],
        "assertion_ref": {"kind": "memory", "ref": record_ref(fact.ref)},
        "supersedes": list(what.supersedes),
        "superseded_by": list(fact.superseded_by),
        "created_at": fact.recorded_at.isoformat(),
        "asserted_by": what.by,
        "authoritative": fact.authoritative,
        "reasons": list(fact.reasons),
    }

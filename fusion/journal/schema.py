"""The tables of the journal, and the migrations between the versions of its file."""

from __future__ import annotations

from fusion.journal import (
    audit,
    batches,
    browsing,
    cards,
    comparisons,
    conversations,
    distil_queue,
    episodes,
    external_refs,
    fact_rows,
    feedback,
    histories,
    inclusions,
    item_rows,
    jobs,
    layers,
    observations,
    outbox,
    owners,
    prefix,
    proposals,
    retire,
    same_words,
    sessions,
    state,
    statements,
    tombstones,
    use,
    watermark,
)
from fusion.store.rows import EVENT_COLUMNS

_SCHEMA = f"""
create table event(
    seq integer primary key autoincrement, {EVENT_COLUMNS},
    natural text unique, place_key text, forgotten integer not null default 0, superseded_by text
);
create index event_place on event(place_key, seq) where place_key is not null;
create index event_document on event(tenant, user_id, document, place_unit, place_start) where document is not null;
create index event_session on event(tenant, user_id, session_id, seq) where document is null and session_id is not null;
create table delivery(
    seq integer not null references event(seq), backend text not null, state text not null default 'pending',
    native_ids text not null default '[]', attempts integer not null default 0, next_at integer not null default 0,
    reason text,
    primary key(backend, seq)
) without rowid;
create index delivery_open on delivery(backend, state, seq) where state in ('pending', 'forget');
create table tombstone(key text primary key, event_id text not null) without rowid;
create table hidden(
    tenant text not null, document text not null, line text not null, primary key(tenant, document, line)
) without rowid;
create table term(owner text not null, term text not null, n integer not null, primary key(owner, term)) without rowid;
create table owner(owner text primary key, tenant text not null, documents integer not null, length integer not null)
    without rowid;
create table idempotency(
    tenant text not null, key text not null, body text not null, reply text not null, at integer not null,
    primary key(tenant, key)
) without rowid;
create index idempotency_age on idempotency(at);
create table derived(source text not null, event_id text not null, primary key(source, event_id)) without rowid;
"""
_LISTING = """
create index event_tenant on event(tenant, seq);
create index event_user on event(tenant, user_id, seq);
"""
"""indexes for pages of a tenant's or a user's newest memories"""
_STATED = "alter table event add column stated text not null default '[]'"
_FILE = """
alter table event add column file text;
drop index event_document;
create index event_document on event(tenant, user_id, document, place_unit, agent_id, run_id, place_start)
    where document is not null;
"""
"""the file of JSONL that an event was read from; the index finds the first turn of a conversation"""
STEPS = (
    _SCHEMA,
    _LISTING,
    tombstones.SCHEMA + audit.SCHEMA + retire.SCHEMA + external_refs.SCHEMA,
    feedback.SCHEMA,
    distil_queue.SCHEMA,
    _STATED,
    same_words.SCHEMA,
    watermark.SCHEMA,
    tombstones.PER_MEMORY,
    outbox.URGENT,
    batches.SCHEMA,
    same_words.SAID,
    outbox.SENT,
    same_words.SAID_AT,
    _FILE,
    conversations.SCHEMA,
    state.SCHEMA,
    jobs.SCHEMA,
    sessions.SCHEMA,
    use.SCHEMA,
    owners.SCHEMA,
    episodes.SCHEMA,
    statements.SCHEMA,
    state.TAKEN_OVER,
    statements.COMPARED,
    histories.SCHEMA,
    sessions.INJECTED,
    observations.SCHEMA,
    fact_rows.SCHEMA,
    inclusions.SCHEMA,
    prefix.SCHEMA,
    use.RETRIEVED,
    proposals.SCHEMA,
    cards.SCHEMA,
    observations.FEWER_INDEXES,
    layers.SCHEMA,
    item_rows.SCHEMA,
    cards.WORDED,
    sessions.BEGAN,
    browsing.SCHEMA,
    outbox.CLAIMED,
    comparisons.SCHEMA,
    tombstones.QUARANTINED,
    same_words.HASHED,
    outbox.FAILED,
)
"""the migrations: ``STEPS[n]`` leads from version n to n + 1"""

OLDEST = 41
"""the version from which on a program can use a database of the newest one, in PostgreSQL, where gateways of two
versions run at once during an update. A step only adds, and what it adds may be left out by a program that does not
know it: a table, an index, or a column that may be null or has a default. It may drop an index. A step that does more
raises this number to its own version; older gateways then refuse the database"""

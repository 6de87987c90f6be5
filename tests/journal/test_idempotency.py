"""Idempotency keys: a repeated request gets the first reply."""

from __future__ import annotations

import asyncio

import pytest

from fusion.errors import KeyReused
from tests.ingest.helpers import ME, event


async def keyed(journal, key, body, *events):
    return await journal.append(events, guard=("default", key, body), reply=lambda s: [one.ref for one in s])


@pytest.mark.row("A152", "an Idempotency-Key replays the first reply and refuses another body")
@pytest.mark.row(
    "A152", "an Idempotency-Key used again: with the same body, with another, at the same time", part="faults/clients"
)
async def test_an_idempotency_key_replays_its_reply_and_refuses_another_body(journal):
    """The same request gets the first reply as JSON; another request under the key is an error, and keeps nothing."""
    (first,) = await keyed(journal, "k1", "body", event("once"))
    assert await keyed(journal, "k1", "body", event("once")) == f'["{first.ref}"]'
    with pytest.raises(KeyReused):
        await keyed(journal, "k1", "other", event("twice"))
    assert (await journal.frequencies(ME, [])).documents == 1


@pytest.mark.row(
    "A152", "an Idempotency-Key used again: with the same body, with another, at the same time", part="faults/clients"
)
async def test_an_idempotency_key_used_concurrently_is_one_request(journal):
    """Of eight concurrent requests one is executed; seven get its reply."""
    outcomes = await asyncio.gather(*(keyed(journal, "k", "body", event("once")) for _ in range(8)))
    assert sum(isinstance(outcome, str) for outcome in outcomes) == 7
    assert (await journal.frequencies(ME, [])).documents == 1


async def test_an_idempotency_key_belongs_to_its_tenant(journal):
    """The same key of another tenant is another key."""
    await keyed(journal, "k", "body", event("once"))
    outcome = await journal.append([event("else")], guard=("acme", "k", "other"), reply=lambda s: [])
    assert not isinstance(outcome, str)


async def test_an_idempotent_retry_does_not_restore_a_forgotten_memory(journal):
    """The key outlives the memory: the retry of a request that the network lost finds it done."""
    (stored,) = await keyed(journal, "k", "body", event("gone"))
    await journal.forget([stored.ref], ME)
    assert isinstance(await keyed(journal, "k", "body", event("gone")), str)
    assert (await journal.frequencies(ME, [])).documents == 0

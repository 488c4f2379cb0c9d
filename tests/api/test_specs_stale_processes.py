"""A process with a stale cache still acts on the current state."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ledger import Ledger
from ledger.core.grants import Recorded, derived_event_id, derived_grant_id
from ledger.log import streams
from ledger.stores.port import Append, Position, StreamKey
from ledger.stores.store import Answered, Store, append_to
from tests.api.actors import ANN, OpenLedger, events_of, outcome_of, pend
from tests.support.store_calls import answer_with
from tests.support.waiting import wait_until_async

WAIT_S = 5
"""The limit of a wait: enough for any answer, and shorter than the sweep that would find a lost one."""


def before_the_next(ledger: Ledger, method: str, do: Callable[[], Awaitable[object]]) -> None:
    """Run `do`, as another process would, just before the next call of this method reaches the store."""
    store = ledger.store
    original = getattr(store, method)

    async def delayed(*arguments: object) -> object:
        setattr(store, method, original)
        await do()
        return await original(*arguments)

    setattr(store, method, delayed)


def before_the_next_append(ledger: Ledger, do: Callable[[], Awaitable[object]]) -> None:
    """Run `do`, as another process would, just before the next append reaches the store."""
    store = ledger.store
    original = store.post
    sending: set[asyncio.Task[None]] = set()

    async def delayed(append: Append, also_read: tuple[StreamKey, Position] | None) -> Any:
        await do()
        return await append_to(cast("Store", SimpleNamespace(post=original)), append, also_read)

    def post(append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        setattr(store, "post", original)  # noqa: B010 - mypy allows no assignment to a method
        task = asyncio.create_task(answer_with(answered, delayed(append, also_read)))
        sending.add(task)
        task.add_done_callback(sending.discard)

    setattr(store, "post", post)  # noqa: B010 - as above


async def test_an_answer_that_comes_while_a_waiter_subscribes_is_not_missed(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    elsewhere = await open_ledger()
    before_the_next(ledger, "subscribe", lambda: elsewhere.reply("call_1", "once", actor=ANN))
    assert (await session.wait("call_1", timeout=WAIT_S)).outcome == "allowed"


async def test_a_wake_up_that_was_lost_costs_time_and_no_answer(
    open_ledger: OpenLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "SWEEP_SECONDS", 0.05)
    deaf, elsewhere = await open_ledger(), await open_ledger()
    monkeypatch.setattr(deaf.streams, "woken", lambda _: None)
    session = await deaf.session("ses_1")
    await pend(session, "call_1")
    waiting = asyncio.create_task(session.wait("call_1", timeout=WAIT_S))
    await wait_until_async(lambda: session.stream.observed, "the waiter to wait")
    await elsewhere.reply("call_1", "once", actor=ANN)
    assert (await waiting).outcome == "allowed"


async def test_the_grant_of_a_reply_is_written_with_an_id_derived_from_it(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    seen: list[Recorded | None] = []
    project = ledger.streams.project("shop")
    project.observe(seen.append)
    await pend(session, "call_1", always=["git *"])
    await session.reply("call_1", "always")
    written = [one.event_id for one in seen if one is not None]
    assert written == [derived_event_id(derived_grant_id("ses_1", "call_1", 0))]


@pytest.mark.parametrize("folded", [False, True], ids=["knows nothing", "knows both"])
async def test_who_attaches_to_an_allow_looks_whether_its_grant_still_stands(
    ledger: Ledger, open_ledger: OpenLedger, folded: bool
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    elsewhere = await (await open_ledger()).session("ses_1")
    await session.ask("bash", ["git push"], request_id="call_1")
    if folded:
        assert [one.grant.grant_id for one in await elsewhere.approved()] == [made.grant.grant_id]
    await ledger.revoke(made.grant.grant_id)
    assert (await elsewhere.submit("bash", ["git push"], request_id="call_1")).outcome is None
    assert await events_of(session) == ["session_opened", "asked", "reopened"]


async def test_always_releases_by_a_grant_of_the_project_that_another_process_has_just_made(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    await pend(session, "call_1", "git push", always=["git *"])
    await pend(session, "call_2", "git pull", "ls -l")
    elsewhere = await (await open_ledger()).session("ses_1")
    assert await elsewhere.approved() == []
    await ledger.grant_in_project("shop", "bash", "ls *")
    await elsewhere.reply("call_1", "always")
    assert await outcome_of(session, "call_2") == "allowed"


async def test_always_releases_nothing_by_a_grant_of_the_project_that_another_process_has_just_revoked(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "ls *")
    await pend(session, "call_1", "git push", always=["git *"])
    await pend(session, "call_2", "git pull", "ls -l")
    elsewhere = await (await open_ledger()).session("ses_1")
    assert [one.grant.grant_id for one in await elsewhere.approved()] == [made.grant.grant_id]
    await ledger.revoke(made.grant.grant_id)
    await elsewhere.reply("call_1", "always")
    assert await outcome_of(session, "call_2") is None


async def test_a_project_that_changes_twice_while_an_ask_is_judged_is_looked_at_twice(
    ledger: Ledger, open_ledger: OpenLedger
) -> None:
    session = await ledger.session("ses_1", project="shop")
    made = await ledger.grant_in_project("shop", "bash", "git push *")
    elsewhere = await open_ledger()
    # A server's first allow is appended twice: the flags of freezes are verified in between.
    await session.submit("bash", ["git push"])

    async def revoked_now_and_granted_again_a_moment_later() -> None:
        await elsewhere.revoke(made.grant.grant_id)
        before_the_next_append(ledger, lambda: elsewhere.grant_in_project("shop", "bash", "git *"))

    before_the_next_append(ledger, revoked_now_and_granted_again_a_moment_later)
    assert (await session.submit("bash", ["git push"])).outcome == "allowed"
    assert await events_of(session) == ["session_opened", "asked", "asked", "reopened", "replied"]

"""Requests and grants found by their ids: by the views' index, which never hides what a projector has not come to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from ledger import InputError, Ledger, UnknownGrantError, UnknownRequestError
from ledger.client import lookups
from ledger.log.stream import Stream
from ledger.log.surveys import Survey, survey
from ledger.log.viewed import ViewLag, streams_behind
from ledger.session.state import SessionState
from ledger.stores.keys import PROJECTORS
from ledger.stores.port import START, StreamKey
from ledger.stores.store import Store
from projections.engine import Engine
from projections.lag import uncounted
from tests.support.backends import answer_to, append_of
from tests.support.store_calls import drop_all_views
from tests.support.waiting import wait_until_async
from workers.projector import Pace, run

SES_1 = StreamKey("session", "ses_1")


@asynccontextmanager
async def projecting(ledger: Ledger) -> AsyncIterator[None]:
    """A projector of this process; at the end it has come to everything."""
    stop = asyncio.Event()
    worker = asyncio.create_task(run(ledger, stop, Pace(feed_seconds=0.01)))
    try:
        yield
        await wait_until_async(lambda: has_come_to_all(ledger), "the projector has come to everything")
    finally:
        stop.set()
        await worker


async def has_come_to_all(ledger: Ledger) -> bool:
    return await ledger.store.unacknowledged(PROJECTORS, {}, 1) == [] and await uncounted(ledger.store) == []


@pytest.fixture
async def walks(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the store's calls that walk over all streams or all waiting sessions."""
    made: list[str] = []
    walk, due = ledger.store.streams_page, ledger.store.due

    async def streams_page(*arguments: Any, **named: Any) -> tuple[list[StreamKey], str]:
        made.append("streams")
        return await walk(*arguments, **named)

    async def due_sessions(*arguments: Any) -> list[tuple[str, int | None]]:
        made.append("due")
        return await due(*arguments)

    monkeypatch.setattr(ledger.store, "streams_page", streams_page)
    monkeypatch.setattr(ledger.store, "due", due_sessions)
    return made


async def three_sessions(ledger: Ledger) -> None:
    for number in (1, 2, 3):
        session = await ledger.session(f"ses_{number}", project="shop")
        await session.submit("bash", [f"run {number}"], always=["run *"], request_id=f"call_{number}")


async def test_a_request_is_found_without_a_walk_whether_pending_settled_or_unknown(
    ledger: Ledger, walks: list[str]
) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
        await ledger.reply("call_2", "once", session_id="ses_2")
    walks.clear()
    assert await ledger.sessions_of("call_1") == ["ses_1"]
    assert await ledger.sessions_of("call_2") == ["ses_2"]
    assert await ledger.sessions_of("call_4") == []
    assert (await ledger.reply("call_2", "once")).outcome == "allowed"
    assert walks == []


async def test_a_request_that_no_projector_has_come_to_is_found_by_its_line(ledger: Ledger, walks: list[str]) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
    walks.clear()
    late = await ledger.session("ses_late")
    await late.submit("bash", ["late"], request_id="call_late")
    await late.reply("call_late", "once", actor="ann")
    assert await ledger.sessions_of("call_late") == ["ses_late"]
    assert walks == []


async def test_an_id_in_a_session_that_is_ahead_of_the_views_is_ambiguous_all_the_same(ledger: Ledger) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
    await (await ledger.session("ses_late")).submit("bash", ["late"], request_id="call_1")
    with pytest.raises(InputError, match="known in several sessions: `ses_1`, `ses_late`"):
        await ledger.reply("call_1", "once")


async def test_without_a_projector_all_is_found(ledger: Ledger) -> None:
    await three_sessions(ledger)
    settled = await ledger.session("ses_settled")
    await settled.submit("bash", ["x"], request_id="call_settled")
    await settled.reply("call_settled", "once", actor="ann")
    for request_id, session in (("call_1", "ses_1"), ("call_settled", "ses_settled")):
        assert await ledger.sessions_of(request_id) == [session]
    made = await settled.grant("bash", "make *")
    assert await ledger.stream_of_grant(made.grant.grant_id) == StreamKey("session", "ses_settled")


async def test_after_views_were_dropped_all_is_found(ledger: Ledger) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
        await ledger.reply("call_2", "once", session_id="ses_2")
        made = await ledger.grant_in_project("shop", "bash", "make *")
    for partition in range(ledger.store.partition_count):
        await drop_all_views(ledger.store, partition)
    assert await ledger.sessions_of("call_2") == ["ses_2"]
    assert await ledger.stream_of_grant(made.grant.grant_id) == StreamKey("project", "shop")
    async with projecting(ledger):
        pass
    assert await uncounted(ledger.store) == []


async def test_a_session_with_pending_requests_comes_before_those_without(ledger: Ledger) -> None:
    async with projecting(ledger):
        for number in (1, 2):
            await (await ledger.session(f"ses_{number}")).submit("bash", ["x"], request_id="call_1")
        await ledger.reply("call_1", "once", session_id="ses_1")
    assert await ledger.sessions_of("call_1") == ["ses_2"]


async def test_an_id_that_very_many_sessions_have_is_found_where_it_is_pending(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lookups, "KNOWN_IN_MAX", 2)
    async with projecting(ledger):
        for number in range(6):
            session = await ledger.session(f"ses_{number}")
            await session.submit("bash", ["x"], request_id="call_1")
            if number != 5:
                await session.reply("call_1", "once", actor="ann")
    assert await ledger.sessions_of("call_1") == ["ses_5"]
    async with projecting(ledger):
        await ledger.reply("call_1", "once", session_id="ses_5")
    some = set(await ledger.sessions_of("call_1"))
    assert len(some) == 2
    assert some < {f"ses_{number}" for number in range(6)}


async def test_a_grant_is_found_without_a_walk_also_a_revoked_and_an_unknown_one(
    ledger: Ledger, walks: list[str]
) -> None:
    async with projecting(ledger):
        own = await (await ledger.session("ses_1")).grant("bash", "git *")
        shared = await ledger.grant_in_project("shop", "bash", "make *")
        await ledger.revoke(shared.grant.grant_id)
    walks.clear()
    assert await ledger.stream_of_grant(own.grant.grant_id) == SES_1
    assert await ledger.stream_of_grant(shared.grant.grant_id) == StreamKey("project", "shop")
    late = await ledger.grant_in_project("shop", "bash", "npm *")
    assert await ledger.revoke(late.grant.grant_id) == StreamKey("project", "shop")
    with pytest.raises(UnknownGrantError):
        await ledger.stream_of_grant("grn_none")
    assert walks == ["due"], "a grant of the project releases what waits there"


async def test_the_uses_of_a_project_s_grant_are_found_in_the_sessions_that_used_it(
    ledger: Ledger, walks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async with projecting(ledger):
        made = await ledger.grant_in_project("shop", "bash", "git *")
        for number in range(6):
            session = await ledger.session(f"ses_{number}", project="shop")
            await session.submit("bash", ["git push" if number % 2 else "make"], request_id="call_1")
    late = await ledger.session("ses_late", project="shop")
    await late.submit("bash", ["git pull"], request_id="call_1")
    walks.clear()
    read: list[str] = []
    session_of = ledger.streams.session

    def reading(name: str) -> Stream[SessionState]:
        read.append(name)
        return session_of(name)

    monkeypatch.setattr(ledger.streams, "session", reading)
    uses = await ledger.uses_of(made.grant.grant_id)
    assert [one.session for one in uses.rows] == ["ses_1", "ses_3", "ses_5", "ses_late"]
    assert (set(read), walks) == ({"ses_1", "ses_3", "ses_5", "ses_late"}, [])
    for partition in range(ledger.store.partition_count):
        await drop_all_views(ledger.store, partition)
    assert [one.session for one in (await ledger.uses_of(made.grant.grant_id)).rows] == [
        "ses_1",
        "ses_3",
        "ses_5",
        "ses_late",
    ]


async def test_a_stream_that_cannot_be_read_is_named_where_an_id_is_unknown(ledger: Ledger) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
        damaged = StreamKey("session", "ses_bad")
        await answer_to(ledger.store, append_of(b"no event", key=damaged, after=START))
    with pytest.raises(UnknownRequestError, match=r"no session has a request `call_9`.*not read: `session:ses_bad`"):
        await ledger.reply("call_9", "once")
    assert await ledger.sessions_of("call_1") == ["ses_1"]


async def test_a_part_of_an_id_answers_nothing_and_the_error_names_the_ids_that_begin_so(ledger: Ledger) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
        made = await ledger.grant_in_project("shop", "bash", "make *", grant_id="grn_12345")
    with pytest.raises(UnknownRequestError) as unknown:
        await ledger.reply("call_", "once")
    assert unknown.value.text == (
        "no session has a request `call_`; pending requests whose id begins so: "
        "`call_1` in `ses_1`, `call_2` in `ses_2`, `call_3` in `ses_3`"
    )
    with pytest.raises(UnknownGrantError, match="grants in force whose id begins so: `grn_12345` in `project:shop`"):
        await ledger.revoke(made.grant.grant_id[:6])
    with pytest.raises(UnknownRequestError, match=r"^no session has a request `cal`$"):
        await ledger.reply("cal", "once")


async def test_a_part_of_an_id_finds_only_what_is_pending_or_in_force(ledger: Ledger) -> None:
    async with projecting(ledger):
        await three_sessions(ledger)
        for number in (1, 2):
            await ledger.grant_in_project("shop", "bash", f"make {number}", grant_id=f"grn_1234{number}")
        await ledger.reply("call_2", "once", session_id="ses_2")
        await ledger.revoke("grn_12341")
    with pytest.raises(UnknownRequestError, match=r"begins so: `call_1` in `ses_1`, `call_3` in `ses_3`$"):
        await ledger.reply("call_", "once")
    with pytest.raises(UnknownGrantError, match=r"begins so: `grn_12342` in `project:shop`$"):
        await ledger.revoke("grn_1234")


async def test_an_id_that_begins_as_a_known_one_does_is_unknown(ledger: Ledger, walks: list[str]) -> None:
    async with projecting(ledger):
        await (await ledger.session("ses_1")).submit("bash", ["x"], request_id="call_12")
        await ledger.grant_in_project("shop", "bash", "make *", grant_id="grn_12")
    walks.clear()
    with pytest.raises(UnknownRequestError):
        await ledger.reply("call_1", "once")
    with pytest.raises(UnknownGrantError):
        await ledger.stream_of_grant("grn_1")
    assert walks == []


@pytest.mark.parametrize("text", ["", "a b", "call_1\nses_1", "\udce9call", "x" * 300])
async def test_what_cannot_be_an_id_is_an_unknown_request(ledger: Ledger, text: str) -> None:
    await three_sessions(ledger)
    with pytest.raises(UnknownRequestError):
        await ledger.reply(text, "once")


async def add_to_each(ledger: Ledger) -> list[StreamKey]:
    """Let a later request come to each of three sessions, with its line in a feed that no projector reads."""
    async with projecting(ledger):
        await three_sessions(ledger)
    for number in (1, 2, 3):
        await (await ledger.attach(f"ses_{number}")).submit("bash", ["late"], request_id=f"late_{number}")
    return [StreamKey("session", f"ses_{number}") for number in (1, 2, 3)]


async def test_of_many_streams_with_a_line_only_those_that_are_ahead_of_their_views_are_read(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = await add_to_each(ledger)
    for key in keys[:2]:
        await Engine(ledger.store).catch_up(key)
    read: list[StreamKey] = []

    async def reading(wanted: Iterable[StreamKey], one: Callable[[StreamKey], Awaitable[Any]]) -> Survey[Any]:
        read.extend(wanted := list(wanted))
        return await survey(wanted, one)

    monkeypatch.setattr(lookups, "survey", reading)
    monkeypatch.setattr(lookups, "UNPROJECTED_MAX", 1)
    assert await ledger.sessions_of("late_3") == ["ses_3"]
    assert read == keys[2:]
    read.clear()
    assert await ledger.sessions_of("late_1") == ["ses_1"]
    assert read == [keys[0], keys[2]]


async def test_what_is_projected_between_the_looks_is_found(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    await add_to_each(ledger)

    async def after_the_projector(store: Store, keys: Sequence[StreamKey]) -> dict[StreamKey, ViewLag]:
        for key in keys:
            await Engine(store).catch_up(key)
        return await streams_behind(store, keys)

    monkeypatch.setattr(lookups, "streams_behind", after_the_projector)
    monkeypatch.setattr(lookups, "UNPROJECTED_MAX", 1)
    assert await ledger.sessions_of("late_2") == ["ses_2"]

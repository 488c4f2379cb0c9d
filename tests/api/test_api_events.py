"""A session's past and present events, one by one, and its states."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from redis.asyncio import Redis

from ledger import Ledger, UnknownSessionError
from ledger.log.history import LoggedEvent
from ledger.testing import TestClock
from tests.api.actors import ANN, OpenLedger, pend, raised, text_of_input_error
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async


class Reader:
    """Follows a session in a task of its own."""

    def __init__(self, events: AsyncIterator[LoggedEvent]) -> None:
        self.seen: list[LoggedEvent] = []
        self._task = asyncio.create_task(self._read(events), name="reader")

    async def _read(self, events: AsyncIterator[LoggedEvent]) -> None:
        async for event in events:
            self.seen.append(event)

    @property
    def versions(self) -> list[int]:
        return [event.version for event in self.seen]

    async def until(self, version: int) -> None:
        await wait_until_async(lambda: self.versions[-1:] == [version], f"version {version}, saw {self.versions}")

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])


async def test_events_come_as_they_happen_also_from_other_processes(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1")
    reader = Reader(session.events())
    await reader.until(1)
    elsewhere = await (await open_ledger()).session("ses_1")
    await pend(elsewhere, "call_1")
    await session.reply("call_1", "once", actor=ANN)
    await reader.until(3)
    assert [event.type for event in reader.seen] == ["session_opened", "asked", "replied"]
    await reader.stop()


async def test_events_resume_after_the_last_version_that_was_seen(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await session.reply("call_1", "once")
    assert [event.version async for event in session.events(1, follow_on=False)] == [2, 3]
    reader = Reader(session.events(2))
    await reader.until(3)
    await pend(session, "call_2")
    await reader.until(4)
    assert reader.versions == [3, 4]
    await reader.stop()


async def test_two_readers_of_one_session_each_see_everything_once(ledger: Ledger, open_ledger: OpenLedger) -> None:
    session = await ledger.session("ses_1")
    here, there = Reader(session.events()), Reader((await (await open_ledger()).attach("ses_1")).events())
    for number in range(20):
        await pend(session, f"call_{number}", f"ls {number}")
    await here.until(21)
    await there.until(21)
    assert here.versions == there.versions == list(range(1, 22))
    assert [event.as_json() for event in here.seen] == [event.as_json() for event in there.seen]
    await here.stop()
    await there.stop()


async def test_a_reader_that_left_is_told_nothing_more(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    reader = Reader(session.events())
    await reader.until(1)
    await reader.stop()
    await pend(session, "call_1")
    assert (reader.versions, session.stream.observed) == ([1], False)


async def test_events_are_seen_once_each_across_lost_connections(
    server: RealServer, onlooker: Redis, clock: TestClock
) -> None:
    async with (
        Ledger.connect(server.url, clock=clock, entry_points=False) as ledger,
        Ledger.connect(server.url, clock=clock, entry_points=False) as elsewhere,
    ):
        reader = Reader((await ledger.session("ses_1")).events())
        await reader.until(1)
        writer = await elsewhere.attach("ses_1")
        for number in range(5):
            await onlooker.execute_command("CLIENT", "KILL", "TYPE", "pubsub")  # type: ignore[no-untyped-call]
            await onlooker.execute_command("CLIENT", "KILL", "TYPE", "normal")  # type: ignore[no-untyped-call]
            await pend(writer, f"call_{number}", f"ls {number}")
        await reader.until(6)
        assert reader.versions == [1, 2, 3, 4, 5, 6]
        await reader.stop()


async def test_a_large_event_reaches_readers_that_are_sent_only_its_id(ledger: Ledger) -> None:
    session = await ledger.session("ses_1")
    reader = Reader(session.events())
    await reader.until(1)
    await pend(session, "call_1", metadata={"diff": "x" * 100_000})
    await reader.until(2)
    shown = reader.seen[-1].as_json()["event"]["detail"]["metadata"]
    assert shown == {"diff": "x" * 100_000}
    await reader.stop()


async def test_the_json_of_an_event_says_when_who_and_what(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    clock.advance("90s")
    await session.reply("call_1", "reject", actor=ANN, message="no")
    [event] = [event async for event in session.events(2, follow_on=False)]
    assert event.as_json() == {
        "id": "1800000090000-3",
        "version": 3,
        "type": "replied",
        "at": "2027-01-15T08:01:30.000Z",
        "actor": {"kind": "person", "name": "ann"},
        "event": {
            "type": "replied",
            "request_id": "call_1",
            "reply": "reject",
            "outcome": "corrected",
            "detail": {"message": "no"},
        },
    }


async def test_the_state_of_a_session_can_be_had_as_of_a_version_or_a_time(ledger: Ledger, clock: TestClock) -> None:
    session = await ledger.session("ses_1")
    clock.advance("1s")
    await pend(session, "call_1")
    clock.advance("1s")
    await session.reply("call_1", "once")
    moments = [
        await ledger.state_at("ses_1", at)
        for at in (1, 2, 3, None, "2027-01-15T08:00:00.999Z", "2027-01-15T08:00:01Z", "2027-01-15T09:00:01.500+01:00")
    ]
    assert [(moment.version, list(moment.state.pending), list(moment.state.settled)) for moment in moments] == [
        (1, [], []),
        (2, ["call_1"], []),
        (3, [], ["call_1"]),
        (3, [], ["call_1"]),
        (1, [], []),
        (2, ["call_1"], []),
        (2, ["call_1"], []),
    ]
    assert moments[3].state == await session.state()


async def test_there_is_no_state_before_the_beginning_and_none_beyond_the_end(ledger: Ledger) -> None:
    await ledger.session("ses_1")
    before = await raised(ledger.state_at("ses_1", "2026-01-01T00:00:00Z"))
    assert isinstance(before, UnknownSessionError)
    assert before.text == "session `ses_1` began at 2027-01-15T08:00:00.000Z, after `2026-01-01T00:00:00Z`"
    assert (await raised(ledger.state_at("ses_9"))).text == "there is no session `ses_9`"
    assert await text_of_input_error(ledger.state_at("ses_1", 7)) == "session `ses_1` has 1 versions, not 7"
    assert await text_of_input_error(ledger.state_at("ses_1", "yesterday")) == (
        "`yesterday` is not a time; write it like `2026-11-21T10:12:00.000Z`"
    )


async def test_what_really_ran_is_noted_and_compared_with_what_was_asked(ledger: Ledger) -> None:
    from ledger.core.requests import make_question  # noqa: PLC0415 - the input of a bridge

    session = await ledger.session("ses_1")
    await pend(session, "call_1", "git push")
    await session.reply("call_1", "once")
    await session.note_tool_finished("call_1", ran=make_question("bash", ["git push"]))
    await session.note_tool_finished("call_1", ok=False, ran=make_question("bash", ["git push --force"]))
    noted = [event.as_json()["event"] async for event in session.events(3, follow_on=False)]
    assert [(one["type"], one.get("ok", True), one["as_asked"]) for one in noted] == [
        ("tool_finished", True, True),
        ("tool_finished", False, False),
    ]


@pytest.mark.parametrize("result", ["sent", "failed", "withdrawn"])
async def test_notifications_are_noted(ledger: Ledger, result: str) -> None:
    session = await ledger.session("ses_1")
    await pend(session, "call_1")
    await session.note_notification("call_1", "ntfy", result, text="may bash run?", target="ann's phone")
    [noted] = [event.as_json()["event"] async for event in session.events(2, follow_on=False)]
    assert noted == {
        "type": "notification",
        "request_id": "call_1",
        "service": "ntfy",
        "result": result,
        "detail": {"text": "may bash run?", "target": "ann's phone"},
    }


async def test_what_is_pending_anywhere_is_listed_nearest_deadline_first(ledger: Ledger, clock: TestClock) -> None:
    from ledger import Timeouts  # noqa: PLC0415 - only here

    for session_id, unattended in [("ses_1", 300), ("ses_2", None), ("ses_3", 100)]:
        session = await ledger.session(session_id, timeouts=Timeouts(unattended=unattended, cap=None))
        await pend(session, f"call_{session_id}")
    assert [one.session for one in await ledger.pending()] == ["ses_3", "ses_1", "ses_2"]
    assert sorted([name async for name in ledger.sessions()]) == ["ses_1", "ses_2", "ses_3"]

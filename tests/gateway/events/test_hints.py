"""The stream of the whole ledger: which requests of which sessions changed, within the reader's reach, in batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ledger import Ledger
from ledger.core.errors import StoreError
from ledger.stores.port import StreamKey, WakeUp
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served
from tests.gateway.events.listening import brief, listening
from workers.gateway.events import hints, streams
from workers.gateway.events.hints import ChangeWatch
from workers.gateway.events.streams import EventQueue

RULES = [{"permission": "bash", "pattern": "ls*", "action": "allow"}]
SECRET = "deploy hunter-two"


@pytest.fixture
async def opened(gateway: Served) -> Caller:
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    await agent.put("/v1/sessions/ses_1", {"project": "shop", "rules": RULES})
    return agent


async def test_a_reader_is_told_which_requests_change_and_nothing_that_they_hold(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", request_id="r1", always=["git push *"])
    async with listening(ann, "/v1/events") as reader:
        assert [one.name for one in await reader.named("stream.open")] == ["stream.open"]
        await opened.ask("ses_1", "ls -l", request_id="r2")
        await opened.ask("ses_1", SECRET, request_id="r3")
        await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "session"})
        await opened.post("/v1/sessions/ses_1/asks/r3/cancel", {"reason": SECRET})
        await opened.post("/v1/sessions/ses_1/close", {})
        told = await reader.named("session.closed")
    assert [brief(one)[::2] for one in told] == [
        ("permission.decided", "r2"),
        ("permission.asked", "r3"),
        ("permission.replied", "r1"),
        ("grant.created", told[3].data["grant_id"]),
        ("permission.cancelled", "r3"),
        ("session.closed", None),
    ]
    assert [one.data["version"] for one in told] == [3, 4, 5, 6, 7, 8]
    assert told[1].data == {
        "session": "ses_1",
        "project": "shop",
        "request_id": "r3",
        "version": 4,
        "at": told[1].data["at"],
    }
    assert {one.last_id for one in told} == {None}


async def test_what_a_reader_is_told_of_can_be_read_one_by_one(
    opened: Caller, ann: Caller, gateway: Served, clock: TestClock
) -> None:
    await opened.ask("ses_1", request_id="r1")
    await opened.ask("ses_1", request_id="r2")
    one = "/v1/pending?session=ses_1&request=r1"
    (row,) = [each for each in (await ann.get("/v1/pending")).json()["pending"] if each["request_id"] == "r1"]
    found = (await ann.get(one)).json()
    assert (found["pending"], found["settled"]) == ([row], [])
    await ann.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    found = (await ann.get(one)).json()
    (settled,) = found["settled"]
    assert (found["pending"], settled["outcome"], settled["by"], settled["project"]) == ([], "allowed", "ann", "shop")
    assert settled["request"]["patterns"] == row["patterns"]
    clock.advance("8d")
    (late,) = (await ann.get("/v1/pending?session=ses_1&request=r2")).json()["settled"]
    assert late["outcome"] == "expired", "its deadline has passed, though nobody has written so"
    stranger = await gateway.caller("auditor", "stranger", projects=("other",))
    for caller, address in (
        (stranger, one),
        (ann, "/v1/pending?session=ses_1&request=none"),
        (ann, "/v1/pending?session=none&request=r1"),
    ):
        empty = (await caller.get(address)).json()
        assert (empty["pending"], empty["settled"]) == ([], [])
    assert (await ann.get("/v1/pending?request=r1")).status_code == 422


async def test_a_client_that_comes_moves_deadlines_of_which_readers_are_told(
    opened: Caller, ann: Caller, clock: TestClock
) -> None:
    for number in (1, 2):
        await opened.ask("ses_1", request_id=f"r{number}")
    async with listening(ann, "/v1/events") as reader:
        await reader.named("stream.open")
        clock.advance("1d")
        await ann.put("/v1/sessions/ses_1/clients/phone")
        told = await reader.until(lambda one: one.data.get("request_id") == "r2")
    assert [brief(one)[::2] for one in told] == [
        ("client.connected", None),
        ("permission.deadline_moved", "r1"),
        ("permission.deadline_moved", "r2"),
    ]


async def test_a_grant_of_a_project_is_told_to_who_sees_the_project(gateway: Served, admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"project": "shop"})
    seeing = await gateway.caller("auditor", "in", projects=("shop",))
    elsewhere = await gateway.caller("auditor", "out", projects=("other",))
    in_session = await gateway.caller("auditor", "bound", sessions=("ses_1",))
    async with (
        listening(seeing, "/v1/events") as one,
        listening(elsewhere, "/v1/events") as two,
        listening(in_session, "/v1/events") as three,
    ):
        for reader in (one, two, three):
            await reader.named("stream.open")
        made = await admin_caller.post("/v1/grants", {"project": "shop", "permission": "bash", "patterns": ["x *"]})
        grant = made.json()["grants"][0]["grant_id"]
        await admin_caller.delete(f"/v1/grants/{grant}?reason=over")
        await admin_caller.put("/v1/sessions/ses_2", {"project": "other"})
        await admin_caller.post("/v1/sessions/ses_1/close", {})
        assert [brief(told) for told in await one.named("session.closed")] == [
            ("grant.created", None, grant),
            ("grant.revoked", None, grant),
            ("session.closed", "ses_1", None),
        ]
        assert [brief(told)[:2] for told in await two.named("session.opened")] == [("session.opened", "ses_2")]
        assert [brief(told)[:2] for told in await three.named("session.closed")] == [("session.closed", "ses_1")]


@pytest.mark.parametrize(
    ("filter_", "expected"),
    [
        ("", ["r1", "r2", "r3", "r4"]),
        ("?project=shop", ["r1", "r2", "r3"]),
        ("?tree=ses_1", ["r1", "r2"]),
        ("?session=ses_1", ["r1"]),
        ("?agent=helper", ["r2"]),
        ("?agent=helper&project=other", []),
    ],
)
async def test_a_filter_lets_through_what_it_names_and_nothing_else(
    gateway: Served, admin_caller: Caller, filter_: str, expected: list[str]
) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {"project": "shop"})
    await admin_caller.put("/v1/sessions/child", {"project": "shop", "parent": "ses_1", "agent": "helper"})
    await admin_caller.put("/v1/sessions/ses_3", {"project": "shop"})
    await admin_caller.put("/v1/sessions/ses_4", {"project": "other"})
    asked = list(zip(("ses_1", "child", "ses_3", "ses_4"), ("r1", "r2", "r3", "r4"), strict=True))
    async with listening(admin_caller, f"/v1/events{filter_}") as reader, listening(admin_caller, "/v1/events") as all_:
        await reader.named("stream.open")
        await all_.named("stream.open")
        for session, request in asked:
            await admin_caller.ask(session, request_id=request)
        seen = [(await reader.named("permission.asked"))[-1].data["request_id"] for _ in expected]
        await all_.until(lambda one: one.data.get("request_id") == "r4")
    assert seen == expected


async def test_hints_come_in_batches(opened: Caller, ann: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    assert streams.BATCH_SECONDS >= 0.25
    puts: list[int] = []
    put = EventQueue.put

    def noted(self: EventQueue, some: bytes) -> None:
        puts.append(some.count(b"event: "))
        put(self, some)

    monkeypatch.setattr(EventQueue, "put", noted)
    async with listening(ann, "/v1/events") as reader:
        await reader.named("stream.open")
        await opened.ask("ses_1", request_id="r0")
        await reader.named("permission.asked")
        for number in range(1, 6):
            await opened.ask("ses_1", request_id=f"r{number}")
        await reader.until(lambda one: one.data.get("request_id") == "r5")
    assert puts[0] == 1
    assert sum(puts) == 6
    assert len(puts) < 6


@pytest.mark.parametrize("ends", [False, True])
async def test_who_takes_nothing_gets_one_event_in_place_of_all(ends: bool) -> None:
    queue = EventQueue(10_000, b"instead", ends=ends)
    chunks = queue.chunks(lambda: b"heartbeat")
    for _ in range(4):
        queue.put(b"x" * 4_000)
    queue.put(b"more")
    told = [chunk async for chunk in chunks] if ends else [await anext(chunks)]
    assert told == ([b"instead"] if ends else [b"instead" + b"x" * 4_000 + b"more"])
    await chunks.aclose()


async def test_a_reader_that_takes_nothing_is_told_to_read_again(
    opened: Caller, ann: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "HINTS_BYTES_MAX", 10)
    async with listening(ann, "/v1/events") as reader:
        await reader.named("stream.open")
        await opened.ask("ses_1", request_id="r1")
        assert [one.name for one in await reader.named("resync")] == ["resync"]


async def test_after_a_lost_connection_readers_are_told_to_read_again(
    opened: Caller, ann: Caller, gateway: Served
) -> None:
    async with listening(ann, "/v1/events") as reader:
        await reader.named("stream.open")
        gateway.ledger.streams.gap(0)
        assert [one.name for one in await reader.named("resync")] == ["resync"]
        await opened.ask("ses_1", request_id="r1")
        assert [one.name for one in await reader.named("permission.asked")] == ["permission.asked"]


async def test_nothing_is_noted_while_nobody_listens(ledger: Ledger) -> None:
    changes = ChangeWatch(ledger, lambda: False)
    await changes.begin()
    try:
        await (await ledger.session("ses_1")).submit("bash", ["make"])
        assert await changes.take() == ([], False)
    finally:
        await changes.close()


# --- wake-ups that are lost, or bring no entries ------------------------------------------------------------------


class DeafWatch(ChangeWatch):
    """A watch that hears of no wake-up, except those that a test passes on."""

    def _woken(self, wake_up: WakeUp) -> None:
        pass

    async def told(self) -> list[tuple[str, int, str]]:
        found, _ = await self.take()
        return [(one.key.id, one.at.version, one.name) for one in found]


@pytest.fixture
async def deaf(ledger: Ledger) -> AsyncIterator[DeafWatch]:
    changes = DeafWatch(ledger, lambda: True)
    try:
        yield changes
    finally:
        await changes.close()


async def test_events_whose_wake_up_was_lost_are_found_by_the_feeds_and_told_once(
    ledger: Ledger, deaf: DeafWatch, clock: TestClock
) -> None:
    known = await ledger.session("ses_known", rules=RULES)
    await ledger.session("ses_quiet", rules=RULES)
    clock.advance("1h")
    await deaf.begin()
    await known.ask("bash", ["ls"])
    new = await ledger.session("ses_new", rules=RULES)
    await new.ask("bash", ["ls"])
    await known.ask("bash", ["ls -l"])
    await deaf.compare()
    assert sorted(await deaf.told()) == [
        ("ses_known", 2, "permission.decided"),
        ("ses_known", 3, "permission.decided"),
        ("ses_new", 1, "session.opened"),
        ("ses_new", 2, "permission.decided"),
    ]
    clock.advance("1m")
    await deaf.compare()
    assert await deaf.told() == []
    await known.ask("bash", ["ls"])
    await deaf.compare()
    assert await deaf.told() == [("ses_known", 4, "permission.decided")]


async def test_the_feeds_are_compared_at_intervals(
    ledger: Ledger, deaf: DeafWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hints, "COMPARE_SECONDS", 0.05)
    await deaf.begin()
    await ledger.session("ses_1")
    async with asyncio.timeout(30):
        await deaf.arrived.wait()
    assert await deaf.told() == [("ses_1", 1, "session.opened")]


async def test_a_wake_up_without_entries_has_them_read(ledger: Ledger, deaf: DeafWatch, clock: TestClock) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await deaf.begin()
    clock.advance("1h")
    await session.submit("bash", ["make"], request_id="r1")
    key = StreamKey("session", "ses_1")
    (head,) = await ledger.store.heads([key])
    ChangeWatch._woken(deaf, WakeUp(key, head.at, ()))
    assert await deaf.told() == [("ses_1", 2, "permission.asked")]


async def test_where_a_feed_has_dropped_lines_readers_are_told_to_read_again(
    ledger: Ledger, deaf: DeafWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    await deaf.begin()
    unacknowledged = ledger.store.unacknowledged

    async def trimmed(*arguments: object) -> object:
        return [one._replace(trimmed=True) for one in await unacknowledged(*arguments)]  # type: ignore[arg-type]

    monkeypatch.setattr(deaf._store, "unacknowledged", trimmed)
    await ledger.session("ses_1")
    await deaf.compare()
    assert await deaf.take() == ([], True)


async def test_what_cannot_be_read_now_is_to_be_read_again(
    ledger: Ledger, deaf: DeafWatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unreachable(*_: object) -> object:
        raise StoreError("the server is away")

    await deaf.begin()
    await ledger.session("ses_1")
    await deaf.compare()
    monkeypatch.setattr(deaf._store, "read", unreachable)
    assert await deaf.take() == ([], True)

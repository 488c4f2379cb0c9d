"""A disconnected reader of a session resumes at any gateway: nothing twice, nothing missing, in order."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from projections.engine import Engine
from tests.gateway.callers import Caller, Served, served
from tests.gateway.events.listening import Told, brief, listening
from tests.support.servers import RealServer
from tests.support.snapshots import write_snapshots_every
from tests.support.waiting import wait_until_async
from workers.gateway.events import streams

SECRET = "deploy hunter-two"


@pytest.fixture
async def elsewhere(server: RealServer, clock: TestClock, sockets: Path) -> AsyncIterator[Served]:
    """Another gateway of the same ledger, which has received no events so far."""
    async with Ledger.connect(server.url, clock=clock) as ledger, served(ledger, sockets / "second.sock") as one:
        yield one


@pytest.fixture
async def root_elsewhere(elsewhere: Served) -> Caller:
    return await elsewhere.caller("admin", "root")


async def play(caller: Caller, clock: TestClock) -> None:
    """Some of everything, over four sessions and a project, some of it within one ms, some with several events an entry."""
    for number in range(4):
        await caller.put(f"/v1/sessions/ses_{number}", {"project": "shop" if number < 2 else "other"})
    for number in range(4):
        clock.advance(number)
        for index in range(2):
            await caller.ask(f"ses_{number}", f"git push {index}", request_id=f"r{number}_{index}", always=["git *"])
    clock.advance("1h")
    for number in range(4):
        await caller.put(f"/v1/sessions/ses_{number}/clients/phone")
    await caller.post("/v1/sessions/ses_0/asks/r0_0/reply", {"reply": "always"})
    await caller.post("/v1/sessions/ses_1/asks/r1_0/reply", {"reply": "reject"})
    await caller.post("/v1/sessions/ses_3/asks/r3_0/reply", {"reply": "once"})
    clock.advance(1)
    await caller.post("/v1/grants", {"project": "shop", "permission": "bash", "patterns": ["a *", "b *"]})
    await caller.ask("ses_2", request_id="last-in-ses_2")
    await caller.ask("ses_1", request_id="last-in-shop")
    await caller.put("/v1/sessions/last")
    await caller.ask("last", request_id="last")


def is_about(request_id: str) -> Callable[[Told], bool]:
    return lambda one: one.data.get("request_id") == request_id


async def test_from_each_id_of_a_session_another_gateway_goes_on_with_the_same_events(
    admin_caller: Caller, root_elsewhere: Caller, clock: TestClock
) -> None:
    await admin_caller.put("/v1/sessions/ses_0", {"project": "shop"})
    path = "/v1/sessions/ses_0/events"
    async with listening(admin_caller, path) as reader:
        begun = await reader.named("snapshot.end")
        await play(admin_caller, clock)
        await admin_caller.post("/v1/sessions/ses_0/close", {})
        whole = begun[-1:] + await reader.named("session.closed")
    assert any("." in str(one.last_id) for one in whole)
    for index, one in enumerate(whole):
        missing = whole[index + 1 :]
        async with listening(root_elsewhere, path, one.last_id) as again:
            resumed = [(await again.until(lambda _: True))[0] for _ in missing]
            assert resumed == missing


async def test_after_the_last_event_only_what_is_new_comes(
    admin_caller: Caller, root_elsewhere: Caller, clock: TestClock
) -> None:
    await play(admin_caller, clock)
    path = "/v1/sessions/last/events"
    async with listening(admin_caller, path) as reader:
        last_id = (await reader.named("snapshot.end"))[-1].last_id
    assert last_id == f"{clock.now_ms()}-2"
    async with listening(admin_caller, path, last_id) as one, listening(root_elsewhere, path, last_id) as other:
        await admin_caller.ask("last", request_id="new")
        for again in (one, other):
            told = await again.named("permission.asked")
            assert [brief(event)[::2] for event in told] == [("permission.asked", "new")]


@pytest.mark.parametrize(
    "last_id",
    [
        "nonsense",
        "5f1d0c2a18b8a3c5.1",
        "9900000000000-1",
        "1800000000000-7",
        "1799999999999-1",
        "1800000000000-0",
        "999999999999999999999-1",
    ],
)
async def test_an_id_that_was_never_handed_out_is_refused(admin_caller: Caller, last_id: str) -> None:
    await admin_caller.put("/v1/sessions/ses_1")
    path = "/v1/sessions/ses_1/events"
    for answer in (
        await admin_caller.get(path, Last_Event_ID=last_id),
        await admin_caller.get(f"{path}?last_event_id={last_id}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")
    assert (await admin_caller.get("/v1/sessions/ses_1")).json()["version"] == 1


async def test_an_id_at_the_stream_of_all_sessions_changes_nothing(admin_caller: Caller) -> None:
    last_id = "5f1d0c2a.18b8a3c5d00.2f.0123456789abcdef-7_1.fedcba9876543210-2"
    async with listening(admin_caller, "/v1/events", last_id) as reader:
        assert [one.name for one in await reader.named("stream.open")] == ["stream.open"]


async def test_a_long_session_is_resumed_from_its_snapshot(
    admin_caller: Caller, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_snapshots_every(4, monkeypatch)
    await admin_caller.put("/v1/sessions/ses_1")
    for number in range(9):
        await admin_caller.ask("ses_1", request_id=f"r{number}")
    await Engine(ledger.store).catch_up(StreamKey("session", "ses_1"))
    async with listening(admin_caller, "/v1/sessions/ses_1/events") as reader:
        snapshot = await reader.named("snapshot.end")
        await admin_caller.ask("ses_1", request_id="new")
        told = await reader.named("permission.asked")
    assert [one.data["request_id"] for one in snapshot[:-1]] == [f"r{number}" for number in range(9)]
    async with listening(admin_caller, "/v1/sessions/ses_1/events", snapshot[-1].last_id) as again:
        assert await again.named("permission.asked") == told


async def test_what_was_redacted_is_not_sent_to_who_resumes(admin_caller: Caller, ledger: Ledger) -> None:
    await admin_caller.put("/v1/sessions/ses_1", {})
    path = "/v1/sessions/ses_1/events"
    async with listening(admin_caller, path) as reader:
        begun = (await reader.named("snapshot.end"))[-1].last_id
        await admin_caller.ask("ses_1", SECRET, request_id="r1")
        assert SECRET in json.dumps([one.data for one in await reader.named("permission.asked")])
        for plan in await ledger.redactions.plan("ses_1", [2]):
            await ledger.redactions.redact(plan, reason="a password", actor="ann")
        await reader.named("session.redacted")
    async with listening(admin_caller, path, begun) as again:
        told = await again.named("session.redacted")
    assert [one.name for one in told] == ["permission.asked", "session.redacted"]
    assert SECRET not in json.dumps([one.data for one in told])


async def test_a_reader_that_takes_nothing_is_sent_away_and_resumes_from_the_log(
    admin_caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await admin_caller.put("/v1/sessions/ses_1")
    path = "/v1/sessions/ses_1/events"
    asked = [f"r{number}" for number in range(5)]
    with monkeypatch.context() as little:
        little.setattr(streams, "SESSION_BYTES_MAX", 10)
        async with listening(admin_caller, path) as slow:
            begun = (await slow.named("snapshot.end"))[-1].last_id
            for request_id in asked:
                await admin_caller.ask("ses_1", request_id=request_id)
            (told,) = await slow.rest()
    assert (told.name, told.last_id) == ("stream.overrun", begun)
    async with listening(admin_caller, path, begun) as again:
        seen = await again.until(lambda one: one.data.get("request_id") == asked[-1])
    assert [one.data["request_id"] for one in seen] == asked


async def test_readers_of_a_session_share_what_is_read_of_it(gateway: Served, admin_caller: Caller) -> None:
    await admin_caller.put("/v1/sessions/ses_1")
    path = "/v1/sessions/ses_1/events"
    async with listening(admin_caller, path) as one, listening(admin_caller, path) as other:
        for reader in (one, other):
            await reader.named("snapshot.end")
        assert len(gateway.gateway.events._feeds) == 1
        await admin_caller.ask("ses_1", request_id="r1")
        assert await one.named("permission.asked") == await other.named("permission.asked")
    await wait_until_async(lambda: not gateway.gateway.events._feeds, "the last reader to leave")


async def test_a_gateway_that_ends_ends_its_streams(ledger: Ledger, sockets: Path) -> None:
    async with served(ledger, sockets / "ends.sock") as one:
        caller = await one.caller("admin", "root")
        await caller.put("/v1/sessions/ses_1")
        async with listening(caller, "/v1/events") as all_, listening(caller, "/v1/sessions/ses_1/events") as of_one:
            await all_.named("stream.open")
            await of_one.named("snapshot.end")
            one.gateway.stop()
            for reader in (all_, of_one):
                assert [told.name for told in await reader.rest()] == ["stream.end"]

"""A disconnected reader comes back.

Of a session it resumes at any gateway: nothing twice, nothing missing, in order. Of the whole ledger it resumes so at the
same gateway, and begins anew at another one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, served
from tests.gateway.events.listening import Told, brief, listening
from tests.support.servers import RealServer
from workers.gateway.events.ring import Ring


@pytest.fixture
async def elsewhere(server: RealServer, clock: TestClock, sockets: Path) -> AsyncIterator[Served]:
    """Another gateway of the same ledger, which has received no events so far."""
    async with Ledger.connect(server.url, clock=clock) as ledger, served(ledger, sockets / "second.sock") as one:
        yield one


@pytest.fixture
async def root_elsewhere(elsewhere: Served) -> Caller:
    return await elsewhere.caller("admin", "root")


def pending_after(told: Iterable[Told]) -> set[str]:
    """Return the requests that are pending according to these events."""
    found: set[str] = set()
    for one in told:
        if one.name == "permission.asked":
            found.add(one.data["request_id"])
        elif one.name in ("permission.replied", "permission.cancelled"):
            found.remove(one.data["request_id"])
    return found


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


LAST_OF = {"": "last", "?project=shop": "last-in-shop", "?tree=ses_2": "last-in-ses_2"}


@pytest.mark.parametrize("filter_", LAST_OF)
async def test_from_each_id_the_same_gateway_goes_on_without_gap_or_repeat(
    admin_caller: Caller, clock: TestClock, filter_: str
) -> None:
    path = f"/v1/events{filter_}"
    async with listening(admin_caller, path) as reader:
        begun = await reader.named("snapshot.end")
        await play(admin_caller, clock)
        told = await reader.until(is_about(LAST_OF[filter_]))
    assert len(told) > 5
    whole = begun[-1:] + told
    for index, one in enumerate(whole):
        async with listening(admin_caller, path, one.last_id) as again:
            missing = whole[index + 1 :]
            assert [(await again.until(lambda _: True))[0] for _ in missing] == missing, index


@pytest.mark.parametrize("filter_", LAST_OF)
async def test_from_an_id_of_another_gateway_a_reader_gets_what_is_pending_and_then_what_is_new(
    admin_caller: Caller, root_elsewhere: Caller, clock: TestClock, filter_: str
) -> None:
    path = f"/v1/events{filter_}"
    async with listening(admin_caller, path) as reader:
        await reader.named("snapshot.end")
        await play(admin_caller, clock)
        told = await reader.until(is_about(LAST_OF[filter_]))
    async with listening(root_elsewhere, path) as new, listening(root_elsewhere, path, told[2].last_id) as again:
        snapshot = await new.named("snapshot.end")
        begun, *rest = await again.named("snapshot.end")
        assert (begun.name, begun.last_id) == ("resync", told[2].last_id)
        assert [(one.name, one.data) for one in rest] == [(one.name, one.data) for one in snapshot]
        assert pending_after(rest) == pending_after(told)
        session = told[-1].data["session"]
        await admin_caller.ask(session, "rm x", request_id="new")
        assert [brief(one) for one in await again.named("permission.asked")] == [("permission.asked", session, "new")]


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
    async with listening(admin_caller, "/v1/events") as reader:
        await play(admin_caller, clock)
        last_id = (await reader.until(is_about("last")))[-1].last_id
    async with (
        listening(admin_caller, "/v1/events", last_id) as one,
        listening(root_elsewhere, "/v1/sessions/last/events", f"{clock.now_ms()}-2") as other,
    ):
        await admin_caller.ask("last", request_id="new")
        for again in (one, other):
            told = await again.named("permission.asked")
            assert [brief(event)[::2] for event in told] == [("permission.asked", "new")]


@pytest.mark.parametrize(
    ("path", "last_id"),
    [
        ("/v1/events", "nonsense"),
        ("/v1/events", "1800000000000-1"),
        ("/v1/events", "{run}"),
        ("/v1/events", "{run}.-1"),
        ("/v1/events", "{run}.ffffff"),
        ("/v1/events", "{run}.1." + "0" * 40_000),
        ("/v1/sessions/ses_1/events", "nonsense"),
        ("/v1/sessions/ses_1/events", "{run}.1"),
        ("/v1/sessions/ses_1/events", "9900000000000-1"),
        ("/v1/sessions/ses_1/events", "1800000000000-7"),
        ("/v1/sessions/ses_1/events", "1799999999999-1"),
        ("/v1/sessions/ses_1/events", "1800000000000-0"),
        ("/v1/sessions/ses_1/events", "999999999999999999999-1"),
    ],
)
async def test_an_id_that_was_never_handed_out_is_refused(
    admin_caller: Caller, gateway: Served, path: str, last_id: str
) -> None:
    await admin_caller.put("/v1/sessions/ses_1")
    async with listening(admin_caller, "/v1/events") as reader:
        run = str((await reader.named("snapshot.end"))[-1].last_id).partition(".")[0]
    named = last_id.format(run=run)
    for answer in (
        await admin_caller.get(path, Last_Event_ID=named),
        await admin_caller.get(f"{path}?last_event_id={named[:8000]}"),
    ):
        assert (answer.status_code, answer.json()["code"]) == (422, "INPUT")
    assert (await admin_caller.get("/v1/sessions/ses_1")).json()["version"] == 1


async def test_an_id_of_an_earlier_version_begins_anew(admin_caller: Caller) -> None:
    last_id = "5f1d0c2a.18b8a3c5d00.2f.0123456789abcdef-7_1.fedcba9876543210-2"
    async with listening(admin_caller, "/v1/events", last_id) as reader:
        assert [one.name for one in await reader.named("snapshot.end")] == ["resync", "snapshot.end"]


@pytest.mark.slow
async def test_a_reader_that_takes_nothing_is_sent_away_and_then_gets_all_that_is_pending(
    gateway: Served, admin_caller: Caller
) -> None:
    gateway.gateway.events.hub.ring = Ring(100_000)
    await admin_caller.put("/v1/sessions/ses_1")
    big = {"text": "x" * 60_000}
    async with listening(admin_caller, "/v1/events") as slow:
        end = (await slow.named("snapshot.end"))[-1]
        async with listening(admin_caller, "/v1/sessions/ses_1/events") as quick:
            for number in range(40):
                await admin_caller.ask("ses_1", request_id=f"r{number}", metadata=big)
                # At once: all of them are more than is kept of a session, as each bears its text twice.
                await quick.until(is_about(f"r{number}"))
        told = await slow.rest()
        # It may have been disconnected before anything else reached it.
        assert (told[-1].name, told[-1].last_id) == ("stream.overrun", [end, *told][-2].last_id)
        seen = [one.data["request_id"] for one in told[:-1]]
        assert seen == [f"r{number}" for number in range(len(seen))]
        assert len(seen) < 39
    async with listening(admin_caller, "/v1/events", told[-1].last_id) as again:
        begun, *pending, _ = await again.named("snapshot.end")
    assert begun.name == "resync"
    assert {one.data["request_id"] for one in pending} == {f"r{number}" for number in range(40)}


async def test_a_gateway_that_ends_ends_its_streams(ledger: Ledger, sockets: Path) -> None:
    async with served(ledger, sockets / "ends.sock") as one:
        caller = await one.caller("admin", "root")
        async with listening(caller, "/v1/events") as reader:
            await reader.named("snapshot.end")
            one.gateway.stop()
            assert [told.name for told in await reader.rest()] == ["stream.end"]

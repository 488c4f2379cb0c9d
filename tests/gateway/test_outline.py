"""The outline of a session: the span of each request, its cascades, and the density of events."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, in_process
from tests.support.backends import Operator, as_redis
from tests.support.servers import RealServer


@pytest.fixture
async def story(gateway: Served, ann: Caller, clock: TestClock) -> Caller:
    """Nine events: opened (1), asked a b c (2-4), `ls` by rule (5), a allowed (6), c cancelled (7), d asked (8), a denial (9)."""
    root = await gateway.caller("admin", "root")
    rules = [
        {"permission": "bash", "pattern": "ls", "action": "allow"},
        {"permission": "bash", "pattern": "rm", "action": "deny"},
    ]
    await root.put("/v1/sessions/s1", {"rules": rules, "timeouts": {"unattended": "1h", "cap": "none"}})
    for request_id in ("a", "b", "c"):
        clock.advance("1s")
        await root.ask("s1", request_id=request_id)
    await root.ask("s1", "ls")
    clock.advance("1m")
    await ann.post("/v1/sessions/s1/asks/a/reply", {"reply": "once"})
    await ann.post("/v1/sessions/s1/asks/c/cancel", {})
    await root.ask("s1", request_id="d")
    await root.ask("s1", "rm")
    return ann


def lines(answer: dict[str, Any]) -> list[tuple[Any, ...]]:
    names = ("request_id", "lane", "asked", "ended", "until", "outcome", "followed")
    return [tuple(one[name] for name in names) for one in answer["waits"]]


async def outline(caller: Caller, query: str = "") -> dict[str, Any]:
    answer = await caller.get(f"/v1/sessions/s1/outline{query}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def test_what_waited_has_a_lane_from_its_question_to_its_end(story: Caller) -> None:
    found = await outline(story)
    assert lines(found) == [
        ("a", 0, 2, 6, 6, "allowed", None),
        ("b", 1, 3, None, None, None, None),
        ("c", 2, 4, 7, 7, "cancelled", None),
        ("d", 0, 8, None, None, None, None),
    ]
    first = found["waits"][0]
    assert (first["asked_at"], first["ended_at"], first["deadline"], first["tier"]) == (
        "2027-01-15T08:00:01.000Z",
        "2027-01-15T08:01:03.000Z",
        "2027-01-15T09:00:01.000Z",
        "unattended",
    )
    assert (found["version"], found["bars"]) == (9, [])


@pytest.mark.parametrize(
    ("query", "ids"),
    [("?after=7", ["b", "d"]), ("?after=6&limit=1", ["b", "c"]), ("?limit=2", ["a"]), ("?lanes=1", ["a", "d"])],
)
async def test_a_window_holds_what_waited_in_it(story: Caller, query: str, ids: list[str]) -> None:
    assert [one["request_id"] for one in (await outline(story, query))["waits"]] == ids


async def test_bars_cover_the_whole_session_and_count_each_thing_where_it_happened(story: Caller) -> None:
    one_each = (await outline(story, "?bars=9"))["bars"]
    assert one_each == [
        {},
        {"asked": 1},
        {"asked": 1},
        {"asked": 1},
        {"by_rule": 1},
        {"allowed": 1},
        {"lapsed": 1},
        {"asked": 1},
        {"refused": 1},
    ]
    assert (await outline(story, "?bars=600"))["bars"] == one_each
    assert (await outline(story, "?bars=3"))["bars"] == [
        {"asked": 2},
        {"asked": 1, "by_rule": 1, "allowed": 1},
        {"lapsed": 1, "asked": 1, "refused": 1},
    ]


async def test_what_an_answer_took_along_names_it_and_keeps_its_lane_until_then(gateway: Served, ann: Caller) -> None:
    root = await gateway.caller("admin", "root")
    await root.put("/v1/sessions/s1")
    for request_id in ("a", "b", "c"):
        await root.ask("s1", request_id=request_id)
    await ann.post("/v1/sessions/s1/asks/b/reply", {"reply": "reject"})
    assert lines(await outline(ann)) == [
        ("a", 0, 2, 6, 6, "rejected", "b"),
        ("b", 1, 3, 5, 7, "rejected", None),
        ("c", 2, 4, 7, 7, "rejected", "b"),
    ]


async def test_it_goes_on_with_the_session(story: Caller) -> None:
    await outline(story)
    await story.post("/v1/sessions/s1/asks/d/reply", {"reply": "once"})
    found = await outline(story, "?after=8")
    assert (found["version"], lines(found)[-1]) == (10, ("d", 0, 8, 10, 10, "allowed", None))


@pytest.mark.parametrize("query", ["?bars=601", "?lanes=17", "?limit=0", "?after=-1", "?limit=x"])
async def test_what_is_out_of_bounds_is_refused(story: Caller, query: str) -> None:
    assert (await story.get(f"/v1/sessions/s1/outline{query}")).status_code == 422


async def test_a_damaged_session_is_still_verified_and_only_for_those_who_may_see_it(
    story: Caller, server: RealServer, admin: Operator, clock: TestClock
) -> None:
    assert lines(await outline(story)) != []
    async with Ledger.connect(server.url, clock=clock) as other:
        key = as_redis(other.store).keys.stream(StreamKey("session", "s1"))
        log = await admin.run("XRANGE", key, "-", "+")
        await admin.run("XDEL", key, log[4][0])
        # Only then: a gateway that starts counts what waits, and keeps the sessions that it has read.
        async with in_process(other) as gateway:
            eve = await gateway.caller("auditor", "eve")
            assert (await eve.get("/v1/sessions/s1")).json()["code"] == "DAMAGED"
            checked = (await eve.get("/v1/sessions/s1/verify")).json()
            assert (checked["ok"], checked["versions"]) == (False, 8)
            assert checked["problems"][0]["version"] == 5
            stranger = await gateway.caller("auditor", "other", projects=["bank"])
            for path in ("/v1/sessions/s1/verify", "/v1/sessions/none/verify"):
                assert (await stranger.get(path)).status_code == 404

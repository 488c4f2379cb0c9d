"""Damage of one stream over HTTP: it is named, and the rows of all other streams are still served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest

from ledger import Ledger
from ledger.stores.port import StreamKey
from ledger.testing import TestClock
from tests.gateway.callers import Served, in_process
from tests.support.backends import as_redis
from tests.support.forging import forge, with_an_edit, with_endless_durations
from tests.support.servers import RealServer
from workers.expiry import Settler

BAD: Final = ["session:ses_edited", "session:ses_endless"]


@pytest.fixture
async def beside_damage(server: RealServer, clock: TestClock) -> AsyncIterator[Served]:
    """A gateway that begins when one session is whole, and a child of a damaged one, and two are damaged."""
    async with Ledger.connect(server.url, clock=clock) as before:
        for name, parent in (("ses_1", None), ("ses_edited", None), ("ses_endless", None), ("child", "ses_edited")):
            session = await before.session(name, project="shop", parent=parent)
            await session.submit("bash", ["ls"], request_id=f"of_{name}")
            await session.grant("edit", "x", actor="ann")
        keys = {name: as_redis(before.store).keys.stream(StreamKey.parse(name)) for name in BAD}
    with_an_edit(server.url, keys["session:ses_edited"])
    forge(server.url, keys["session:ses_endless"], with_endless_durations)
    async with Ledger.connect(server.url, clock=clock) as ledger, in_process(ledger) as one:
        yield one


async def test_what_waits_and_what_is_granted_is_told_beside_damage(beside_damage: Served) -> None:
    root = await beside_damage.caller("admin", "root")
    answer = (await root.get("/v1/pending")).json()
    assert {row["request_id"] for row in answer["pending"]} == {"of_ses_1", "of_child"}
    assert sorted(one["stream"] for one in answer["problems"]) == BAD
    assert {one["code"] for one in answer["problems"]} == {"DAMAGED"}
    grants = (await root.get("/v1/grants")).json()
    assert {row["session"] for row in grants["grants"]} == {"ses_1", "child"}
    assert sorted(one["stream"] for one in grants["problems"]) == BAD
    for path in ("/v1/sessions", "/permission", "/metrics", "/v1/sessions/ses_1/timeline", "/readyz"):
        assert (await root.get(path)).status_code == 200
    assert (await root.get("/v1/sessions/ses_endless")).json()["code"] == "DAMAGED"


async def test_people_connect_and_answer_beside_damage(beside_damage: Served) -> None:
    ann = await beside_damage.caller("approver", "ann")
    opened = await ann.put("/v1/clients/phone")
    assert {row["request_id"] for row in opened.json()["replayed"]} == {"of_ses_1", "of_child"}
    assert (await ann.post("/permission/of_ses_1/reply", {"reply": "once"})).status_code == 200
    assert (await ann.delete("/v1/clients/phone")).status_code == 204


async def test_a_damaged_session_is_named_to_those_only_who_see_everything(beside_damage: Served) -> None:
    bound = await beside_damage.caller("approver", "bob", projects=["shop"])
    answer = (await bound.get("/v1/pending")).json()
    assert {row["request_id"] for row in answer["pending"]} == {"of_ses_1", "of_child"}
    assert answer["problems"] == []


async def test_deadlines_of_others_are_kept_beside_damage(
    beside_damage: Served, server: RealServer, clock: TestClock
) -> None:
    root = await beside_damage.caller("admin", "root")
    clock.advance("7d")
    async with Ledger.connect(server.url, clock=clock) as worker:
        await Settler(worker).settle_due()
    assert (await root.get("/v1/sessions/ses_1/asks/of_ses_1")).json()["outcome"] == "expired"
    assert (await root.get("/v1/pending")).json()["pending"] == []

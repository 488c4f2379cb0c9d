"""More time over HTTP: for people who may answer, never for the agent."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from tests.gateway.callers import Caller, Served
from tests.gateway.events.listening import listening

EXTEND = "/v1/sessions/ses_1/asks/r1/extend"


@pytest.fixture
async def agent(gateway: Served, ann: Caller) -> Caller:
    """An agent whose request `r1` is attended by ann's phone."""
    agent = await gateway.caller("agent", "worker", brings_rules=True)
    await agent.put("/v1/sessions/ses_1", {"project": "shop"})
    await ann.put("/v1/sessions/ses_1/clients/phone")
    assert (await agent.ask("ses_1", request_id="r1", waits="10m")).status_code == 202
    return agent


async def pending(ann: Caller) -> dict[str, Any]:
    (row,) = (await ann.get("/v1/pending")).json()["pending"]
    found: dict[str, Any] = row
    return found


def seconds(row: dict[str, Any], until: str) -> float:
    return (datetime.fromisoformat(row[until]) - datetime.fromisoformat(row["asked_at"])).total_seconds()


async def test_a_pending_row_says_to_when_it_can_be_extended(agent: Caller, ann: Caller) -> None:
    row = await pending(ann)
    assert (row["extending"], seconds(row, "deadline")) == ("automatic", 60)
    assert (seconds(row, "latest_deadline"), seconds(row, "waits_until")) == (600, 600)


async def test_typing_and_a_press_move_the_deadline_for_every_viewer(
    agent: Caller, ann: Caller, gateway: Served
) -> None:
    bob = await gateway.caller("approver", "bob")
    async with listening(bob, "/v1/sessions/ses_1/events") as reader:
        await reader.named("snapshot.end")
        assert (await ann.post(EXTEND, {"reason": "typing"})).status_code == 200
        (*_, typed) = await reader.named("permission.deadline_moved")
        pressed = await ann.post(EXTEND, {"deadline": typed.data["deadline"]})
        (*_, moved) = await reader.named("permission.deadline_moved")
    assert (typed.data["by"], typed.data["reason"], moved.data["reason"]) == ("ann", "typing", "by_hand")
    assert pressed.json()["request"]["deadline"] == moved.data["deadline"]
    assert seconds(await pending(ann), "deadline") == 600, "the wait that the agent declared, not eleven minutes"
    again = await ann.post(EXTEND, {"deadline": moved.data["deadline"]})
    assert (again.status_code, again.json()["code"]) == (409, "NOT_EXTENDABLE")
    assert again.json()["latest_deadline"] == moved.data["deadline"]


async def test_the_same_press_again_succeeds_and_adds_nothing(agent: Caller, ann: Caller) -> None:
    seen = (await pending(ann))["deadline"]
    answers = [await ann.post(EXTEND, {"deadline": seen}) for _ in range(2)]
    assert [one.status_code for one in answers] == [200, 200]
    assert seconds(await pending(ann), "deadline") == 360


@pytest.mark.parametrize("body", [{}, {"reason": "typing"}, {"deadline": "2027-01-15T08:01:00.000Z"}])
async def test_an_agent_extends_no_request_not_even_its_own(agent: Caller, ann: Caller, body: dict[str, str]) -> None:
    refused = await agent.post(EXTEND, body)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")
    assert seconds(await pending(ann), "deadline") == 60


async def test_an_auditor_extends_nothing(agent: Caller, gateway: Served) -> None:
    auditor = await gateway.caller("auditor", "eve")
    assert (await auditor.post(EXTEND, {"reason": "typing"})).json()["code"] == "FORBIDDEN"


async def test_who_does_not_see_the_session_is_not_told_that_it_exists(agent: Caller, gateway: Served) -> None:
    stranger = await gateway.caller("approver", "zoe", projects=("other",))
    assert (await stranger.post(EXTEND, {"reason": "typing"})).json()["code"] == "UNKNOWN_SESSION"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "give `deadline` with `by_hand`"),
        ({"deadline": "soon"}, "`soon` is not a time"),
        ({"reason": "thinking"}, "thinking"),
        ({"reason": "typing", "minutes": 60}, "minutes"),
    ],
)
async def test_a_malformed_extension_says_what_is_wrong(
    agent: Caller, ann: Caller, body: dict[str, Any], says: str
) -> None:
    refused = await ann.post(EXTEND, body)
    assert refused.status_code in (400, 422)
    assert says in refused.text


async def test_a_session_states_the_setting_when_it_is_opened(gateway: Served, ann: Caller) -> None:
    agent = await gateway.caller("agent", "worker")
    opened = await agent.put("/v1/sessions/ses_1", {"extending": "never"})
    assert opened.json()["settings"]["extending"] == "never"
    await ann.put("/v1/sessions/ses_1/clients/phone")
    await agent.ask("ses_1", request_id="r1")
    refused = await ann.post(EXTEND, {"reason": "open_card"})
    assert "has `extending` set to `never`" in refused.json()["detail"]
    changed = await agent.put("/v1/sessions/ses_1", {"extending": "automatic"})
    assert (changed.status_code, changed.json()["code"]) == (403, "RULES_NOT_YOURS")

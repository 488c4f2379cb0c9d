"""Offers of an agent to remember a decision: of a tool call its dialect's offers, or narrower ones."""

from __future__ import annotations

from typing import Any

import pytest

from tests.gateway.callers import Caller, Served

PATH = "/v1/sessions/ses_1/asks"
CALL: dict[str, Any] = {"tool_name": "bash", "input": {"command": "git push origin"}, "request_id": "r1"}


async def opened(gateway: Served, **scope: Any) -> Caller:
    worker = await gateway.caller("agent", "worker", **scope)
    assert (await worker.put("/v1/sessions/ses_1", {"project": "shop"})).status_code == 201
    return worker


async def offered(caller: Caller) -> list[str]:
    [row] = (await caller.get("/v1/pending?session=ses_1")).json()["pending"]
    return list(row["always"])


@pytest.mark.parametrize(
    ("always", "kept", "left_out"),
    [
        (["*"], [], ["*"]),
        (["git *", "git push *"], ["git push *"], ["git *"]),
        (["git push origin *"], ["git push origin *"], None),
    ],
)
async def test_an_agent_without_rules_offers_of_a_tool_call_what_its_dialect_does_or_narrower(
    gateway: Served, ann: Caller, always: list[str], kept: list[str], left_out: list[str] | None
) -> None:
    worker = await opened(gateway)
    for _ in range(2):  # attaching asks the same
        asked = await worker.post(PATH, {**CALL, "always": always})
        assert (asked.status_code, asked.json().get("always_left_out")) == (202, left_out)
    assert await offered(ann) == kept


async def test_a_permission_beside_the_tool_call_widens_nothing(gateway: Served, ann: Caller) -> None:
    worker = await opened(gateway)
    asked = await worker.post(PATH, {**CALL, "permission": "bash", "patterns": ["git push origin"], "always": ["*"]})
    assert (asked.status_code, asked.json()["always_left_out"]) == (202, ["*"])
    other = await worker.post(
        PATH,
        {
            "tool_name": "webfetch",
            "input": {"url": "https://x"},
            "permission": "bash",
            "patterns": ["ls"],
            "always": ["*"],
        },
    )
    assert (other.status_code, other.json()["always_left_out"]) == (202, ["*"])
    assert (await ann.get("/v1/pending?session=ses_1")).json()["pending"][0]["always"] == []


async def test_an_agent_that_brings_rules_offers_what_it_says(gateway: Served, ann: Caller) -> None:
    worker = await opened(gateway, brings_rules=True)
    asked = await worker.post(PATH, {**CALL, "always": ["git *"]})
    assert "always_left_out" not in asked.json()
    assert await offered(ann) == ["git *"]


async def test_a_request_that_is_no_tool_call_offers_what_the_agent_says(gateway: Served, ann: Caller) -> None:
    worker = await opened(gateway)
    await worker.post(PATH, {"permission": "deploy", "patterns": ["prod"], "always": ["*"], "request_id": "r1"})
    assert await offered(ann) == ["*"]

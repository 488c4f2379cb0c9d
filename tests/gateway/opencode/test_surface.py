"""OpenCode's own routes: shapes, statuses and events as its own server (1.18) answers, recorded from it."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import httpx
import msgspec
import pytest

from tests.gateway.callers import Caller, Served

ASKED: dict[str, Any] = {
    "request_id": "per_1fc41424900182w1hJ6siXDEnn",
    "metadata": {"command": "echo one"},
    "always": ["echo *"],
    "tool": {"message_id": "msg_1fc4141ee001n5sMDf0ONVtEhw", "call_id": "call_0_76074937"},
}
RECORDED = {
    "id": "per_1fc41424900182w1hJ6siXDEnn",
    "sessionID": "ses_1",
    "permission": "bash",
    "patterns": ["echo one"],
    "metadata": {"command": "echo one"},
    "always": ["echo *"],
    "tool": {"messageID": "msg_1fc4141ee001n5sMDf0ONVtEhw", "callID": "call_0_76074937"},
}
REPLY = "/permission/per_1fc41424900182w1hJ6siXDEnn/reply"


@pytest.fixture
async def opened(gateway: Served) -> Caller:
    agent = await gateway.caller("agent", "worker", any_project=True)
    await agent.put("/v1/sessions/ses_1", {"project": "shop", "cwd": "/src/shop"})
    return agent


async def test_what_waits_is_listed_in_opencodes_shape_in_order_of_asking(opened: Caller, ann: Caller) -> None:
    assert (await ann.get("/permission")).json() == []
    await opened.ask("ses_1", "echo one", **ASKED)
    await opened.ask("ses_1", "echo two", request_id="per_2")
    listed = (await ann.get("/permission")).json()
    assert listed == [
        RECORDED,
        {**without_tool(RECORDED), "id": "per_2", "patterns": ["echo two"], "metadata": {}, "always": []},
    ]
    assert (await opened.get("/permission")).json() == listed


def without_tool(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "tool"}


async def test_a_directory_shows_its_own_requests_alone(opened: Caller, ann: Caller) -> None:
    await opened.ask("ses_1", "echo one", **ASKED)
    assert (await ann.get("/permission?directory=/src/shop")).json() == [RECORDED]
    assert (await ann.get("/permission?directory=/src/other")).json() == []
    header = await ann.get("/permission", x_opencode_directory="%2Fsrc%2Fother")
    assert header.json() == []
    elsewhere = await ann.post(f"{REPLY}?directory=/src/other", {"reply": "once"})
    assert elsewhere.status_code == 404
    assert (await ann.post(f"{REPLY}?directory=/src/shop", {"reply": "once"})).json() is True


@pytest.mark.parametrize(
    ("path", "body", "expected"),
    [
        (REPLY, {"reply": "once"}, ("allowed", None)),
        (REPLY, {"reply": "always", "unknown": 1}, ("allowed", None)),
        (REPLY, {"reply": "reject"}, ("rejected", None)),
        (REPLY, {"reply": "reject", "message": "use pnpm"}, ("corrected", "use pnpm")),
        ("/session/ses_1/permissions/per_1fc41424900182w1hJ6siXDEnn", {"response": "once"}, ("allowed", None)),
    ],
)
async def test_an_answer_counts_and_says_true(
    opened: Caller, ann: Caller, path: str, body: dict[str, Any], expected: tuple[str, str | None]
) -> None:
    await opened.ask("ses_1", "echo one", **ASKED)
    answered = await ann.post(path, body)
    assert (answered.status_code, answered.json()) == (200, True)
    settled = (await opened.get(f"/v1/sessions/ses_1/asks/{ASKED['request_id']}")).json()
    assert (settled["outcome"], settled["feedback"]) == expected
    assert settled["by"] == "ann"
    assert (await ann.get("/permission")).json() == []


@pytest.mark.parametrize(
    ("path", "body", "status", "expected"),
    [
        (
            "/permission/per_x/reply",
            b'{"reply":"once"}',
            404,
            {
                "_tag": "PermissionNotFoundError",
                "requestID": "per_x",
                "message": "Permission request not found: per_x",
            },
        ),
        (
            "/permission/per_x/reply",
            b'{"reply":"maybe"}',
            400,
            {
                "name": "BadRequest",
                "data": {
                    "message": 'Expected "once" | "always" | "reject", got "maybe"\n  at ["reply"]',
                    "kind": "Payload",
                },
            },
        ),
        (
            "/permission/call_1/reply",
            b'{"reply":"once"}',
            400,
            {
                "name": "BadRequest",
                "data": {
                    "message": 'Expected a string starting with "per", got "call_1"\n  at ["requestID"]',
                    "kind": "Params",
                },
            },
        ),
        (
            "/session/ses_none/permissions/per_x",
            b'{"response":"once"}',
            404,
            {
                "_tag": "PermissionNotFoundError",
                "requestID": "per_x",
                "message": "Permission request not found: per_x",
            },
        ),
        (
            "/permission/per_x/reply",
            b"{}",
            400,
            {"name": "BadRequest", "data": {"message": 'Missing key\n  at ["reply"]', "kind": "Payload"}},
        ),
        (
            "/permission/per_x/reply",
            b"not json",
            400,
            {"name": "BadRequest", "data": {"message": "Expected JSON", "kind": "Body"}},
        ),
        (
            "/permission/per_x/reply",
            b"[1]",
            400,
            {"name": "BadRequest", "data": {"message": "Expected object, got [1]", "kind": "Payload"}},
        ),
    ],
)
async def test_what_is_wrong_is_told_in_opencodes_words(
    ann: Caller, path: str, body: bytes, status: int, expected: dict[str, Any]
) -> None:
    answer = await ann.http.post(path, content=body)
    assert (answer.status_code, answer.json()) == (status, expected)


async def test_what_another_has_answered_is_not_found_any_more(opened: Caller, ann: Caller, gateway: Served) -> None:
    await opened.ask("ses_1", "echo one", **ASKED)
    bob = await gateway.caller("approver", "bob")
    path = f"/session/ses_1/permissions/{ASKED['request_id']}"
    assert (await ann.post(path, {"response": "once"})).json() is True
    assert (await ann.post(path, {"response": "once"})).json() is True
    late = await bob.post(path, {"response": "reject"})
    assert (late.status_code, late.json()["_tag"]) == (404, "PermissionNotFoundError")
    assert "ann" in late.json()["message"]


async def test_an_id_known_in_two_sessions_is_refused_with_both(opened: Caller, ann: Caller) -> None:
    await opened.put("/v1/sessions/ses_2", {"project": "shop"})
    for session in ("ses_1", "ses_2"):
        await opened.ask(session, "echo one", request_id="call_7")
    answer = await ann.post("/permission/call_7/reply", {"reply": "once"})
    assert (answer.status_code, answer.json()["sessions"]) == (409, ["ses_1", "ses_2"])
    assert len((await ann.get("/permission")).json()) == 2
    assert (await ann.post("/session/ses_2/permissions/call_7", {"response": "once"})).json() is True
    assert (await ann.post("/permission/call_7/reply", {"reply": "once"})).json() is True


async def test_an_answer_again_counts_where_it_was_given_though_an_older_session_used_the_id(
    opened: Caller, ann: Caller, clock: Any
) -> None:
    await opened.put("/v1/sessions/ses_2", {"project": "shop"})
    for session, reply in (("ses_2", "once"), ("ses_1", "reject")):
        await opened.ask(session, "echo one", request_id="call_7")
        for _ in range(2):
            assert (await ann.post("/permission/call_7/reply", {"reply": reply})).json() is True
        clock.advance("1s")
    other = await ann.post("/permission/call_7/reply", {"reply": "once"})
    assert (other.status_code, other.json()["_tag"]) == (404, "PermissionNotFoundError")


async def test_an_agent_cannot_answer_here_either(opened: Caller) -> None:
    await opened.ask("ses_1", "echo one", **ASKED)
    answer = await opened.post(REPLY, {"reply": "once"})
    assert (answer.status_code, answer.json()["name"]) == (403, "FORBIDDEN")


async def test_a_request_out_of_reach_is_not_there(opened: Caller, gateway: Served) -> None:
    stranger = await gateway.caller("approver", "eve", projects=("other",))
    await opened.ask("ses_1", "echo one", **ASKED)
    assert (await stranger.get("/permission")).json() == []
    assert (await stranger.post(REPLY, {"reply": "once"})).status_code == 404


async def test_a_token_as_password_of_basic_authentication_signs_in(gateway: Served, opened: Caller) -> None:
    token = (await gateway.ledger.tokens.create("ann", "approver")).text
    await opened.ask("ses_1", "echo one", **ASKED)
    nobody = gateway.caller_with(None)
    basic = b64encode(f"opencode:{token}".encode()).decode()
    assert (await nobody.get("/permission", Authorization=f"Basic {basic}")).json() == [RECORDED]
    wrong = b64encode(b"opencode:wrong").decode()
    for header in (f"Basic {wrong}", "Basic ???", "Digest x", f"Basic {basic[:-8]}"):
        assert (await nobody.get("/permission", Authorization=header)).status_code == 401
    elsewhere = await nobody.send(
        "POST", REPLY, {"reply": "once"}, Authorization=f"Basic {basic}", Origin="http://evil"
    )
    assert elsewhere.status_code == 403


async def events(answer: httpx.Response, count: int) -> list[dict[str, Any]]:
    """So many of them, each a `data:` line and an empty one, and nothing else."""
    found: list[dict[str, Any]] = []
    lines = answer.aiter_lines()
    async with asyncio.timeout(60):
        for _ in range(count):
            line = await anext(lines)
            assert line.startswith("data: ")
            assert await anext(lines) == ""
            found.append(msgspec.json.decode(line[6:]))
    return found


async def test_events_are_opencodes(opened: Caller, ann: Caller) -> None:
    async with (
        ann.http.stream("GET", "/event?directory=/src/shop") as one,
        ann.http.stream("GET", "/global/event") as all_,
    ):
        lines = one.aiter_lines()
        assert [await anext(lines), await anext(lines)] == ['data: {"type":"server.connected","properties":{}}', ""]
        await opened.put("/v1/sessions/other", {"project": "x", "cwd": "/src/other"})
        await opened.ask("other", request_id="per_0")
        await opened.ask("ses_1", "echo one", **ASKED)
        await ann.post(REPLY, {"reply": "always"})
        await opened.ask("ses_1", "rm x", request_id="per_3")
        await opened.post("/v1/sessions/ses_1/asks/per_3/cancel", {})
        seen: list[dict[str, Any]] = []
        async with asyncio.timeout(60):
            while len(seen) < 4:
                if (line := await anext(lines)) != "":
                    seen.append(msgspec.json.decode(line[6:]))
        wrapped = await events(all_, 6)
    for event in seen:
        assert event.pop("id").startswith("evt_")
    ids = {"sessionID": "ses_1", "requestID": ASKED["request_id"]}
    assert seen == [
        {"type": "permission.asked", "properties": RECORDED},
        {"type": "permission.replied", "properties": {**ids, "reply": "always"}},
        {"type": "permission.asked", "properties": seen[2]["properties"]},
        {"type": "permission.replied", "properties": {**ids, "requestID": "per_3", "reply": "reject"}},
    ]
    assert wrapped[0] == {"payload": {"type": "server.connected", "properties": {}}}
    assert [one.get("directory") for one in wrapped[1:]] == ["/src/other", *["/src/shop"] * 4]
    assert wrapped[2]["payload"]["properties"] == RECORDED

"""Bridges' calls to the gateway: one ask however often the connection breaks, and never an allow by silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from workers.bridges.options import BridgeOptions
from workers.bridges.tool_calls import CallVerdict, GatewayJudge, ToolCall
from workers.transport.gateway_client import GatewayClient, Row
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError, find_place, parse_place

RULES = {"permissions": {"allow": ["Bash(mytool *)"], "deny": ["Bash(rm *)"]}}


@pytest.fixture
async def client(gateway: RunningGateway) -> AsyncIterator[GatewayClient]:
    async with GatewayClient(gateway.agent_place) as client:
        await client.open_session("ses_1", dialect="claude", rules=RULES, project="shop")
        yield client


def bash(request_id: str, command: str) -> dict[str, Any]:
    return {"request_id": request_id, "tool_name": "Bash", "input": {"command": command}}


async def test_rules_decide_in_one_exchange(client: GatewayClient) -> None:
    allowed = await client.ask("ses_1", bash("r1", "mytool x"))
    denied = await client.ask("ses_1", bash("r2", "rm x"))
    assert [(row["outcome"], row["request_id"]) for row in (allowed, denied)] == [("allowed", "r1"), ("denied", "r2")]


async def test_a_person_is_waited_for_and_the_pending_row_is_shown_meanwhile(
    client: GatewayClient, gateway: RunningGateway
) -> None:
    seen: list[dict[str, Any]] = []
    asked = asyncio.create_task(client.ask("ses_1", bash("r1", "git push"), seen=seen.append))
    ann = gateway.person()
    shown = await ann.answer_next("ses_1", "once")
    row = await asked
    await ann.close()
    assert (row["outcome"], row["reply"], row["by"]) == ("allowed", "once", "ann")
    assert [one["request_id"] for one in seen] == [shown["request_id"]]


@pytest.mark.slow
@pytest.mark.usefixtures("killable_gateway")
async def test_a_gateway_that_was_killed_while_somebody_waits_is_found_again(
    client: GatewayClient, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    asked = asyncio.create_task(client.ask("ses_1", bash("r1", "git push")))
    await ann.waiting("ses_1")
    gateway.kill9()
    await asyncio.to_thread(gateway.start)
    await ann.answer_next("ses_1", "reject", message="not on a Friday")
    row = await asked
    types = [event["type"] for event in await ann.events("ses_1")]
    await ann.close()
    assert (row["outcome"], row["code"]) == ("corrected", "CORRECTED")
    assert types.count("asked") == 1


@pytest.mark.usefixtures("no_gateway")
async def test_a_gateway_that_stays_away_is_told_after_the_grace(gateway: RunningGateway) -> None:
    place = gateway.agent_place()
    async with GatewayClient(lambda: place, grace=0.2) as client:
        with pytest.raises(UnreachableError, match="the permission ledger cannot be reached"):
            await client.ask("ses_1", bash("r1", "git push"))


async def test_what_the_gateway_refuses_comes_with_its_code(client: GatewayClient) -> None:
    with pytest.raises(GatewayRefusalError) as caught:
        await client.ask("nowhere", bash("r1", "ls"))
    assert (caught.value.status, caught.value.code) == (404, "UNKNOWN_SESSION")


@pytest.mark.parametrize(
    ("url", "path", "host", "port", "tls"),
    [
        ("unix:/run/x.sock", "/run/x.sock", "gateway", 0, False),
        ("unix:///run/x.sock", "/run/x.sock", "gateway", 0, False),
        ("http://127.0.0.1:8420", None, "127.0.0.1", 8420, False),
        ("http://[::1]:8420/", None, "::1", 8420, False),
        ("https://permissions.example.com", None, "permissions.example.com", 443, True),
    ],
)
def test_an_address_names_a_socket_or_a_host(url: str, path: str | None, host: str, port: int, tls: bool) -> None:
    place = parse_place(url, "plt_1")
    assert (place.path, place.host, place.port, place.tls, place.token) == (path, host, port, tls, "plt_1")


@pytest.mark.parametrize("url", ["", "unix:", "ftp://x", "http://", "http://x:99999", "http://x/y", "http://a@b"])
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(BridgeError, match="is not a gateway's address"):
        parse_place(url, None)


def test_without_a_gateway_the_way_to_one_is_told(tmp_path: Any) -> None:
    with pytest.raises(UnreachableError, match="start `permission-ledger up`"):
        find_place({"PERMISSION_LEDGER_HOME": str(tmp_path)})


# --- judging ---------------------------------------------------------------------------------------------------------


def call(request_id: str, command: str = "git push") -> ToolCall:
    return ToolCall(request_id, "Bash", {"command": command})


@pytest.mark.usefixtures("no_gateway")
async def test_nobody_to_ask_is_a_deny_unless_the_agent_is_to_ask_itself(gateway: RunningGateway) -> None:
    place = gateway.agent_place()
    found = []
    async with GatewayClient(lambda: place, grace=0) as client:
        for said in ("deny", "agent"):
            options = BridgeOptions(on_unreachable="agent" if said == "agent" else "deny")
            found.append(await GatewayJudge(client, options, "ses_1", agent="a").judge(call("r1")))
    assert [verdict.behaviour for verdict in found] == ["deny", "agent"]
    assert found[0].message.startswith("denied, because nobody could be asked: ")


async def test_a_call_asked_again_under_another_id_attaches_once_its_asker_is_gone(gateway: RunningGateway) -> None:
    ann = gateway.person()
    async with GatewayClient() as client:
        judge = GatewayJudge(client, BridgeOptions(), "ses_1", agent="a")
        first = asyncio.create_task(judge.judge(call("r1")))
        await ann.waiting("ses_1")
        beside = asyncio.create_task(judge.judge(call("r2")))
        assert [row["request_id"] for row in await ann.waiting("ses_1", 2)] == ["r1", "r2"], "its asker still lives"
        first.cancel()
        await asyncio.wait([first])
        attached: list[str] = []
        again = asyncio.create_task(judge.judge(call("r3"), pending=lambda row: attached.append(row["request_id"])))
        await wait_until_async(lambda: attached == ["r1"], "the third to attach to the first")
        await ann.reply("ses_1", "r1", "once")
        verdict = await again
        assert (verdict.behaviour, verdict.request_id) == ("allow", "r1")
        after = asyncio.create_task(judge.judge(call("r4")))
        assert [row["request_id"] for row in await ann.waiting("ses_1", 2)] == ["r2", "r4"], "a once serves one call"
        for request_id in ("r2", "r4"):
            await judge.withdraw(request_id, "withdrawn")
        ended: tuple[CallVerdict, CallVerdict] = await asyncio.gather(beside, after)
        assert {(one.behaviour, one.outcome) for one in ended} == {("deny", "cancelled")}
    await ann.close()


async def test_a_request_answered_while_nobody_waited_is_asked_anew(gateway: RunningGateway) -> None:
    ann = gateway.person()
    async with GatewayClient() as client:
        judge = GatewayJudge(client, BridgeOptions(), "ses_1", agent="a")
        first = asyncio.create_task(judge.judge(call("r1")))
        await ann.waiting("ses_1")
        first.cancel()
        await asyncio.wait([first])
        await ann.reply("ses_1", "r1", "once")
        again = asyncio.create_task(judge.judge(call("r2")))
        await ann.answer_next("ses_1", "reject")
        assert (await again).behaviour == "deny"
    await ann.close()


class AnsweredWhenSeen(GatewayClient):
    """Ann answers `r1` as soon as an asker is present, before the asker's next read."""

    def __init__(self, gateway: RunningGateway, ann: Person) -> None:
        super().__init__()
        self._gateway = gateway
        self._ann = ann

    async def read(self, session: str, request_id: str, *, wait: float = 0) -> Row:
        if self._gateway.is_waited_for():
            with suppress(GatewayRefusalError):  # read once more, it is answered already
                await self._ann.reply(session, "r1", "once")
        return await super().read(session, request_id, wait=wait)


async def test_an_answer_given_once_the_next_asker_is_seen_to_wait_is_the_answer_to_it(
    gateway: RunningGateway,
) -> None:
    ann = gateway.person()
    async with AnsweredWhenSeen(gateway, ann) as client:
        judge = GatewayJudge(client, BridgeOptions(), "ses_1", agent="a")
        first = asyncio.create_task(judge.judge(call("r1")))
        await wait_until_async(gateway.is_waited_for, "the first to wait")
        first.cancel()
        await asyncio.wait([first])
        async with asyncio.timeout(60):
            verdict = await judge.judge(call("r2"))
    assert (verdict.behaviour, verdict.request_id) == ("allow", "r1")
    await ann.close()

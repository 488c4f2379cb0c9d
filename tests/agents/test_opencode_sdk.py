"""OpenCode's own JavaScript client (`@opencode-ai/sdk`), pointed at our gateway instead of an OpenCode server."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents.rpc_client import LONG_S
from tests.support.ends import End
from tests.support.gateways import RunningGateway
from tests.support.processes import free_port
from tests.support.servers import RealServer
from tests.support.waiting import wait_until, wait_until_async
from workers.transport.gateway_client import GatewayClient

pytestmark = [pytest.mark.agents("opencode-sdk"), pytest.mark.timeout(120)]

Row = dict[str, Any]

SCRIPT: Final = Path(__file__).with_name("opencode_sdk.mjs")
DIRECTORY: Final = "/home/me/the shop"
ASK: Final = {
    "permission": "bash",
    "patterns": ["git push"],
    "always": ["git push *"],
    "metadata": {"command": "git push"},
    "tool": {"message_id": "msg_1", "call_id": "call_1"},
}
"""A request as an agent sends it, without the agent's id for it."""


class Sdk:
    """A node process with the client, in its current form and in the older one."""

    def __init__(self, package: Path, url: str, token: str, directory: str = DIRECTORY) -> None:
        self._process = subprocess.Popen(
            ["node", str(SCRIPT), str(package), url, token, directory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdin
        assert self._process.stdout
        self._end = End(self._process.stdout, self._process.stdin)
        self._count = 0

    def call(self, client: str, *path: str, **parameters: Any) -> tuple[int, Any, Any]:
        """Call the client; return status, data and error."""
        self._count += 1
        rpc_id = self._count
        self._end.say({"id": rpc_id, "client": client, "path": path, "parameters": parameters})

        def found() -> list[Row]:
            return [one for one in self._end.messages if one.get("id") == rpc_id]

        [answer] = wait_until(found, f"the answer to {path}", LONG_S)
        return answer["status"], answer["data"], answer["error"]

    def events_of(self, origin: str, kind: str) -> list[Row]:
        """Return the events of a kind in one of its streams."""
        rows = [one["event"] for one in self._end.messages if one.get("from") == origin]
        payloads = [one["payload"] if origin == "today, all" else one for one in rows]
        return [one["properties"] for one in payloads if one["type"] == kind]

    def receives(self, kind: str, *properties: Row) -> None:
        """Check that each stream received these events of a kind, and no others."""
        for origin in ("today", "today, all", "older"):
            assert self._events_in_time(origin, kind, len(properties)) == list(properties), origin

    def _events_in_time(self, origin: str, kind: str, count: int) -> list[Row]:
        def enough() -> list[Row]:
            found = self.events_of(origin, kind)
            return found if len(found) >= count else []

        return wait_until(enough, f"{count} {kind} in {origin}", LONG_S)

    def close(self) -> None:
        self._end.close()
        try:
            self._process.wait(LONG_S)
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
        self._end.join()
        assert self._process.stdout
        self._process.stdout.close()


@pytest.fixture
def url() -> str:
    return f"http://127.0.0.1:{free_port()}"


@pytest.fixture
def gateway(server: RealServer, url: str) -> Iterator[RunningGateway]:
    """A gateway that also listens on TCP, the only transport of the client."""
    running = RunningGateway(server, "--listen", url.removeprefix("http://"))
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
async def agent(gateway: RunningGateway) -> AsyncIterator[GatewayClient]:
    """An agent in the directory that the client shows."""
    async with GatewayClient(gateway.agent_place) as client:
        await client.open_session("ses_1", cwd=DIRECTORY, dialect="opencode", project="shop")
        yield client


@pytest.fixture
def sdk(gateway: RunningGateway, agent: GatewayClient, program: Path, url: str) -> Iterator[Sdk]:
    """A client whose streams are all open: events are not repeated."""
    running = Sdk(program, url, gateway.token())
    running.receives("server.connected", {})
    yield running
    running.close()


def listed(request_id: str, session: str = "ses_1") -> Row:
    """Return the request as OpenCode's own server lists and publishes it."""
    return {
        "id": request_id,
        "sessionID": session,
        "permission": "bash",
        "patterns": ["git push"],
        "always": ["git push *"],
        "metadata": {"command": "git push"},
        "tool": {"messageID": "msg_1", "callID": "call_1"},
    }


async def outcome(agent: GatewayClient, request_id: str) -> tuple[str, str, Any]:
    row = await agent.read("ses_1", request_id, wait=LONG_S)
    return row["outcome"], row["reply"], row["feedback"]


async def test_it_lists_what_waits_and_is_told_of_it(sdk: Sdk, agent: GatewayClient) -> None:
    await agent.submit("ses_1", {**ASK, "request_id": "per_1"})
    assert sdk.call("today", "permission", "list") == (200, [listed("per_1")], None)
    assert sdk.call("today", "permission", "list", directory="/home/me/other") == (200, [], None)
    sdk.receives("permission.asked", listed("per_1"))


@pytest.mark.parametrize("reply", ["once", "always"])
async def test_it_allows_and_every_stream_says_so(sdk: Sdk, agent: GatewayClient, reply: str) -> None:
    await agent.submit("ses_1", {**ASK, "request_id": "per_1"})
    assert sdk.call("today", "permission", "reply", requestID="per_1", reply=reply) == (200, True, None)
    assert await outcome(agent, "per_1") == ("allowed", reply, None)
    sdk.receives("permission.replied", {"sessionID": "ses_1", "requestID": "per_1", "reply": reply})
    assert sdk.call("today", "permission", "list") == (200, [], None)
    again = await agent.submit("ses_1", {**ASK, "request_id": "per_2"})
    assert again["outcome"] == (None if reply == "once" else "allowed"), "an always is a grant"


async def test_it_rejects_with_words_and_what_else_waits_falls_with_that(sdk: Sdk, agent: GatewayClient) -> None:
    for request_id in ("per_1", "per_2"):
        await agent.submit("ses_1", {**ASK, "request_id": request_id})
    said = {"requestID": "per_1", "reply": "reject", "message": "use the other remote"}
    assert sdk.call("today", "permission", "reply", **said) == (200, True, None)
    assert await outcome(agent, "per_1") == ("corrected", "reject", "use the other remote")
    assert await outcome(agent, "per_2") == ("rejected", "reject", None)
    replied = [{"sessionID": "ses_1", "requestID": one, "reply": "reject"} for one in ("per_1", "per_2")]
    sdk.receives("permission.replied", *replied)


async def test_it_answers_in_a_session_by_the_older_way_in_both_its_forms(sdk: Sdk, agent: GatewayClient) -> None:
    for request_id in ("per_1", "per_2"):
        await agent.submit("ses_1", {**ASK, "request_id": request_id})
    said = {"sessionID": "ses_1", "permissionID": "per_1", "response": "once"}
    assert sdk.call("today", "permission", "respond", **said) == (200, True, None)
    older = {"path": {"id": "ses_1", "permissionID": "per_2"}, "body": {"response": "once"}}
    assert sdk.call("older", "postSessionIdPermissionsPermissionId", **older) == (200, True, None)
    assert [await outcome(agent, one) for one in ("per_1", "per_2")] == [("allowed", "once", None)] * 2


async def test_a_person_who_answered_elsewhere_was_first_and_it_is_told_as_opencode_would(
    sdk: Sdk, agent: GatewayClient, gateway: RunningGateway
) -> None:
    await agent.submit("ses_1", {**ASK, "request_id": "per_1"})
    bob = gateway.person("bob")
    await bob.reply("ses_1", "per_1", "once")
    await wait_until_async(lambda: bob.outcome("ses_1", "per_1"), "the answer")
    await bob.close()
    status, data, error = sdk.call("today", "permission", "reply", requestID="per_1", reply="reject")
    assert (status, data, error["_tag"], error["requestID"]) == (404, None, "PermissionNotFoundError", "per_1")
    sdk.receives("permission.replied", {"sessionID": "ses_1", "requestID": "per_1", "reply": "once"})


async def test_what_opencode_would_refuse_is_refused_in_its_words(sdk: Sdk, agent: GatewayClient) -> None:
    await agent.submit("ses_1", {**ASK, "request_id": "per_1"})
    refused = [
        sdk.call("today", "permission", "reply", requestID="per_1", reply="maybe"),
        sdk.call("today", "permission", "reply", requestID="per_9", reply="once"),
        sdk.call("today", "permission", "reply", requestID="x", reply="once"),
    ]
    assert [(status, data) for status, data, _ in refused] == [(400, None), (404, None), (400, None)]
    assert "PermissionNotFoundError" in json.dumps(refused[1][2])
    assert sdk.call("today", "permission", "list") == (200, [listed("per_1")], None), "and it still waits"

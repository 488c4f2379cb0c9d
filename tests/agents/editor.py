"""An editor that drives a real agent by ACP, behind the bridge or not."""

from __future__ import annotations

from typing import Any, Final

from tests.agents.rpc_client import Home, RpcClient

ASK: Final = "session/request_permission"


class Editor:
    """One session, new or loaded again, and one prompt in flight."""

    def __init__(self, client: RpcClient, model: Any, home: Home, *, load: str | None = None) -> None:
        self.client, self.model, self.home = client, model, home
        capabilities = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}
        client.call("initialize", {"protocolVersion": 1, "clientCapabilities": capabilities})
        about: dict[str, Any] = {"cwd": str(home.work), "mcpServers": []}
        if load is None:
            self.session: str = client.call("session/new", about)["sessionId"]
        else:
            client.call("session/load", {"sessionId": load, **about})
            self.session = load
        self._prompt = self.begin()

    def begin(self) -> int:
        said = [{"type": "text", "text": "do the work"}]
        return self.client.begin("session/prompt", {"sessionId": self.session, "prompt": said})

    def stop_reason(self) -> str:
        reason: str = self.client.ended(self._prompt)["stopReason"]
        return reason

    def cancel(self) -> None:
        self.client.end.say({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": self.session}})


async def causes(person: Any, session: str) -> list[str]:
    """Return the causes of the session's cancelled requests, in order."""
    return [row["event"]["cause"] for row in await person.events(session) if row["type"] == "cancelled"]


async def verdicts(person: Any, session: str) -> list[str]:
    """Return the verdict of the rules and grants on each request of a session, in order."""
    return [row["event"]["verdict"] for row in await person.events(session) if row["type"] == "asked"]

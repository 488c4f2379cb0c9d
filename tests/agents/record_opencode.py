"""Record the events of the real OpenCode's `question` tool: `python -m tests.agents.record_opencode FOLDER`.

The transcript `question` in tests/data/agents/opencode is made by this; ids, times and paths of the machine are replaced.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from tests.agents.clients import installed
from tests.agents.openai_model import Model, Turn, use
from tests.agents.opencode_client import LONG_S, OpenCodeClient
from tests.support.waiting import wait_until_async

Row = dict[str, Any]

COLOUR: Final = {
    "question": "Which colour?",
    "header": "Colour",
    "options": [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}],
}
SIZES: Final = {
    "question": "Which sizes?",
    "header": "Sizes",
    "multiple": True,
    "options": [{"label": "S", "description": "small"}, {"label": "L", "description": "large"}],
}
TURNS: Final[list[Turn]] = [
    [use("question", {"questions": [COLOUR, SIZES]}, "call_a")],
    [use("question", {"questions": [COLOUR]}, "call_b")],
    [use("question", {"questions": [COLOUR]}, "call_c")],
]
TOLD: Final = ("question.", "permission.", "session.idle", "message.part.updated", "server.connected")
TIMES: Final = frozenset({"time", "start", "end", "created"})
IDS: Final = re.compile(r"\b(evt|ses|msg|prt|que|per)_[0-9A-Za-z]{20,}")


class Recording:
    """Entries in order of arrival; an id is named by its kind and its first occurrence."""

    def __init__(self, client: OpenCodeClient) -> None:
        self.entries: list[Row] = []
        self._client = client

    async def follow(self) -> None:
        with suppress(asyncio.CancelledError):
            async with self._client.http.stream("GET", "/event", timeout=None) as answer:
                async for line in answer.aiter_lines():
                    event = json.loads(line.removeprefix("data:")) if line.startswith("data:") else {}
                    part = event.get("properties", {}).get("part", {"type": "tool"})
                    if event.get("type", "").startswith(TOLD) and part["type"] == "tool":
                        self.entries.append({"event": event})

    async def do(self, path: str, body: Row | None = None) -> None:
        answer = await self._client.http.post(path, json=body)
        self.entries.append({"did": f"POST {path}", "body": body, "status": answer.status_code})

    async def look(self, path: str) -> None:
        answer = await self._client.http.get(path)
        self.entries.append({"list": path, "status": answer.status_code, "body": answer.json()})

    async def wait(self, is_so: Callable[[Row], bool], count: int) -> list[Row]:
        def found() -> list[Row]:
            events = [one["event"] for one in self.entries if "event" in one and is_so(one["event"])]
            return events if len(events) >= count else []

        return await wait_until_async(found, f"{count} events", LONG_S)

    async def asked(self, count: int) -> str:
        """Return the id of the `count`-th question."""
        found = await self.wait(lambda event: event["type"] == "question.asked", count)
        request_id: str = found[-1]["properties"]["id"]
        return request_id

    def text(self, folder: Path) -> str:
        seen: dict[str, str] = {}
        counts: dict[str, int] = {}

        def named(match: re.Match[str]) -> str:
            if match[0] not in seen:
                counts[match[1]] = counts.get(match[1], 0) + 1
                seen[match[0]] = f"{match[1]}_{counts[match[1]]}"
            return seen[match[0]]

        lines = (json.dumps(_without_times(entry)) for entry in self.entries)
        text = "".join(f"{line}\n" for line in lines).replace(str(folder / "work"), "/home/me/shop")
        return IDS.sub(named, text)


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _without_times(one) for name, one in value.items() if name not in TIMES}


async def record(client: OpenCodeClient) -> Recording:
    """Record one question that is answered, one that is dismissed, and a third at which the agent is stopped."""
    recording = Recording(client)
    following = asyncio.create_task(recording.follow())
    await recording.wait(lambda event: event["type"] == "server.connected", 1)
    session = await client.begin()
    await recording.do(f"/question/{await recording.asked(1)}/reply", {"answers": [["Blue"], ["S", "L"]]})
    await recording.do(f"/question/{await recording.asked(2)}/reject")
    await recording.wait(lambda event: event["type"] == "session.idle", 1)
    await client.say(session)
    await recording.asked(3)
    await recording.do(f"/session/{session}/abort")
    await client.tool(session, "call_c")
    await recording.wait(lambda event: event["type"] == "session.idle", 2)
    for path in ("/session/status", "/permission", "/question"):
        await recording.look(path)
    following.cancel()
    await following
    return recording


def main() -> None:
    folder = Path(sys.argv[1])
    place = Path(tempfile.mkdtemp(prefix="record-"))
    model = Model(TURNS)
    client = OpenCodeClient(place, installed("opencode"), model)

    async def recorded() -> Recording:
        try:
            client.start()
            return await record(client)
        finally:
            await client.close()

    try:
        recording = asyncio.run(recorded())
    finally:
        model.close()
        shutil.rmtree(place)
    (folder / "question.jsonl").write_text(recording.text(place))
    sys.stdout.write(f"question: {len(recording.entries)} lines\n")


if __name__ == "__main__":
    main()

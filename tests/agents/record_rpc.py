"""Record the messages of real agents that use JSON lines and a plain host: `python -m tests.agents.record_rpc FOLDER`.

The transcripts `codex/sub-agent`, `codex/sub-agent-v2` and `acp/opencode-load` in tests/data/agents are made by this;
ids, times and paths of the machine are replaced.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from tests.agents.clients import installed
from tests.agents.editor import ASK
from tests.agents.openai_model import Model, bash
from tests.agents.rpc_client import LONG_S, MODEL, Home, RpcClient
from tests.agents.scripted_model import Call, ScriptedModel, Turn
from tests.support.processes import free_port
from tests.support.waiting import wait_until
from tests.workers.bridges.acp_talk import chosen
from tests.workers.bridges.codex_talk import decided

Message = dict[str, Any]

COMMAND: Final = "item/commandExecution/requestApproval"
IDS: Final = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|\b(?:ses|msg)_[0-9A-Za-z]{20,}")
TIMES: Final = re.compile(r"(At|AtMs|Ms)$")
KEPT: Final = ("session/", "thread/", "turn/", "item/", "serverRequest/")


class Talk:
    """The messages of host and agent, in order; a restarted agent continues the same recording."""

    def __init__(self, words: Sequence[str], home: Home, environment: dict[str, str]) -> None:
        self.entries: list[Message] = []
        self._start: Callable[[], RpcClient] = lambda: RpcClient(words, home, environment)
        self.client = self._start()
        self._taken = 0

    def again(self) -> None:
        self.close()
        self.client, self._taken = self._start(), 0

    def close(self) -> None:
        self._take()
        self.client.close()

    def _take(self) -> None:
        messages = self.client.end.messages
        for one in messages[self._taken :]:
            if "method" not in one or one["method"].startswith(KEPT):
                self.entries.append({"from": "agent", "message": one})
        self._taken = len(messages)

    def say(self, message: Message) -> None:
        self._take()
        self.entries.append({"from": "host", "message": message})
        self.client.end.say(message)

    def begin(self, method: str, params: Message) -> int:
        self._take()
        rpc_id = self.client.begin(method, params)
        self.entries.append({"from": "host", "message": {"id": rpc_id, "method": method, "params": params}})
        return rpc_id

    def call(self, method: str, params: Message) -> Message:
        return self.client.ended(self.begin(method, params))

    def text(self, place: Path) -> str:
        seen: dict[str, str] = {}
        lines = (json.dumps(_without_times(one)) for one in self.entries)
        text = "".join(f"{line}\n" for line in lines).replace(str(place / "work"), "/home/user/project")
        text = IDS.sub(lambda match: seen.setdefault(match[0], f"<{len(seen) + 1}>"), text)
        return text.replace(str(place), "/home/user")


def _without_times(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_times(one) for one in value]
    if not isinstance(value, dict):
        return value
    kept = {name: one for name, one in value.items() if not (TIMES.search(name) and isinstance(one, int))}
    return {name: _without_times(one) for name, one in kept.items()}


def codex_sub_agent(place: Path, namespace: str, more: Message, features: Sequence[str]) -> Talk:
    spawn = Call("spawn_agent", {"message": "work", **more}, "call_s", namespace=namespace)
    work: list[Turn] = [[Call("exec_command", {"cmd": "touch one"}, f"call_{number}")] for number in range(3)]
    home, model = Home(place), ScriptedModel([spawn], *work)
    talk = Talk([str(installed("codex")), "app-server"], home, home.codex(model.url, features=features))
    talk.call("initialize", {"clientInfo": {"name": "ide", "title": "IDE", "version": "1"}})
    talk.say({"method": "initialized"})
    about = {"approvalPolicy": "untrusted", "sandbox": "danger-full-access", "model": MODEL, "modelProvider": "test"}
    thread = talk.call("thread/start", {"cwd": str(home.work), **about})["thread"]["id"]
    talk.call("turn/start", {"threadId": thread, "input": [{"type": "text", "text": "do the work"}]})
    answered: set[int] = set()

    def both_ended() -> bool:
        for one in talk.client.said(COMMAND):
            if one["id"] not in answered:
                answered.add(one["id"])
                talk.say(decided(one["id"], "accept"))
        return len(talk.client.said("turn/completed")) == 2

    wait_until(both_ended, "both turns to end", LONG_S)
    talk.close()
    model.close()
    return talk


def opencode_load(place: Path) -> Talk:
    home, model = Home(place), Model([[bash("touch proof", "call_a")], [bash("touch proof", "call_b")]])
    words = [str(installed("opencode")), "acp", "--hostname", "127.0.0.1", "--port", str(free_port())]
    talk = Talk(words, home, home.opencode(model.url))
    begin = {"protocolVersion": 1, "clientCapabilities": {}}
    about: Message = {"cwd": str(home.work), "mcpServers": []}
    talk.call("initialize", begin)
    session = talk.call("session/new", about)["sessionId"]
    prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "do the work"}]}
    talk.begin("session/prompt", prompt)
    talk.client.received(ASK)
    talk.again()
    talk.call("initialize", begin)
    talk.call("session/load", {"sessionId": session, **about})
    prompted = talk.begin("session/prompt", prompt)
    [asked] = talk.client.received(ASK)
    talk.say(chosen(asked["id"], "once"))
    talk.client.ended(prompted)
    talk.close()
    model.close()
    return talk


RECORDINGS: Final[dict[str, Callable[[Path], Talk]]] = {
    "codex/sub-agent": lambda place: codex_sub_agent(place, "multi_agent_v1", {}, ()),
    "codex/sub-agent-v2": lambda place: codex_sub_agent(
        place, "collaboration", {"task_name": "below"}, ("multi_agent_v2",)
    ),
    "acp/opencode-load": opencode_load,
}


def main() -> None:
    folder = Path(sys.argv[1])
    for name, made in RECORDINGS.items():
        place = Path(tempfile.mkdtemp(prefix="record-"))
        try:
            talk = made(place)
        finally:
            shutil.rmtree(place)
        (folder / f"{name}.jsonl").write_text(talk.text(place))
        sys.stdout.write(f"{name}: {len(talk.entries)} lines\n")


if __name__ == "__main__":
    main()

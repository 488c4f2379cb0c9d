"""Record the messages of Codelia's real runtime and its host: `python -m tests.agents.record_codelia FOLDER`.

The transcripts in tests/data/agents/codelia are made by this; paths of the machine are replaced.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.agents.clients import installed
from tests.agents.openai_model import Model, Turn, use
from tests.agents.rpc_client import Home, RpcClient
from tests.support.waiting import wait_until

ASK: Final = "ui.confirm.request"
REJECTED: Final = "use the other folder"


class Scenario(NamedTuple):
    """`answers` in the order of the requests; None cancels the run."""

    turns: Sequence[Turn]
    answers: Sequence[dict[str, Any] | None]


def shell(name: str) -> dict[str, Any]:
    return use("shell", {"command": f"touch {name}"}, f"call_{name}")


SCENARIOS: Final[dict[str, Scenario]] = {
    "allowed": Scenario([[shell("proof")]], [{"ok": True}]),
    "rejected": Scenario([[shell("proof")], [shell("second")]], [{"ok": False, "reason": REJECTED}, {"ok": True}]),
    "stopped": Scenario([[shell("proof")]], [{"ok": False}]),
    "two-calls": Scenario([[shell("one"), shell("two")]], [{"ok": True}, {"ok": True}]),
    "edit": Scenario([[use("write", {"file_path": "new.txt", "content": "moon\n"}, "call_w")]], [{"ok": True}]),
    "cancelled": Scenario([[shell("proof")]], [None]),
}


class Recorder:
    """A host that records all messages, in order."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client
        self._taken = 0
        self.entries: list[dict[str, str]] = []

    def take(self) -> None:
        for line in self._client.end.lines[self._taken :]:
            self.entries.append({"dir": "from_client", "line": line.decode().rstrip("\n")})
            self._taken += 1

    def tell(self, message: dict[str, Any]) -> None:
        self.take()
        self.entries.append({"dir": "to_client", "line": json.dumps(message)})
        self._client.end.say(message)

    def call(self, name: str, method: str, params: dict[str, Any]) -> Any:
        """Return the result of a request."""
        self.tell({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        [answer] = wait_until(
            lambda: [one for one in self._client.end.messages if one.get("id") == name and "method" not in one],
            f"the end of {name}",
            60,
        )
        return answer["result"]


def record(client: RpcClient, scenario: Scenario) -> list[dict[str, str]]:
    host = Recorder(client)
    about = {"name": "codelia-tui", "version": "0.1.80"}
    capabilities = {"supports_confirm": True, "supports_prompt": True}
    host.call("init", "initialize", {"protocol_version": "0", "client": about, "ui_capabilities": capabilities})
    run = host.call("run", "run.start", {"input": {"type": "text", "text": "do the work"}})["run_id"]
    for count, answer in enumerate(scenario.answers, 1):
        asked = client.received(ASK, count)[count - 1]
        if answer is None:
            host.call("stop", "run.cancel", {"run_id": run})
        host.tell({"jsonrpc": "2.0", "id": asked["id"], "result": answer or {"ok": False}})
    wait_until(
        lambda: [one for one in client.said("run.status") if one["params"]["status"] in ("completed", "cancelled")],
        "the end of the run",
        60,
    )
    host.take()
    return host.entries


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, scenario in SCENARIOS.items():
        place = Path(tempfile.mkdtemp(prefix="record-"))
        model, home = Model(scenario.turns), Home(place)
        client = RpcClient([str(installed("codelia"))], home, home.codelia(model.url))
        try:
            entries = record(client, scenario)
        finally:
            client.close()
            model.close()
            shutil.rmtree(place)
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(text.replace(str(place), "/room"))
        sys.stdout.write(f"{name}: {len(entries)} lines\n")


if __name__ == "__main__":
    main()

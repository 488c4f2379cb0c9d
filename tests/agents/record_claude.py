"""Record the messages of the real Claude Code and its host: `python -m tests.agents.record_claude FOLDER [NAME…]`.

The transcripts in tests/data/agents/claude are made by this; paths of the machine are replaced.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.agents.anthropic_model import DONE, Model, Turn, bash, use
from tests.agents.claude_client import Client, Room
from tests.agents.clients import installed
from tests.support.waiting import wait_until

REJECTED: Final = (
    "The user rejected permission to use this specific tool call with the following feedback: use the other folder"
)
TASK: Final = {"description": "look", "prompt": "count the beans", "subagent_type": "general-purpose"}
COLOURS: Final = [{"label": "Red", "description": "warm"}, {"label": "Blue", "description": "cold"}]
QUESTION: Final = {
    "questions": [{"question": "Which colour?", "header": "Colour", "multiSelect": False, "options": COLOURS}]
}


class Scenario(NamedTuple):
    """`answers` by call id, given in this order once all of them are asked; None interrupts.

    `later` are answers to later requests. `words` are options of the client.
    """

    turns: Sequence[Turn]
    answers: Mapping[str, Mapping[str, Any]] | None
    agents: Mapping[str, Sequence[Turn]] = {}
    later: Mapping[str, Mapping[str, Any]] = {}
    words: Sequence[str] = ()


def allow(tool_input: Any) -> dict[str, Any]:
    return {"behavior": "allow", "updatedInput": tool_input}


def asked(block: Mapping[str, Any]) -> Any:
    return block["input"]


ONE: Final = bash("touch proof", "toolu_1")
READS: Final = [use("Read", {"file_path": f"/etc/{name}"}, f"toolu_{name}") for name in ("hostname", "passwd")]
BEANS: Final = bash("touch beans", "toolu_2")
PLANNING: Final = ("--permission-mode", "plan")
PLAN: Final = use("ExitPlanMode", {"plan": "1. touch proof\n"}, "toolu_1")
BETTER_PLAN: Final = use("ExitPlanMode", {"plan": "1. look first\n2. touch proof\n"}, "toolu_2")

SCENARIOS: Final[dict[str, Scenario]] = {
    "allowed": Scenario([[ONE]], {"toolu_1": allow(asked(ONE))}),
    "rejected": Scenario([[ONE]], {"toolu_1": {"behavior": "deny", "message": REJECTED}}),
    "corrected": Scenario([[ONE]], {"toolu_1": allow({"command": "touch corrected"})}),
    "parallel": Scenario(
        [READS],
        {
            "toolu_passwd": {"behavior": "deny", "message": REJECTED},
            "toolu_hostname": allow(asked(READS[0])),
        },
    ),
    "sub-agent": Scenario(
        [[use("Agent", TASK, "toolu_1")]],
        {"toolu_2": allow(asked(BEANS))},
        {"count the beans": [[BEANS], DONE]},
    ),
    "question": Scenario(
        [[use("AskUserQuestion", QUESTION, "toolu_1")]],
        {"toolu_1": allow({**QUESTION, "answers": {"Which colour?": "Blue"}})},
    ),
    "plan": Scenario(
        [[PLAN], [BETTER_PLAN]],
        {"toolu_1": {"behavior": "deny", "message": REJECTED}},
        later={"toolu_2": allow(asked(BETTER_PLAN))},
        words=PLANNING,
    ),
    "interrupted": Scenario([[ONE]], None),
}


def record(client: Client, scenario: Scenario) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = []
    count = 0

    def take() -> None:
        nonlocal count
        for line in client.raw[count:]:
            entries.append({"dir": "from_client", "line": line.decode().rstrip("\n")})
            count += 1

    def send(message: dict[str, Any]) -> None:
        take()
        entries.append({"dir": "to_client", "line": json.dumps(message)})
        client.send(message)

    said = {"role": "user", "content": "do the work"}
    send({"type": "user", "session_id": "", "parent_tool_use_id": None, "message": said})
    if scenario.answers is None:
        wait_until(client.requests, "the question", 40)
        send({"type": "control_request", "request_id": "stop", "request": {"subtype": "interrupt"}})
    for answers in filter(None, (scenario.answers, scenario.later)):
        control_ids = wait_until(partial(_asked_about, client, answers), "the questions", 40)
        for call_id, answer in answers.items():
            response = {"subtype": "success", "request_id": control_ids[call_id], "response": answer}
            send({"type": "control_response", "response": response})
    client.result()
    client.end()
    take()
    return entries


def _asked_about(client: Client, answers: Mapping[str, Any]) -> dict[str, str]:
    """Return the control ids of calls by call id, once all of these are asked about; empty until then."""
    asked_ids = {one["request"]["tool_use_id"]: str(one["request_id"]) for one in client.requests()}
    return asked_ids if set(answers) <= set(asked_ids) else {}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or SCENARIOS:
        scenario = SCENARIOS[name]
        place = Path(tempfile.mkdtemp(prefix="record-"))
        model = Model(scenario.turns, scenario.agents)
        try:
            entries = record(Room(place, installed("claude"), model).start(*scenario.words), scenario)
        finally:
            model.close()
            shutil.rmtree(place)
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{name}.jsonl").write_text(_scrubbed(text, place))
        sys.stdout.write(f"{name}: {len(entries)} lines\n")


def _scrubbed(text: str, place: Path) -> str:
    # The client writes paths with their slashes as dashes too.
    return text.replace(str(place), "/room").replace(str(place).replace("/", "-"), "-room")


if __name__ == "__main__":
    main()

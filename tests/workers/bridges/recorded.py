"""Conversations of real agents with a plain host, recorded: a line a message, with who said it."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from tests.support.processes import ROOT
from workers.bridges.race import RpcQuestion, Wire

PLAYER: Final = (sys.executable, "-I", "-S", str(ROOT / "tests" / "support" / "transcript_player.py"))
"""The program that plays a recorded client: the path of its recording follows."""

FOLDER: Final = ROOT / "tests" / "data" / "agents"


def conversation(name: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the messages of a recording, each with its sender, `agent` or `host`."""
    rows = [json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
    return [(row["from"], row["message"]) for row in rows]


def questions_in(name: str, wire: Wire) -> list[RpcQuestion]:
    """Return the agent's questions in a conversation that the wire reads as a bridge would."""
    found = []
    for origin, message in conversation(name):
        if origin == "host":
            wire.heard_from_host(message)
            continue
        asked = wire.question_of(message)
        assert not isinstance(asked, str), asked
        if asked is None:
            wire.heard_from_agent(message)
        else:
            found.append(asked)
    return found

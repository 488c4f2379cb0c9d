"""Journeys of the real Claude Code at a terminal, with our hooks: its prompt and the inbox ask at the same time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.agents.anthropic_model import Model, bash
from tests.agents.claude_client import BRIDGE, Room
from tests.agents.terminal import Terminal
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until, wait_until_async

pytestmark = [pytest.mark.agents("claude", older="claude-older"), pytest.mark.timeout(180)]

PROMPT: Final = "Do you want to proceed?"
SESSION: Final = "ses_terminal"

Open = Callable[..., Terminal]


@pytest.fixture
def room(tmp_path: Path, program: Path) -> Iterator[Room]:
    model = Model([])
    place = Room(tmp_path, program, model)
    config = json.loads((place.config / ".claude.json").read_text())
    answered = {"theme": "dark", "customApiKeyResponses": {"approved": ["none"], "rejected": []}}
    (place.config / ".claude.json").write_text(json.dumps({**config, **answered}))
    yield place
    model.close()


@pytest.fixture
def sit_down(room: Room, gateway: RunningGateway) -> Iterator[Open]:
    """Start the client at a terminal, with our hooks for this run, and give it its work."""
    terminals: list[Terminal] = []

    def sat_down(*options: str, command: str) -> Terminal:
        room.model.turns = [[bash(command, "toolu_1")]]
        environment = room.environment({"PERMISSION_LEDGER_HOME": str(gateway.home)})
        words = [*BRIDGE, "--session", SESSION, *options, "--", str(room.program)]
        terminal = Terminal(words, room.work, environment)
        terminals.append(terminal)
        terminal.wait_for("\u276f", "the client's own prompt")
        terminal.press("do the work")
        terminal.wait_for("do the work", "what was typed")
        press = terminal.pressing("\r", 10.0)

        def is_asked() -> bool:
            press()
            return room.model.conversation != ""

        wait_until(is_asked, "the model to be asked")
        return terminal

    yield sat_down
    for terminal in terminals:
        terminal.close()


async def test_the_inbox_answers_and_the_prompt_at_the_terminal_is_gone(
    sit_down: Open, room: Room, gateway: RunningGateway
) -> None:
    terminal = sit_down(command="touch proof")
    ann = gateway.person()
    terminal.wait_for(PROMPT, "the client's question")
    await ann.answer_next(SESSION, "once")
    await wait_until_async((room.work / "proof").exists, "the tool to run", 30)
    terminal.wait_for("Done.", "the end of the turn")
    await ann.close()


@pytest.mark.parametrize(("key", "reply", "ran"), [("\r", "once", True), ("\x1b", "reject", False)])
async def test_what_is_answered_at_the_terminal_counts_as_what_it_is(
    sit_down: Open, room: Room, gateway: RunningGateway, *, key: str, reply: str, ran: bool
) -> None:
    terminal = sit_down(command="touch proof")
    ann = gateway.person()
    await ann.waiting(SESSION)
    terminal.wait_for(PROMPT, "the client's question")
    await wait_until_async(gateway.is_waited_for, "the hook at the prompt to wait", 30)
    press = terminal.pressing(key, 3.0)

    async def answers() -> list[Any]:
        press()
        rows = await ann.events(SESSION)
        return [
            (row["event"]["reply"], row["event"].get("told", row["actor"]["via"]))
            for row in rows
            if row["type"] == "replied"
        ]

    assert await wait_until_async(answers, "the answer in the log", 30) == [(reply, "claude-code")]
    assert ((room.work / "proof").exists(), await ann.pending(SESSION)) == (ran, [])
    assert "cancelled" not in [row["type"] for row in await ann.events(SESSION)]
    await ann.close()


async def test_with_the_hook_before_the_call_alone_the_terminal_asks_nobody(
    sit_down: Open, room: Room, gateway: RunningGateway
) -> None:
    terminal = sit_down("--event", "PreToolUse", command="touch proof")
    ann = gateway.person()
    await ann.answer_next(SESSION, "once")
    await wait_until_async((room.work / "proof").exists, "the tool to run", 30)
    assert "".join(PROMPT.split()) not in terminal.shown()
    await ann.close()

"""Claude Code's hooks where a person sits at its terminal: there and in the inbox is asked at once, and both count."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until_async
from tests.workers.bridges.test_hook_claude import SESSION, Hook, ended, event, hook
from workers.bridges.hooks.claude import Transcript
from workers.bridges.hooks.exchange import HookProcess

__all__ = ["hook"]

BOTH: Final = ("--event", "both")
NO: Final = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit)."
)


class Prompt:
    """The client's part: one call, its hooks at a terminal, and its transcript."""

    def __init__(self, hook: Hook, folder: Path) -> None:
        self.hook = hook
        self.transcript = folder / "transcript.jsonl"
        hook.more = {"CLAUDE_CODE_ENTRYPOINT": "cli"}

    def event(self, call_id: str | None, name: str, command: str = "git push", **more: Any) -> dict[str, Any]:
        return event(command, call_id, name, transcript_path=str(self.transcript), **more)

    def calls(self, call_id: str, command: str = "git push") -> None:
        block = {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": command}}
        self._write("assistant", block)

    def says_no(self, call_id: str, words: str = "") -> None:
        said = f"{NO} To tell you how to proceed, the user said:\n{words}" if words else f"{NO} STOP what you are doing"
        self._write("user", {"type": "tool_result", "tool_use_id": call_id, "is_error": True, "content": said})

    def _write(self, role: str, block: dict[str, Any]) -> None:
        with self.transcript.open("a") as file:
            file.write(json.dumps({"type": role, "message": {"role": role, "content": [block]}}) + "\n")


@pytest.fixture
def prompt(hook: Hook, tmp_path: Path) -> Prompt:
    return Prompt(hook, tmp_path)


async def endings(person: Any) -> list[tuple[str, Any]]:
    """Return how requests ended, in order: the reply or cause, and the place of the answer."""
    kinds = ("replied", "cancelled")
    rows = [row for row in await person.events(SESSION) if row["type"] in kinds]
    return [
        (row["event"].get("reply") or row["event"]["cause"], row["event"].get("told", row["actor"]["via"]))
        for row in rows
    ]


async def waiting(prompt: Prompt, gateway: RunningGateway, person: Any) -> Any:
    """Both hooks of a call, up to where a person is asked in both places; the one that waits."""
    prompt.calls("toolu_1")
    code, said = prompt.hook(prompt.event("toolu_1", "PreToolUse"), *BOTH)
    assert (code, said["permissionDecision"]) == (0, "ask")
    asking = prompt.hook.start(prompt.event(None, "PermissionRequest"), *BOTH)
    await person.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook at the prompt to wait")
    assert [row["request_id"] for row in await person.pending(SESSION)] == ["toolu_1"]
    return asking


async def test_the_inbox_answers_the_prompt_that_the_terminal_shows(prompt: Prompt, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = await waiting(prompt, gateway, ann)
    await ann.reply(SESSION, "toolu_1", "once")
    assert ended(asking)[1]["decision"] == {"behavior": "allow"}
    await ann.close()


async def test_a_yes_at_the_terminal_is_an_answer_and_not_a_withdrawal(prompt: Prompt, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = await waiting(prompt, gateway, ann)
    assert prompt.hook(prompt.event("toolu_1", "PostToolUse"), *BOTH) == (0, None)
    assert ended(asking) == (0, None), "the prompt is gone, and there is nothing left to answer"
    assert await endings(ann) == [("once", "claude-code")]
    ran = [row["event"]["request_id"] for row in await ann.events(SESSION) if row["type"] == "tool_finished"]
    assert ran == ["toolu_1"]
    await ann.close()


@pytest.mark.parametrize("words", ["", "use the other branch"])
async def test_a_no_at_the_terminal_is_a_rejection_with_its_words(
    prompt: Prompt, gateway: RunningGateway, words: str
) -> None:
    ann = gateway.person()
    asking = await waiting(prompt, gateway, ann)
    prompt.says_no("toolu_1", words)
    assert ended(asking) == (0, None)
    assert await endings(ann) == [("reject", "claude-code")]
    [said] = [row["event"] for row in await ann.events(SESSION) if row["type"] == "replied"]
    assert said.get("detail", {}).get("message", "") == words
    await ann.close()


async def test_a_no_that_is_written_when_the_client_has_ended_the_hook_counts_too(
    prompt: Prompt, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    asking = await waiting(prompt, gateway, ann)
    prompt.says_no("toolu_1")
    os.killpg(asking.pid, signal.SIGTERM)
    asking.communicate(timeout=60)

    async def found() -> list[tuple[str, Any]]:
        return await endings(ann)

    assert await wait_until_async(found, "the answer in the log") == [("reject", "claude-code")]
    await ann.close()


@pytest.mark.parametrize("request_id", ["toolu_1", "hook_1"])
def test_a_no_counts_when_the_signal_comes_while_it_is_read(prompt: Prompt, request_id: str) -> None:
    heard: list[str | None] = []

    class Interrupted(Transcript):
        def _hear(self, line: bytes) -> None:
            if not heard:
                heard.append("nothing yet")
                heard[0] = self.rejection_at_the_end(request_id)
            super()._hear(line)

    watched = Interrupted(str(prompt.transcript), "Bash", {"command": "git push"}, HookProcess())
    prompt.calls("toolu_1")
    prompt.says_no("toolu_1", "too early")
    assert watched.rejection(request_id) == "too early"
    assert heard == ["too early"]


async def test_a_no_to_an_earlier_call_with_the_same_input_is_none_to_this_one(
    prompt: Prompt, gateway: RunningGateway
) -> None:
    prompt.calls("toolu_0")
    prompt.says_no("toolu_0")
    ann = gateway.person()
    asking = await waiting(prompt, gateway, ann)
    await ann.reply(SESSION, "toolu_1", "once")
    assert ended(asking)[1]["decision"] == {"behavior": "allow"}
    await ann.close()


async def test_without_a_terminal_or_in_a_mode_without_prompts_the_first_hook_waits_itself(
    prompt: Prompt, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    for call_id, entry, mode in (("toolu_1", "sdk-cli", "default"), ("toolu_2", "cli", "bypassPermissions")):
        prompt.hook.more = {"CLAUDE_CODE_ENTRYPOINT": entry}
        asked = {**prompt.event(call_id, "PreToolUse", f"git push {call_id}"), "permission_mode": mode}
        asking = prompt.hook.start(asked, *BOTH)
        await ann.answer_next(SESSION, "once")
        assert ended(asking)[1]["permissionDecision"] == "allow"
    await ann.close()


async def test_what_rules_decide_is_decided_before_the_prompt(prompt: Prompt) -> None:
    allowed = prompt.hook(prompt.event("toolu_1", "PreToolUse", "mytool x"), *BOTH)
    denied = prompt.hook(prompt.event("toolu_2", "PreToolUse", "rm x"), *BOTH)
    assert [said["permissionDecision"] for _, said in (allowed, denied)] == ["allow", "deny"]


async def test_what_another_hook_refused_after_ours_is_withdrawn_at_the_end_of_the_turn(
    prompt: Prompt, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    prompt.hook(prompt.event("toolu_1", "PreToolUse"), *BOTH)
    assert [row["request_id"] for row in await ann.pending(SESSION)] == ["toolu_1"]
    prompt.hook({"session_id": SESSION, "cwd": "/tmp", "hook_event_name": "Stop"}, *BOTH)
    assert await ann.pending(SESSION) == []
    await ann.close()


async def test_the_prompt_alone_counts_what_its_terminal_answers_as_well(
    prompt: Prompt, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    prompt.calls("toolu_1")
    asking = prompt.hook.start(prompt.event(None, "PermissionRequest"))
    await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook at the prompt to wait")
    prompt.says_no("toolu_1", "not today")
    assert ended(asking) == (0, None)
    assert await endings(ann) == [("reject", "claude-code")]
    await ann.close()

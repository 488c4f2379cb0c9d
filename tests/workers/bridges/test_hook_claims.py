"""Hooks claim a call in the exchange that asks about it, right before the agent is told; two hooks of it are one runner."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import start_line
from tests.support.gateways import Person, RunningGateway
from tests.support.waiting import wait_until_async
from workers.bridges.hook_entries import own_line

SESSION: Final = "5b0e"
RULES: Final = {
    "claude": {"permissions": {"allow": ["Bash(mytool *)"]}},
    "codex": {"permission": {"bash": {"mytool *": "allow"}}},
    "gemini": {"permission": {"bash": {"mytool *": "allow"}}},
    "qwen": {"permission": {"bash": {"mytool *": "allow"}}},
}
CLAIMS: Final = ("asked", "replied", "claimed", "claim_released", "end_unknown", "tool_finished")

Started = Callable[..., subprocess.Popen[str]]
Run = Callable[..., dict[str, Any]]


@pytest.fixture
def start(gateway: RunningGateway, tmp_path: Path) -> Started:
    def run(agent: str, event: dict[str, Any], *words: str) -> subprocess.Popen[str]:
        rules = tmp_path / f"{agent}.json"
        rules.write_text(json.dumps(RULES[agent]))
        return start_line(own_line(agent, ["--rules", str(rules), *words]), event, gateway.environment)

    return run


@pytest.fixture
def run(start: Started) -> Run:
    def to_its_end(agent: str, event: dict[str, Any], *words: str) -> dict[str, Any]:
        return answer_of(start(agent, event, *words))

    return to_its_end


def answer_of(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return what the hook said, with its exit code and complaint."""
    out, complaint = process.communicate(timeout=60)
    found: dict[str, Any] = json.loads(out) if out else {}
    return {**found.get("hookSpecificOutput", found), "code": process.returncode, "complaint": complaint}


def claude(
    command: str = "mytool x", call_id: str = "toolu_1", name: str = "PreToolUse", **more: Any
) -> dict[str, Any]:
    said = {"session_id": SESSION, "cwd": "/tmp", "hook_event_name": name, "permission_mode": "default"}
    call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": call_id}
    return {**said, **({} if name in ("Stop", "SessionEnd") else call), **more}


async def told(ann: Person, session: str = SESSION) -> list[str]:
    return [row["type"] for row in await ann.events(session) if row["type"] in CLAIMS]


async def test_a_call_that_a_rule_allows_is_claimed_in_the_exchange_that_asks(run: Run, ann: Person) -> None:
    assert run("claude", claude())["permissionDecision"] == "allow"
    asked, claimed = (await ann.events(SESSION))[1:]
    assert (asked["type"], claimed["type"], claimed["event"]["runner"]) == ("asked", "claimed", "claude-code 5b0e")
    assert asked["at"] == claimed["at"], "one append"


async def test_two_hooks_of_one_call_are_one_runner(run: Run, ann: Person) -> None:
    first, second = run("claude", claude()), run("claude", claude())
    assert (first["permissionDecision"], second["permissionDecision"]) == ("allow", "allow")
    assert await told(ann) == ["asked", "claimed"]


async def test_another_client_with_the_same_call_is_refused(run: Run, ann: Person) -> None:
    words = ("--session", "shared")
    assert run("claude", claude(), *words)["permissionDecision"] == "allow"
    other = run("claude", claude(session_id="7c1f"), *words)
    assert other["permissionDecision"] == "deny"
    assert "was claimed by `claude-code 5b0e`" in other["permissionDecisionReason"]
    assert await told(ann, "shared") == ["asked", "claimed"]


async def test_the_end_that_the_client_reports_ends_the_claim_and_the_call_does_not_run_again(
    run: Run, ann: Person
) -> None:
    run("claude", claude())
    assert run("claude", claude(name="PostToolUse"))["code"] == 0
    claimed, finished = (await ann.events(SESSION))[-2:]
    assert finished["event"]["claim_id"] == claimed["event"]["claim_id"]
    again = run("claude", claude())
    assert again["permissionDecision"] == "deny"
    assert "has run already" in again["permissionDecisionReason"]


@pytest.mark.parametrize("name", ["Stop", "SessionEnd"])
async def test_at_the_end_of_the_turn_or_the_client_a_claim_without_an_end_may_have_run(
    run: Run, ann: Person, name: str
) -> None:
    run("claude", claude())
    run("claude", claude("mytool y", "toolu_2", session_id="7c1f"), "--session", SESSION)
    ended = run("claude", claude(name=name))
    assert (ended["code"], ended["complaint"]) == (0, "")
    assert await told(ann) == ["asked", "claimed", "asked", "claimed", "end_unknown"]
    last = (await ann.events(SESSION))[-1]["event"]
    assert (last["request_id"], last["cause"]) == ("toolu_1", "agent_ended")


async def test_an_answer_is_claimed_when_it_comes(start: Started, ann: Person) -> None:
    asking = start("claude", claude("git push"))
    await ann.answer_next(SESSION, "once")
    assert answer_of(asking)["permissionDecision"] == "allow"
    assert await told(ann) == ["asked", "replied", "claimed"]


async def test_a_request_of_a_killed_hook_is_claimed_by_the_one_that_takes_it_over(
    start: Started, ann: Person, gateway: RunningGateway
) -> None:
    dying = start("claude", claude("git push"), "--limit", "1")
    assert "still pending" in answer_of(dying)["permissionDecisionReason"]
    asking = start("claude", claude("git push", "toolu_2"))
    await wait_until_async(gateway.is_waited_for, "the second hook to attach")
    await ann.answer_next(SESSION, "once")
    assert answer_of(asking)["permissionDecision"] == "allow"
    assert await told(ann) == ["asked", "replied", "claimed"]


@pytest.mark.parametrize(
    ("agent", "event", "runner"),
    [
        (
            "codex",
            {
                "hook_event_name": "PreToolUse",
                "session_id": SESSION,
                "turn_id": "t1",
                "tool_use_id": "c1",
                "tool_name": "Bash",
                "tool_input": {"command": "mytool x"},
                "cwd": "/tmp",
            },
            "codex 5b0e",
        ),
        (
            "gemini",
            {
                "hook_event_name": "BeforeTool",
                "session_id": SESSION,
                "tool_name": "run_shell_command",
                "tool_input": {"command": "mytool x"},
                "cwd": "/tmp",
            },
            "gemini 5b0e",
        ),
        (
            "qwen",
            {
                "hook_event_name": "PreToolUse",
                "session_id": SESSION,
                "tool_use_id": "u1",
                "tool_call_id": "c1",
                "tool_name": "run_shell_command",
                "tool_input": {"command": "mytool x"},
                "cwd": "/tmp",
            },
            "qwen 5b0e",
        ),
    ],
    ids=["codex", "gemini", "qwen"],
)
async def test_every_hook_claims(run: Run, ann: Person, agent: str, event: dict[str, Any], runner: str) -> None:
    assert run(agent, event)["code"] == 0
    assert await told(ann) == ["asked", "claimed"]
    assert (await ann.events(SESSION))[-1]["event"]["runner"] == runner


async def test_the_claim_of_a_corrected_call_that_the_agent_does_not_take_is_given_back(
    start: Started, ann: Person
) -> None:
    event = {
        "hook_event_name": "PreToolUse",
        "session_id": SESSION,
        "tool_use_id": "u1",
        "tool_name": "run_shell_command",
        "tool_input": {"command": "git push"},
        "cwd": "/tmp",
    }
    asking = start("qwen", event)
    await ann.answer_next(SESSION, "once", updated_input={"command": "git push --dry-run"})
    assert answer_of(asking)["permissionDecision"] == "deny"
    assert await told(ann) == ["asked", "replied", "claimed", "claim_released"]

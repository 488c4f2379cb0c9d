"""Claude Code's hooks as the very line that is installed runs them: a deny or an allow, and never silence by mistake."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.forks import HOOK, run, start_line
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until_async
from workers.bridges.hook_entries import AGENT, own_line

SESSION: Final = "5b0e"
MODULES_MAX: Final = ("asyncio", "ssl", "http", "typing", "socket", "pathlib", "urllib", "hashlib", "msgspec", "click")
"""Modules that would slow down the start of a hook."""

LEAVES: Final = {"ledger", "ledger.core", "ledger.core.regular_files"}
"""The parts of the ledger that a hook reads files with; they import the fast part of the standard library alone."""


class Hook:
    """Runs the installed line on an event."""

    def __init__(self, gateway: RunningGateway, rules: Path) -> None:
        self.gateway = gateway
        self.rules = rules
        self.more: dict[str, str] = {}

    def start(self, event: dict[str, Any], *words: str) -> subprocess.Popen[str]:
        environment = {**self.gateway.environment, **self.more}
        return start_line(own_line(AGENT, ["--rules", str(self.rules), *words]), event, environment)

    def __call__(self, event: dict[str, Any], *words: str) -> tuple[int, Any]:
        """Exit code and the part of the answer that is about this event."""
        return ended(self.start(event, *words))


def ended(process: subprocess.Popen[str]) -> tuple[int, Any]:
    out, _ = process.communicate(timeout=60)
    return process.returncode, json.loads(out)["hookSpecificOutput"] if out else None


@pytest.fixture
def hook(gateway: RunningGateway, tmp_path: Path) -> Hook:
    rules = tmp_path / "rules.json"
    rules.write_text(
        json.dumps({"permissions": {"allow": ["Bash(mytool *)"], "deny": ["Bash(rm *)"]}, "env": {"K": "s"}})
    )
    return Hook(gateway, rules)


def event(command: str, call_id: str | None = "toolu_1", name: str = "PreToolUse", **more: Any) -> dict[str, Any]:
    said = {"session_id": SESSION, "cwd": "/tmp", "hook_event_name": name, "permission_mode": "default"}
    call = {"tool_name": "Bash", "tool_input": {"command": command}}
    return {**said, **call, **({} if call_id is None else {"tool_use_id": call_id}), **more}


def test_rules_allow_and_deny(hook: Hook) -> None:
    allowed, denied = hook(event("mytool x")), hook(event("rm x", "toolu_2"))
    assert (allowed[0], allowed[1]["permissionDecision"]) == (0, "allow")
    assert (denied[0], denied[1]["permissionDecision"]) == (0, "deny")
    assert "rm" in denied[1]["permissionDecisionReason"]


def deny_pushes(hook: Hook) -> None:
    hook.rules.write_text(json.dumps({"permissions": {"allow": ["Bash(mytool *)"], "deny": ["Bash(git push *)"]}}))


def test_rules_that_were_changed_since_the_last_call_judge_the_next_one(hook: Hook) -> None:
    assert hook(event("mytool x"))[1]["permissionDecision"] == "allow"
    deny_pushes(hook)
    code, said = hook(event("git push origin", "toolu_2"))
    assert (code, said["permissionDecision"]) == (0, "deny")
    assert "git push" in said["permissionDecisionReason"]


async def test_a_deny_that_is_added_while_a_hook_waits_stops_a_later_yes(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push origin"))
    await ann.waiting(SESSION)
    before = len(await ann.events(SESSION))
    deny_pushes(hook)

    async def recorded() -> bool:
        return len(await ann.events(SESSION)) > before

    await wait_until_async(recorded, "the changed rules to be recorded")
    await ann.reply(SESSION, "toolu_1", "once")
    code, said = ended(asking)
    assert (code, said["permissionDecision"]) == (0, "deny")
    await ann.close()


async def test_a_hook_declares_the_wait_that_its_limit_leaves(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push origin"), "--limit", "60")
    await ann.waiting(SESSION)
    (asked,) = [one["event"] for one in await ann.events(SESSION) if one["type"] == "asked"]
    assert 0 < asked["waits_ms"] <= 55_000
    await ann.reply(SESSION, "toolu_1", "once")
    assert ended(asking)[0] == 0
    await ann.close()


def test_a_file_that_is_no_rules_any_more_allows_nothing(hook: Hook) -> None:
    hook(event("mytool x"))
    hook.rules.write_text("{")
    code, said = hook(event("mytool x", "toolu_2"))
    assert (code, said["permissionDecision"]) == (0, "deny")
    assert "JSON" in said["permissionDecisionReason"]


async def test_rules_that_stay_the_same_are_brought_once(hook: Hook, gateway: RunningGateway) -> None:
    hook(event("mytool x"))
    hook(event("mytool y", "toolu_2"))
    ann = gateway.person()
    kinds = [one["type"] for one in await ann.events(SESSION)]
    await ann.close()
    assert kinds == ["session_opened", "asked", "claimed", "asked", "claimed"]


async def test_the_rules_of_a_file_are_recorded_without_what_else_stands_in_it(
    hook: Hook, gateway: RunningGateway
) -> None:
    hook(event("mytool x"))
    ann = gateway.person()
    assert '"K"' not in json.dumps(await ann.events(SESSION))
    await ann.close()


async def test_a_person_answers_and_may_correct_the_command(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push"))
    await ann.answer_next(SESSION, "once", updated_input={"command": "git push --dry-run"})
    code, said = ended(asking)
    assert (code, said["permissionDecision"], said["updatedInput"]) == (0, "allow", {"command": "git push --dry-run"})
    await ann.close()


async def test_before_the_clients_own_limit_the_answer_is_to_ask_again_and_asking_again_attaches(
    hook: Hook, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    code, said = hook(event("git push"), "--limit", "1")
    assert (code, said["permissionDecision"]) == (0, "deny")
    assert said["permissionDecisionReason"].startswith("still pending, ask again: ")
    again = hook.start(event("git push", "toolu_2"))
    [shown] = await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the second hook to attach")
    assert [row["request_id"] for row in await ann.pending(SESSION)] == ["toolu_1"]
    await ann.reply(SESSION, shown["request_id"], "once")
    assert ended(again)[1]["permissionDecision"] == "allow"
    await ann.close()


@pytest.mark.usefixtures("no_gateway")
@pytest.mark.parametrize(("said", "decision"), [("deny", "deny"), ("agent", "ask")])
def test_without_a_gateway_nothing_is_allowed(hook: Hook, gateway: RunningGateway, said: str, decision: str) -> None:
    code, answer = hook(event("mytool x"), "--on-unreachable", said, "--grace", "0")
    assert (code, answer["permissionDecision"]) == (0, decision)


def test_a_permission_request_gets_its_own_form_of_answer(hook: Hook) -> None:
    asked = event("mytool x", None, "PermissionRequest")
    assert hook(asked) == (0, {"hookEventName": "PermissionRequest", "decision": {"behavior": "allow"}})
    code, said = hook(event("rm x", None, "PermissionRequest"))
    assert (code, said["decision"]["behavior"]) == (0, "deny")


@pytest.mark.usefixtures("no_gateway")
def test_without_a_gateway_a_permission_request_may_be_left_to_the_clients_prompt(
    hook: Hook, gateway: RunningGateway
) -> None:
    asked = event("mytool x", None, "PermissionRequest")
    assert hook(asked, "--on-unreachable", "agent", "--grace", "0") == (0, None)


async def test_what_ran_is_recorded_with_whether_it_was_what_was_asked(hook: Hook, gateway: RunningGateway) -> None:
    hook(event("mytool x"))
    assert hook(event("mytool y", name="PostToolUse")) == (0, None)
    ann = gateway.person()
    [ran] = [row["event"] for row in await ann.events(SESSION) if row["type"] == "tool_finished"]
    assert (ran["request_id"], ran["as_asked"], ran["detail"]["input"]) == ("toolu_1", False, {"command": "mytool y"})
    await ann.close()


async def test_a_tool_that_ran_and_failed_is_recorded_as_that(hook: Hook, gateway: RunningGateway) -> None:
    hook(event("mytool x"))
    assert hook(event("mytool x", name="PostToolUseFailure", error="Exit code 3")) == (0, None)
    ann = gateway.person()
    [ran] = [row["event"] for row in await ann.events(SESSION) if row["type"] == "tool_finished"]
    assert (ran["request_id"], ran["ok"]) == ("toolu_1", False)
    await ann.close()


def ending(name: str, session: str = SESSION) -> dict[str, Any]:
    return {"session_id": session, "cwd": "/tmp", "hook_event_name": name}


@pytest.mark.parametrize("name", ["Stop", "SessionEnd"])
async def test_what_was_not_asked_again_when_the_turn_or_the_client_ends_is_withdrawn(
    hook: Hook, gateway: RunningGateway, name: str
) -> None:
    ann = gateway.person()
    hook(event("git push"), "--limit", "1")
    assert [row["request_id"] for row in await ann.pending(SESSION)] == ["toolu_1"]
    assert hook(ending(name)) == (0, None)
    assert (await ann.pending(SESSION), await _cancelled(ann)) == ([], [("toolu_1", "asker_gave_up")])
    await ann.close()


async def test_what_some_hook_still_waits_for_outlives_the_end_of_a_turn(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push"))
    await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook to wait")
    assert hook(ending("Stop")) == (0, None)
    await ann.reply(SESSION, "toolu_1", "once")
    assert ended(asking)[1]["permissionDecision"] == "allow"
    await ann.close()


@pytest.mark.slow
async def test_of_clients_that_share_a_session_each_withdraws_its_own(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    shared = ("--session", SESSION, "--limit", "1")
    hook(event("git push"), *shared)
    hook(event("git pull", "toolu_2", session_id="of another"), *shared)
    hook(ending("SessionEnd", "of another"), *shared)
    assert [row["request_id"] for row in await ann.pending(SESSION)] == ["toolu_1"]
    await ann.close()


@pytest.mark.slow
@pytest.mark.usefixtures("killable_gateway")
async def test_an_end_without_a_gateway_ends_all_the_same_and_the_next_one_withdraws(
    hook: Hook, gateway: RunningGateway
) -> None:
    hook(event("git push"), "--limit", "1")
    gateway.kill9()
    ended_alone = hook.start(ending("Stop"))
    _, complaint = ended_alone.communicate(timeout=60)
    assert (ended_alone.returncode, "stays pending although nobody waits for it" in complaint) == (0, True)
    await asyncio.to_thread(gateway.start)
    hook(ending("SessionEnd"))
    ann = gateway.person()
    assert await _cancelled(ann) == [("toolu_1", "asker_gave_up")]
    await ann.close()


async def test_a_prompt_that_the_clients_own_user_answered_first_is_answered_by_them(
    hook: Hook, gateway: RunningGateway
) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push", None, "PermissionRequest"))
    [shown] = await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook to wait")
    hook(event("git push", name="PostToolUse"))
    ended(asking)
    rows = [row for row in await ann.events(SESSION) if row["type"] == "replied"]
    assert [
        (row["event"]["request_id"], row["event"]["reply"], row["event"].get("told", row["actor"]["via"]))
        for row in rows
    ] == [(shown["request_id"], "once", "claude-code")]
    await ann.close()


async def test_a_hook_that_the_client_ends_withdraws_its_request(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push"))
    await ann.waiting(SESSION)
    await wait_until_async(gateway.is_waited_for, "the hook to wait")
    os.killpg(asking.pid, signal.SIGTERM)
    asking.communicate(timeout=60)
    assert await _cancelled(ann) == [("toolu_1", "asker_gave_up")]
    await ann.close()


async def test_a_client_that_dies_withdraws_what_its_hook_asked(hook: Hook, gateway: RunningGateway) -> None:
    ann = gateway.person()
    asking = hook.start(event("git push"))
    await ann.waiting(SESSION)
    assert asking.stdout
    asking.stdout.close()  # nobody reads the answer any more
    await wait_until_async(lambda: _cancelled(ann), "the request to be cancelled")
    assert await _cancelled(ann) == [("toolu_1", "asker_died")]
    assert asking.stderr
    asking.stderr.close()
    asking.wait(timeout=60)
    await ann.close()


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "no json",
        "[]",
        json.dumps({"hook_event_name": "PreToolUse"}),
        json.dumps({"hook_event_name": "PreToolUse", "session_id": "s", "tool_name": "Bash", "tool_input": "ls"}),
        json.dumps({"hook_event_name": "Notification", "session_id": "s"}),
    ],
)
def test_what_cannot_be_read_blocks_the_call(gateway: RunningGateway, broken: str) -> None:
    done = run([HOOK, "claude"], broken, env=gateway.environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert "the tool does not run" in done.stderr


def test_a_word_that_the_hook_does_not_know_blocks_the_call(hook: Hook) -> None:
    assert hook(event("mytool x"), "--on-unreachable", "allow") == (2, None)


def test_an_interpreter_that_is_gone_blocks_the_call() -> None:
    line = own_line(AGENT, []).replace("/python", "/gone/python")
    done = subprocess.run(line, shell=True, input="{}", capture_output=True, text=True, check=False)
    assert done.returncode == 2


@pytest.mark.parametrize("tool", ["AskUserQuestion", "ExitPlanMode"])
def test_questions_are_left_to_the_clients_own_dialog(hook: Hook, tool: str) -> None:
    assert hook({**event("x"), "tool_name": tool}) == (0, None)


@pytest.mark.parametrize(
    ("asked", "said"), [(event("mytool x", "toolu_2"), '"allow"'), (ending("Stop"), ""), (ending("SessionEnd"), "")]
)
def test_a_hook_that_need_not_wait_imports_nothing_slow(hook: Hook, asked: dict[str, Any], said: str) -> None:
    hook(event("mytool x"))
    interpreter, isolated, script, *words = own_line(AGENT, []).removesuffix(" || exit 2").split()
    done = subprocess.run(
        [interpreter, isolated, "-X", "importtime", script, *words],
        input=json.dumps(asked),
        env=hook.gateway.environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert said in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert imported & set(MODULES_MAX) == set()
    assert {one for one in imported if one.partition(".")[0] == "ledger"} <= LEAVES


async def _cancelled(person: Any) -> list[tuple[str, str]]:
    rows = await person.events(SESSION)
    return [(row["event"]["request_id"], row["event"]["cause"]) for row in rows if row["type"] == "cancelled"]

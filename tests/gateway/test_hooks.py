"""Claude Code's hook over HTTP: the events that the command answers, in the gateway's own process."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served, in_process
from tests.support.waiting import wait_until_async
from workers.bridges.hook_entries import ENTRYPOINT_HEADER, OPTIONS_HEADER
from workers.bridges.hooks.claude import Transcript
from workers.gateway.own_rules import rule_file
from workers.gateway.settings import GatewaySettings

RULES = {"permissions": {"allow": ["Bash(git *)", "Read(./**)"], "deny": ["Bash(rm *)"]}}
ROUTE = "/v1/hooks/claude"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path / "home"))
    for name in ("project", "transcripts"):
        (tmp_path / name).mkdir()
    return tmp_path / "project"


@pytest.fixture
async def gateway(ledger: Ledger, project: Path, tmp_path: Path) -> AsyncIterator[Served]:
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps(RULES))
    async with in_process(ledger, GatewaySettings(policies={"claude": rule_file("claude", rules)})) as one:
        yield one


@pytest.fixture
async def hook(gateway: Served, project: Path) -> Caller:
    folders = (str(project), str(project.parent / "transcripts"))
    return await gateway.caller("agent", "hook", projects=["shop"], folders=folders)


def event(project: Path, command: str = "git push", name: str = "PreToolUse", **more: Any) -> dict[str, Any]:
    call = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": "toolu_1"}
    said = {"session_id": "ses_1", "cwd": str(project), "hook_event_name": name, "permission_mode": "default"}
    return {**said, **call, "of_a_newer_version": True, **more}


async def said(hook: Caller, body: dict[str, Any], options: str = "--project shop", **headers: str) -> dict[str, Any]:
    answer = await hook.post(ROUTE, body, **{OPTIONS_HEADER: options, **headers})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return dict(found.get("hookSpecificOutput", found))


async def types(ann: Caller) -> list[str]:
    return [row["type"] for row in (await ann.get("/v1/sessions/ses_1/log")).json()["events"]]


@pytest.mark.parametrize(("command", "verdict"), [("git push", "allow"), ("rm -rf build", "deny")])
async def test_rules_answer_at_once(hook: Caller, project: Path, command: str, verdict: str) -> None:
    found = await said(hook, event(project, command))
    assert found["hookEventName"] == "PreToolUse"
    assert found["permissionDecision"] == verdict


async def test_the_call_that_ran_is_recorded(hook: Caller, ann: Caller, project: Path) -> None:
    await said(hook, event(project))
    assert await said(hook, event(project, name="PostToolUse")) == {}
    assert await said(hook, event(project, name="SessionEnd")) == {}
    assert await types(ann) == ["session_opened", "asked", "claimed", "tool_finished"]


async def test_a_person_answers(hook: Caller, ann: Caller, project: Path) -> None:
    asking = asyncio.create_task(said(hook, event(project, "make")))
    await pending(ann)
    await ann.post("/v1/sessions/ses_1/asks/toolu_1/reply", {"reply": "once"})
    assert (await asking)["permissionDecision"] == "allow"


async def pending(ann: Caller) -> None:
    async def found() -> bool:
        return bool((await ann.get("/v1/pending")).json()["pending"])

    await wait_until_async(found, "the request")


async def test_a_client_that_closes_its_connection_withdraws_its_request(
    hook: Caller, ann: Caller, project: Path
) -> None:
    asking = asyncio.create_task(said(hook, event(project, "make")))
    await pending(ann)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    async def withdrawn() -> bool:
        return (await types(ann))[-1] == "cancelled"

    await wait_until_async(withdrawn, "the request to be withdrawn")


async def test_at_a_terminal_the_client_asks_as_well_and_its_no_is_read_from_the_transcript(
    hook: Caller, ann: Caller, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = asyncio.Event()
    rejection = Transcript.rejection

    def watched(transcript: Transcript, request_id: str) -> str | None:
        looked.set()
        return rejection(transcript, request_id)

    monkeypatch.setattr(Transcript, "rejection", watched)
    transcript = project.parent / "transcripts" / "ses_1.jsonl"
    transcript.touch()
    at_terminal = {ENTRYPOINT_HEADER: "cli"}
    options = "--project shop --event both"
    assert (await said(hook, event(project, "make"), options, **at_terminal))["permissionDecision"] == "ask"
    beside = event(project, "make", "PermissionRequest", transcript_path=str(transcript))
    del beside["tool_use_id"]
    asking = asyncio.create_task(said(hook, beside, options, **at_terminal))
    await wait_until_async(looked.is_set, "the hook to look at the transcript")
    block = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make"}}
    no = "The user doesn't want to proceed with this tool use. the user said:\nnot now"
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": True, "content": no}
    lines = ({"message": {"content": [one]}} for one in (block, result))
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert await asking == {}
    # Its token records no answers of people: they would be its own.
    events = (await ann.get("/v1/sessions/ses_1/log")).json()["events"]
    assert events[-1]["event"]["detail"]["reason"] == "answered at the agent's own prompt: reject"


async def test_the_end_of_the_gateway_blocks_the_call_and_leaves_its_request(
    gateway: Served, hook: Caller, ann: Caller, project: Path
) -> None:
    asking = asyncio.create_task(said(hook, event(project, "make")))
    await pending(ann)
    gateway.gateway.stop()
    found = await asking
    assert found["permissionDecision"] == "deny"
    assert "the gateway stops; ask again" in found["permissionDecisionReason"]
    assert (await types(ann))[-1] == "asked"


@pytest.mark.parametrize(
    "change",
    [
        {"hook_event_name": "PreCompact"},
        {"tool_name": None},
        {"tool_input": "git push"},
        {"session_id": ""},
        {"cwd": 7},
    ],
)
async def test_what_is_no_event_of_the_hook_is_refused(hook: Caller, project: Path, change: dict[str, Any]) -> None:
    assert (await hook.post(ROUTE, event(project) | change)).status_code == 422


@pytest.mark.parametrize("options", ["--rules x.json", "--limit soon", "--unknown 1", "'"])
async def test_options_that_are_not_those_of_the_hook_are_refused(hook: Caller, project: Path, options: str) -> None:
    answer = await hook.post(ROUTE, event(project), **{OPTIONS_HEADER: options})
    assert (answer.status_code, OPTIONS_HEADER in answer.json()["detail"]) == (422, True)


async def test_who_installs_the_hook_is_told_what_it_may_open_and_whether_rules_judge(
    hook: Caller, project: Path
) -> None:
    found = (await hook.get(ROUTE)).json()
    assert (found["folders"][0], found["has_rules"]) == (str(project), True)

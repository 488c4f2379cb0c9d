"""Attacks on the hook over HTTP: with its token, which whoever binds the gateway's port gets, and by its events."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import IO, Any

import pytest

from ledger.core import operand_files
from ledger.core.regular_files import open_regular
from tests.gateway.callers import Caller, Served
from tests.gateway.test_hooks import ROUTE, event, gateway, hook, pending, project, said, types
from workers.bridges.hook_entries import ENTRYPOINT_HEADER, OPTIONS_HEADER
from workers.bridges.hooks import claude
from workers.gateway import hooks
from workers.gateway.settings import BODY_BYTES_MAX

__all__ = ["gateway", "hook", "project"]


@pytest.mark.parametrize(
    ("line", "body"),
    [
        ("POST /v1/sessions/ses_1/asks/toolu_1/reply", {"reply": "once"}),
        ("POST /v1/sessions/ses_1/asks/toolu_1/answered", {"reply": "once", "prompt": "claude-code"}),
        ("POST /v1/grants", {"project": "shop", "permission": "Bash", "pattern": "*"}),
        ("POST /v1/tokens", {"name": "mine", "role": "agent"}),
        ("PUT /v1/sessions/other", {"project": "bank"}),
        ("PUT /v1/sessions/other", {"project": "shop", "cwd": "/"}),
        ("PUT /v1/sessions/other", {"project": "shop", "dialect": "claude", "rules": {}}),
    ],
)
async def test_doing_more_than_asking_with_the_token_of_the_hook(
    hook: Caller, ann: Caller, project: Path, line: str, body: dict[str, Any]
) -> None:
    asking = asyncio.create_task(said(hook, event(project, "make")))
    await pending(ann)
    method, path = line.split()
    assert (await hook.send(method, path, body)).status_code == 403
    asking.cancel()


async def test_saying_that_a_call_ran_to_have_it_allowed(hook: Caller, ann: Caller, project: Path) -> None:
    asking = asyncio.create_task(said(hook, event(project, "make")))
    await pending(ann)
    await said(hook, event(project, "make", "PostToolUse"))
    assert (await asking)["permissionDecision"] == "deny"
    assert "replied" not in await types(ann)


async def test_answering_with_another_token_of_an_agent(gateway: Served, project: Path) -> None:
    for scope in ({}, {"everything": True}, {"brings_rules": True, "folders": (str(project),)}):
        other = await gateway.caller("agent", "other", **scope)
        assert (await other.post(ROUTE, event(project))).status_code == 403


@pytest.mark.parametrize("folder", ["/", "/etc", "{project}-beside", "{project}/.."])
async def test_asking_from_a_folder_outside_of_the_project(hook: Caller, project: Path, folder: str) -> None:
    body = event(project) | {"cwd": folder.format(project=project)}
    assert (await said(hook, body))["permissionDecision"] == "deny"


async def test_having_files_opened_outside_of_the_project_and_of_its_transcripts(
    hook: Caller, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []

    def watched(path: Any, may_open: Any = None) -> IO[bytes]:
        if path != "":
            opened.append(str(Path(path).resolve()))
        return open_regular(path, may_open)

    monkeypatch.setattr(claude, "open_regular", watched)
    monkeypatch.setattr(operand_files, "open_regular", watched)
    elsewhere = project.parent / "elsewhere"
    elsewhere.mkdir()
    for name in ("secret.sh", "talk.jsonl"):
        (elsewhere / name).write_text("secret")
    (project / "own.sh").write_text("mine")
    (project / "link.sh").symlink_to(elsewhere / "secret.sh")
    (project / "below").symlink_to(elsewhere)
    (project.parent / "transcripts" / "link.jsonl").symlink_to(elsewhere / "talk.jsonl")
    scripts = ("./own.sh", "./link.sh", "below/secret.sh", f"{elsewhere}/secret.sh", "../elsewhere/secret.sh")
    transcripts = (elsewhere / "talk.jsonl", project.parent / "transcripts" / "link.jsonl", "talk.jsonl", "\x00", 7)
    calls = [event(project, f"sh {script}", tool_use_id=f"toolu_{at}") for at, script in enumerate(scripts)]
    for at, transcript in enumerate(transcripts):
        path = transcript if isinstance(transcript, int) else str(transcript)
        calls.append(event(project, "make", "PermissionRequest", tool_use_id=f"perm_{at}", transcript_path=path))
    headers = {OPTIONS_HEADER: "--project shop --limit 1", ENTRYPOINT_HEADER: "cli"}
    await asyncio.gather(*(hook.post(ROUTE, body, **headers) for body in calls))
    assert set(opened) == {str(project / "own.sh")}


async def test_sending_an_event_from_a_page_of_another_origin(gateway: Served, project: Path) -> None:
    page = gateway.caller_with(None)
    answer = await page.post(ROUTE, event(project), Origin="http://evil.example")
    assert answer.status_code == 401
    plain = {"content-type": "text/plain", "Origin": "http://evil.example"}
    assert (await page.http.post(ROUTE, content=json.dumps(event(project)), headers=plain)).status_code == 401
    other_name = await page.post(ROUTE, event(project), Host="evil.example")
    assert other_name.json()["code"] == "WRONG_HOST"


async def test_filling_the_gateway_with_one_event(hook: Caller, project: Path) -> None:
    long = event(project, "x" * BODY_BYTES_MAX)
    assert (await hook.post(ROUTE, long)).status_code == 413
    deep = json.dumps(event(project)).replace('"git push"', "[" * 100_000 + "]" * 100_000)
    headers = {"content-type": "application/json"}
    assert (await hook.http.post(ROUTE, content=deep, headers=headers)).status_code in (400, 422)


async def test_holding_every_thread_of_the_gateway(
    hook: Caller, ann: Caller, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hooks, "WAITING_COUNT", 1)
    asking = asyncio.create_task(said(hook, event(project, "make")))
    await pending(ann)
    refused = await hook.post(ROUTE, event(project, tool_use_id="toolu_2"), **{OPTIONS_HEADER: "--project shop"})
    assert (refused.status_code, refused.json()["code"]) == (429, "RATE_LIMITED")
    assert (await ann.get("/v1/pending")).status_code == 200
    asking.cancel()

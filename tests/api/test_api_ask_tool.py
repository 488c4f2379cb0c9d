"""Tool calls judged by their dialect; a prerequisite of a call is asked about before the call."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from ledger import DeniedError, InputError, Ledger, RejectedError, Session
from ledger.core.events import Asked
from tests.api.actors import ANN, pending_ids, raised
from tests.support.waiting import wait_until_async

CLAUDE = {"permissions": {"allow": ["Bash(git status)"], "deny": ["Bash(rm:*)"]}}


async def asked(session: Session) -> list[Asked]:
    events = [logged.event async for logged in session.events(follow_on=False)]
    return [event for event in events if isinstance(event, Asked)]


async def waits_for(session: Session, request_id: str) -> None:
    async def waiting() -> bool:
        return await pending_ids(session) == [request_id]

    await wait_until_async(waiting, f"{request_id} to be all that waits")


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "project").mkdir()
    (tmp_path / "outside").mkdir()
    return str(tmp_path)


async def outside_session(ledger: Ledger, folder: str, dialect: str, rules: Any) -> Session:
    options = {"profile": "faithful", "cwd": f"{folder}/project", "home": f"{folder}/home"}
    return await ledger.session("ses_1", rules=rules, dialect=dialect, options=options, cwd=f"{folder}/project")


async def test_a_call_that_rules_allow_is_one_request_with_its_parts_and_rules(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude", options={"cwd": "/repo"}, cwd="/repo")
    result = await session.ask_tool("Bash", {"command": "git status"}, request_id="r1")
    assert (result.request_id, result.outcome) == ("r1", "allowed")
    (event,) = await asked(session)
    assert (event.permission, event.tool_name, event.policy_digest) == (
        "Bash", "Bash", (await session.state()).policy_digest,
    )  # fmt: skip
    assert event.detail is not None
    assert event.detail.patterns == ("git status",)
    assert event.detail.evaluation is not None
    assert [rule.text for rule in event.detail.evaluation.rules] == ["Bash(git status)"]


async def test_a_denied_call_raises_in_the_words_of_its_dialect(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude", options={"cwd": "/repo"})
    error = await raised(session.ask_tool("Bash", {"command": "rm -rf /"}))
    assert isinstance(error, DeniedError)
    assert error.text == "Permission to use Bash with command rm -rf / has been denied."


@pytest.mark.parametrize("cwd", [None, "/repo"], ids=["folder unknown", "folder known"])
async def test_nobody_is_asked_about_the_folders_of_a_call_that_is_denied(ledger: Ledger, cwd: str | None) -> None:
    session = await ledger.session("ses_1", rules={"permission": {"bash": {"rm *": "deny"}}}, cwd=cwd)
    error = await raised(session.ask_tool("bash", {"command": "rm -rf src /etc/x"}))
    assert isinstance(error, DeniedError)
    assert [event.permission for event in await asked(session)] == ["bash"]


async def test_an_always_grants_what_the_dialect_remembers(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude", options={"cwd": "/repo"})
    call = {"command": "mytool sync now"}
    pending = await session.submit_tool("Bash", call, request_id="r1")
    assert (pending.outcome, pending.request.always) == (None, ("Bash(mytool sync *)",))
    await session.reply("r1", "always", actor=ANN)
    assert (await session.ask_tool("Bash", {"command": "mytool sync later"})).allowed
    other = await session.submit_tool("Bash", {"command": "mytool drop"}, request_id="r2")
    assert other.outcome is None


async def test_codelia_remembers_rule_objects_that_allow_the_next_call(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules={"permissions": {}}, dialect="codelia")
    pending = await session.submit_tool("bash", {"command": "git log"}, request_id="r1")
    assert pending.request.always == ('{"tool": "bash", "command": "git log"}',)
    await session.reply("r1", "always", actor=ANN)
    assert (await session.ask_tool("bash", {"command": "git log --stat"})).allowed


@pytest.mark.parametrize(
    ("dialect", "shown", "kept"),
    [("opencode", "{}/outside/*", "{}/outside/*"), ("brutus", "{}/outside/f.txt", "{}/outside*")],
)
async def test_a_directory_outside_is_asked_first_as_a_request_of_its_own(
    ledger: Ledger, folder: str, dialect: str, shown: str, kept: str
) -> None:
    session = await outside_session(ledger, folder, dialect, {"permission": {"bash": "ask"}})
    call = {"command": f"touch {folder}/outside/f.txt"}
    ref = {"message_id": "msg_1", "call_id": "call_1"}
    asking = asyncio.create_task(session.ask_tool("bash", call, request_id="r1", tool=ref, agent="build"))
    await waits_for(session, "r1.external_directory")
    await session.reply("r1.external_directory", "once", actor=ANN)
    await waits_for(session, "r1")
    await session.reply("r1", "once", actor=ANN)
    assert (await asking).request_id == "r1"
    first, own = await asked(session)
    assert (first.permission, own.permission) == ("external_directory", "bash")
    assert first.detail is not None
    assert (first.detail.patterns, first.detail.always) == ((shown.format(folder),), (kept.format(folder),))
    assert first.tool == own.tool is not None
    assert (first.agent, own.agent) == ("build", "build")


async def test_a_refused_directory_ends_the_call_and_the_command_is_never_asked(ledger: Ledger, folder: str) -> None:
    session = await outside_session(ledger, folder, "opencode", {"permission": {"bash": "allow"}})
    call = {"command": f"touch {folder}/outside/f.txt"}
    asking = asyncio.create_task(session.ask_tool("bash", call, request_id="r1"))
    await waits_for(session, "r1.external_directory")
    await session.reply("r1.external_directory", "reject", actor=ANN)
    with pytest.raises(RejectedError):
        await asking
    assert [event.permission for event in await asked(session)] == ["external_directory"]


async def test_submitting_again_goes_on_where_it_stopped(ledger: Ledger, folder: str) -> None:
    session = await outside_session(ledger, folder, "opencode", {"permission": {"bash": "allow"}})
    call = {"command": f"touch {folder}/outside/f.txt"}
    first = await session.submit_tool("bash", call, request_id="r1")
    assert (first.request_id, first.outcome) == ("r1.external_directory", None)
    assert await session.submit_tool("bash", call, request_id="r1") == first
    await session.reply("r1.external_directory", "once", actor=ANN)
    own = await session.submit_tool("bash", call, request_id="r1")
    assert (own.request_id, own.outcome) == ("r1", "allowed")
    assert len(await asked(session)) == 2


async def test_agent_and_parent_stand_on_the_request_of_a_sub_agent(ledger: Ledger) -> None:
    session = await ledger.session("ses_2", rules=CLAUDE, dialect="claude", parent="ses_1", agent="explore")
    await session.submit_tool("Bash", {"command": "make"}, request_id="r1")
    (event,) = await asked(session)
    assert (event.agent, event.parent) == ("explore", "ses_1")


@pytest.mark.parametrize(
    ("name", "given", "text"),
    [
        ("", {}, "the tool name has 0 characters; 1 to 256 are accepted"),
        ("Bash", "ls", "the input of a tool must be an object, not str"),
        ("Bash", {"command": float("nan")}, "the tool input holds `nan`, which JSON has no form for"),
    ],
)
async def test_what_is_no_call_is_refused(ledger: Ledger, name: str, given: Any, text: str) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude")
    error = await raised(session.ask_tool(name, given))
    assert (type(error), error.text) == (InputError, text)


async def test_a_folder_that_is_not_absolute_is_refused(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=CLAUDE, dialect="claude")
    error = await raised(session.ask_tool("Bash", {"command": "ls"}, cwd="src"))
    assert (type(error), error.text) == (InputError, "the working directory 'src' must be an absolute path")

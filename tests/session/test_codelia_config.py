"""An `always` in the dialect codelia is a grant, and a rule in the project's own file."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger, Result, Session
from ledger.client.answers import SessionAnswers
from ledger.core.errors import StoreError
from ledger.core.policy import ReplyKind
from ledger.policy import PolicySource
from ledger.policy.dialects import dialect_named
from ledger.session.state import Settled
from tests.support.waiting import wait_until_async

PUSH = {"tool": "bash", "command": "git push"}


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


def config_of(project: Path) -> Path:
    return project / ".codelia" / "config.json"


def allowed(project: Path) -> list[dict[str, str]]:
    rules: list[dict[str, str]] = json.loads(config_of(project).read_text())["permissions"]["allow"]
    return rules


async def opened(ledger: Ledger, folder: Path | None, **more: Any) -> Session:
    options = {"profile": "hardened", **({} if folder is None else {"cwd": str(folder)})}
    where = None if folder is None else str(folder)
    settings = {"rules": [], "options": options, "cwd": where, "project": "shop", **more}
    return await ledger.session("s", dialect="codelia", **settings)


async def answered(session: Session, command: str, reply: ReplyKind = "always", request_id: str = "r1") -> Result:
    """Return the result of a call that a person answers while the agent waits."""
    asking = asyncio.create_task(session.ask_tool("bash", {"command": command}, request_id=request_id))

    async def waiting() -> bool:
        return any(one.request.request_id == request_id for one in await session.pending())

    await wait_until_async(waiting, f"{request_id} to wait")
    await session.reply(request_id, reply, actor="ann")
    return await asking


async def test_an_always_is_a_grant_of_the_project_and_a_rule_in_its_file(ledger: Ledger, project: Path) -> None:
    result = await answered(await opened(ledger, project), "git push origin main && make all")
    assert allowed(project) == [PUSH, {"tool": "bash", "command": "make"}]
    assert [json.loads(one.grant.pattern) for one in await ledger.approved_in_project("shop")] == allowed(project)
    file = config_of(project)
    assert result.message == f'remembered in `{file}`: {json.dumps(PUSH)}, {{"tool": "bash", "command": "make"}}'


async def test_what_stands_in_the_file_stays_and_what_it_allows_is_not_added(ledger: Ledger, project: Path) -> None:
    config_of(project).parent.mkdir()
    config_of(project).write_text('{"model": "m", "permissions": {"allow": [{"tool": "bash", "command": "git"}]}}')
    await answered(await opened(ledger, project), "git push && make")
    assert json.loads(config_of(project).read_text()) == {
        "model": "m",
        "permissions": {"allow": [{"tool": "bash", "command": "git"}, {"tool": "bash", "command": "make"}]},
    }


@pytest.mark.parametrize("reply", ["once", "session"])
async def test_only_an_always_is_written(ledger: Ledger, project: Path, reply: ReplyKind) -> None:
    result = await answered(await opened(ledger, project), "git push", reply)
    assert (result.allowed, result.message, config_of(project).exists()) == (True, None, False)


async def test_asking_again_writes_nothing_twice_and_nothing_that_was_revoked(ledger: Ledger, project: Path) -> None:
    session = await opened(ledger, project)
    await answered(session, "git push")
    written = config_of(project).read_text()
    again = await session.ask_tool("bash", {"command": "git push"}, request_id="r1")
    assert (again.allowed, config_of(project).read_text()) == (True, written)
    (grant,) = await session.approved()
    await session.revoke(grant.grant.grant_id)
    config_of(project).unlink()
    await session.ask_tool("bash", {"command": "git push"}, request_id="r1")
    assert not config_of(project).exists()


async def test_an_asker_that_died_before_it_wrote_writes_when_it_asks_again(ledger: Ledger, project: Path) -> None:
    session = await opened(ledger, project)
    await session.submit_tool("bash", {"command": "git push"}, request_id="r1")
    await session.reply("r1", "always", actor="ann")
    assert not config_of(project).exists()
    await session.ask_tool("bash", {"command": "git push"}, request_id="r1")
    assert allowed(project) == [PUSH]


async def test_a_rule_is_written_though_the_project_does_not_know_its_grant_yet(
    ledger: Ledger, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def died(_self: SessionAnswers, _settled: Settled) -> None:
        """Whoever answered is gone before the project's stream has the grant; the projector writes it later."""

    monkeypatch.setattr(SessionAnswers, "write_project_grants", died)
    await answered(await opened(ledger, project), "git push")
    assert allowed(project) == [PUSH]
    assert await ledger.approved_in_project("shop") == []


async def test_a_server_that_is_gone_by_then_does_not_take_the_answer_back(
    ledger: Ledger, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await opened(ledger, project)
    await answered(session, "git push", "always")
    result = await session.result("r1")

    async def gone() -> None:
        raise StoreError("the server does not answer")

    monkeypatch.setattr(session.stream, "refresh", gone)
    told = await session.remember(result)
    assert (told.allowed, told.message) == (
        True,
        "the answer and its grant were recorded, but not written to a file: the server does not answer",
    )


async def test_a_file_that_cannot_be_written_loses_neither_the_answer_nor_the_grant(
    ledger: Ledger, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config_of(project).parent.mkdir()
    config_of(project).write_text("{ not json")
    with caplog.at_level(logging.WARNING, "ledger.client.calls"):
        result = await answered(await opened(ledger, project), "git push")
    assert result.allowed
    assert result.message is not None
    assert result.message.startswith("the answer and its grant were recorded, but not written to a file: ")
    assert "expected a name in double quotes" in caplog.text
    assert config_of(project).read_text() == "{ not json"
    assert len(await ledger.approved_in_project("shop")) == 1


async def test_no_folder_is_made_for_a_session_of_another_machine(ledger: Ledger, tmp_path: Path) -> None:
    result = await answered(await opened(ledger, tmp_path / "elsewhere"), "git push")
    assert result.message is not None
    assert "no folder" in result.message
    assert not (tmp_path / "elsewhere").exists()


async def test_a_session_without_a_folder_writes_nothing(ledger: Ledger) -> None:
    assert (await answered(await opened(ledger, None), "git push")).message is None


async def test_the_file_that_the_rules_came_from_is_the_one_that_remembers(ledger: Ledger, project: Path) -> None:
    config_of(project).parent.mkdir()
    config_of(project).write_text('{"version": 1}')
    inner = project / "src"
    inner.mkdir()
    source = PolicySource("codelia", (dialect_named("codelia").load(config_of(project)),))
    await answered(await opened(ledger, inner, rules=None, policy=source), "git push")
    assert allowed(project) == [PUSH]
    assert not config_of(inner).exists()


@pytest.mark.parametrize(
    "entry",
    ['{"tool": "bash", "command": "cd"}', '{"tool": "bash", "command_glob": "cd *"}', "*", '{"tool": "write"}', "{"],
)
async def test_what_is_no_rule_of_the_call_or_is_a_cd_is_never_written(
    ledger: Ledger, project: Path, entry: str
) -> None:
    session = await opened(ledger, project)
    await session.submit("bash", ["make"], always=[entry], request_id="r1")
    await session.reply("r1", "always", actor="ann")
    result = await session.remember(await session.result("r1"))
    assert (result.allowed, config_of(project).exists()) == (True, False)


async def test_another_dialect_writes_no_file(ledger: Ledger, project: Path) -> None:
    session = await ledger.session("s", rules=[], cwd=str(project))
    await session.submit("bash", ["git push"], always=['{"tool": "bash", "command": "git push"}'], request_id="r1")
    await session.reply("r1", "always", actor="ann")
    await session.remember(await session.result("r1"))
    assert not config_of(project).exists()


async def test_a_request_carries_what_a_person_is_shown(ledger: Ledger, project: Path) -> None:
    session = await opened(ledger, project)
    await session.submit_tool("bash", {"command": "rm  -r x"}, request_id="r1", metadata={"why": "tidy"})
    (pending,) = await session.pending()
    assert pending.request.metadata["why"] == "tidy"
    assert pending.request.metadata["confirm"]["title"] == "Run command?"
    assert pending.request.metadata["confirm"]["message"].startswith("rm -r x\n\nAs written:\nrm  -r x")
    assert pending.request.metadata["confirm"]["danger_level"] == "danger"


async def test_other_rules_by_now_are_no_other_request(ledger: Ledger, project: Path) -> None:
    session = await opened(ledger, project)
    await session.submit_tool("bash", {"command": "git push && make"}, request_id="r1")
    await opened(ledger, project, rules=None, policy=PolicySource("codelia", options={"profile": "faithful"}))
    attached = await session.submit_tool("bash", {"command": "git push && make"}, request_id="r1")
    assert (attached.request_id, attached.outcome) == ("r1", None)

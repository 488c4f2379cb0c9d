"""The rules of a session follow their files, and files that cannot be read refuse."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.client.policy_files import watch_policy
from ledger.policy import PolicyError, PolicySource, load_rules
from tests.support.waiting import wait_until_async


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://", entry_points=False) as ledger:
        yield ledger


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "opencode.json"
    write(file, "allow")
    return file


def write(file: Path, action: str) -> None:
    file.write_text(json.dumps({"permission": {"read": action}}))


def spoil(file: Path) -> None:
    file.write_text("{")


def remove(file: Path) -> None:
    file.unlink()


def loaded(*files: Path) -> PolicySource:
    """Files that are missing are passed over, as the loaders of the dialects do."""
    return PolicySource(layers=tuple(load_rules(file) for file in files if file.exists()))


async def types_of(ledger: Ledger, session_id: str) -> list[str]:
    session = await ledger.attach(session_id)
    return [event.type async for event in session.events(follow_on=False)]


async def test_a_changed_file_judges_the_next_ask_and_is_recorded_before_it(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("s", policy=loaded(file))
    async with watch_policy(ledger, session, lambda: loaded(file)):
        assert (await session.submit("read", ["a"])).outcome == "allowed"
        write(file, "ask")
        assert (await session.submit("read", ["b"])).outcome is None
    assert await types_of(ledger, "s") == ["session_opened", "asked", "policy_changed", "asked"]


async def test_a_changed_file_is_recorded_when_nobody_asks(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("s", policy=loaded(file))

    async def is_recorded() -> bool:
        return await types_of(ledger, "s") == ["session_opened", "policy_changed"]

    async with watch_policy(ledger, session, lambda: loaded(file), interval_seconds=0.01):
        write(file, "deny")
        await wait_until_async(is_recorded, "the change to be recorded")


async def test_a_file_that_cannot_be_read_refuses_every_ask_until_it_can(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("s", policy=loaded(file))
    async with watch_policy(ledger, session, lambda: loaded(file)):
        spoil(file)
        for _ in range(2):
            with pytest.raises(PolicyError, match="line 1"):
                await session.submit("read", ["a"])
        with pytest.raises(PolicyError, match="line 1"):
            await session.ask_tool("read", {"filePath": "a"})
        write(file, "allow")
        assert (await session.submit("read", ["a"])).outcome == "allowed"
    assert await types_of(ledger, "s") == ["session_opened", "asked"]


async def test_a_file_that_is_gone_refuses_though_its_loader_would_pass_over_it(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("s", policy=loaded(file))
    async with watch_policy(ledger, session, lambda: loaded(file)):
        remove(file)
        with pytest.raises(PolicyError, match="was removed"):
            await session.submit("read", ["a"])
        write(file, "allow")
        assert (await session.submit("read", ["a"])).outcome == "allowed"


async def test_a_file_that_appears_counts_from_the_next_ask(ledger: Ledger, file: Path, tmp_path: Path) -> None:
    session = await ledger.session("s", policy=loaded(file))
    later = tmp_path / "later.json"
    async with watch_policy(ledger, session, lambda: loaded(file, later), files=[later]):
        write(later, "ask")
        assert (await session.submit("read", ["a"])).outcome is None


async def test_files_that_cannot_be_read_at_the_start_refuse_to_start(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("s", policy=loaded(file))
    spoil(file)
    with pytest.raises(PolicyError):
        async with watch_policy(ledger, session, lambda: loaded(file)):
            pass

"""Lost history is reported by `doctor` and by long-running processes; what the ledger moves itself is no loss."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from ledger import Ledger
from tests.journeys.processes import Process
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from tests.workers.archiver.test_archive_commands import fill
from tests.workers.cli.conftest import durable_server, server
from workers.runtime import history
from workers.runtime.history import Comparison, compare_history, watched_history
from workers.runtime.place import LedgerPlace

__all__ = ["durable_server", "server"]

GONE: Final = "HISTORY IS GONE"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def ledger(server: RealServer, home: Path) -> CommandLine:
    return CommandLine(server.url, {"PERMISSION_LEDGER_HOME": str(home)})


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def file_in(home: Path) -> Path:
    [file] = home.glob("history-*.json")
    return file


def said(ledger: CommandLine, code: int = 0) -> dict[str, Any]:
    [row] = [row for row in ledger("doctor", "--json", code=code).rows if row["check"] == "history"]
    return row


async def compared(server: RealServer) -> Comparison:
    async with Ledger.connect(server.url) as ledger:
        found = await compare_history(ledger.store, LedgerPlace(server.url, None))
    assert found is not None
    return found


async def session(url: str, name: str, count: int = 1) -> None:
    async with Ledger.connect(url) as ledger:
        opened = await ledger.session(name, project="shop")
        for number in range(count):
            await opened.submit("bash", ["make"], request_id=f"{name}_{number}")


def words_of(process: str) -> list[str]:
    listen = f"127.0.0.1:{free_port()}"
    return {
        "up": ["up", "--listen", "none"],
        "gateway": ["serve", "--listen", listen],
        "expiry": ["worker", "expiry"],
        "projector": ["worker", "projector"],
    }[process]


# --- what is said -----------------------------------------------------------------------------------------------------


def test_doctor_fails_where_history_is_gone_until_its_file_is_removed(
    ledger: CommandLine, client: redis.Redis, home: Path
) -> None:
    assert said(ledger)["ok"]
    assert not home.exists(), "nothing is noted of an empty server"
    fill(ledger, "ses_1", "ses_2")
    assert said(ledger)["ok"]
    client.flushall()
    for _ in range(2):
        row = said(ledger, code=11)
        assert GONE in row["text"]
        assert "such as `" in row["text"]
        assert str(file_in(home)) in row["hint"]
    file_in(home).unlink()
    assert said(ledger)["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("process", ["up", "gateway", "expiry", "projector"])
def test_a_process_says_at_its_start_that_history_is_gone(
    process: str, ledger: CommandLine, client: redis.Redis, home: Path
) -> None:
    fill(ledger, "ses_1")
    said(ledger)
    client.flushall()
    running = Process(
        ["-m", "workers.cli", *words_of(process)],
        {"PERMISSION_LEDGER_URL": ledger.url, "PERMISSION_LEDGER_HOME": str(home)},
    )
    try:
        line = running.wait_for_word(f" error {process} {GONE}")
        assert str(file_in(home)) in line
    finally:
        running.close()


@pytest.mark.slow
@pytest.mark.parametrize("process", ["up", "gateway", "expiry", "projector"])
def test_a_process_notes_at_its_end_what_came_while_it_ran(
    process: str, ledger: CommandLine, client: redis.Redis, home: Path
) -> None:
    running = Process(
        ["-m", "workers.cli", *words_of(process), "--log-level", "info"],
        {"PERMISSION_LEDGER_URL": ledger.url, "PERMISSION_LEDGER_HOME": str(home)},
    )
    running.wait_for_word({"up": "Ctrl-C ends it", "gateway": "signs one browser in"}.get(process, process))
    fill(ledger, "ses_1")
    assert running.end() == 0
    client.flushall()
    assert "session:ses_1" in file_in(home).read_text()
    assert GONE in said(ledger, code=11)["text"]


async def test_what_is_lost_while_a_process_runs_is_said_once(
    server: RealServer,
    client: redis.Redis,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    looks: list[Comparison | None] = []

    async def looked(*given: Any) -> Comparison | None:
        looks.append(await compare_history(*given))
        return looks[-1]

    monkeypatch.setattr(history, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(history, "compare_history", looked)
    async with Ledger.connect(server.url) as ledger, watched_history(ledger.store, LedgerPlace(server.url, None)):
        await session(server.url, "ses_1")
        await wait_until_async(lambda: home.exists() and "session:ses_1" in file_in(home).read_text(), "the note")
        client.flushall()
        await wait_until_async(lambda: sum(one is not None and not one.ok for one in looks) > 3, "several looks")
    assert [GONE in one.message for one in caplog.records if one.levelno == logging.ERROR] == [True]


async def test_a_stream_that_was_cut_or_began_anew_is_a_loss(
    server: RealServer, client: redis.Redis, home: Path
) -> None:
    await session(server.url, "ses_1", count=1)
    [key] = client.keys("*:s:ses_1")
    before = client.dump(key)
    assert before is not None
    await session(server.url, "ses_1", count=3)
    assert (await compared(server)).ok
    client.restore(key, 0, before, replace=True)
    assert not (await compared(server)).ok
    client.delete(key)
    await session(server.url, "ses_1", count=9)
    assert not (await compared(server)).ok


# --- what is no loss --------------------------------------------------------------------------------------------------


def test_sealing_and_bringing_back_are_no_loss(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1", "ses_2")
    assert said(ledger)["ok"]
    ledger("archive", "--to", str(tmp_path / "archive"), code=0)
    assert ledger("archive", "ses_1", "--json", code=0).row["kept"] == "it is sealed already"
    assert said(ledger)["ok"]
    ledger("restore", "ses_1", code=0)
    assert said(ledger)["ok"]


def test_a_session_that_grew_and_was_sealed_since_is_no_loss(ledger: CommandLine, tmp_path: Path) -> None:
    asyncio.run(session(ledger.url, "ses_1"))
    assert said(ledger)["ok"]
    ledger("close", "ses_1", code=0)
    ledger("archive", "--to", str(tmp_path / "archive"), code=0)
    assert said(ledger)["ok"]


def test_redaction_is_no_loss(ledger: CommandLine) -> None:
    fill(ledger, "ses_1")
    assert said(ledger)["ok"]
    ledger("redact", "ses_1", "2", "--reason", "test", "--yes", code=0)
    assert said(ledger)["ok"]


def test_an_import_is_no_loss_and_makes_one_good(ledger: CommandLine, client: redis.Redis, tmp_path: Path) -> None:
    fill(ledger, "ses_1")
    ledger("export", "--all", "--out", tmp_path / "one.jsonl", code=0)
    client.flushall()
    asyncio.run(session(ledger.url, "ses_2"))
    assert said(ledger)["ok"]
    ledger("import", tmp_path / "one.jsonl", "--with-grants", code=0)
    assert said(ledger)["ok"]
    ledger("export", "--all", "--out", tmp_path / "both.jsonl", code=0)
    client.flushall()
    assert said(ledger, code=11)["text"]
    ledger("import", tmp_path / "both.jsonl", "--with-grants", code=0)
    assert said(ledger)["ok"]


def test_views_and_hints_that_are_lost_are_no_loss_of_history(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger, "ses_1")
    ledger("rebuild", code=0)
    assert said(ledger)["ok"]
    for key in client.scan_iter(count=1000):
        if b":s:" not in key and b":p:" not in key and b":r:" not in key and key != b"pl:config":
            client.delete(key)
    assert said(ledger)["ok"]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_two_ledgers_that_share_a_data_folder_are_told_apart(
    server: RealServer, shared_server: RealServer, client: redis.Redis, home: Path
) -> None:
    for one in (server, shared_server):
        asyncio.run(session(one.url, f"ses_{one.pid}"))
        assert asyncio.run(compared(one)).ok
    assert len(list(home.iterdir())) == 2
    client.flushall()
    assert not asyncio.run(compared(server)).ok
    assert asyncio.run(compared(shared_server)).ok


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"server": "x", "seen_ms": 1, "heads": {"session:a": "x"}}'])
async def test_a_damaged_file_is_said_and_written_anew(server: RealServer, home: Path, content: bytes) -> None:
    await session(server.url, "ses_1")
    assert (await compared(server)).hint is None
    file_in(home).write_bytes(content)
    found = await compared(server)
    assert (found.ok, f"`{file_in(home)}`" in found.text, found.hint is not None) == (True, True, True)
    assert (await compared(server)).hint is None


def test_a_folder_that_cannot_be_written_is_said(server: RealServer, home: Path) -> None:
    asyncio.run(session(server.url, "ses_1"))
    home.write_text("no folder")
    found = asyncio.run(compared(server))
    assert found.ok
    assert "cannot be" in found.text
    assert found.hint is not None


@pytest.mark.slow
def test_several_processes_write_the_file_at_once(server: RealServer, home: Path) -> None:
    async def compared_at_once(number: int) -> list[str | None]:
        await session(server.url, f"ses_{number}")
        return [one.hint for one in await asyncio.gather(*(compared(server) for _ in range(4)))]

    assert [asyncio.run(compared_at_once(number)) for number in range(20)] == [[None] * 4] * 20
    assert [one.name for one in home.iterdir()] == [file_in(home).name]


def test_nothing_is_noted_of_a_ledger_in_memory(home: Path) -> None:
    async def compared_in_memory() -> Comparison | None:
        async with Ledger.connect("memory://") as ledger:
            await ledger.session("ses_1")
            return await compare_history(ledger.store, LedgerPlace("memory://", None))

    assert asyncio.run(compared_in_memory()) is None
    assert not home.exists()


def test_an_embedded_server_has_its_file_in_its_own_folder(home: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    ledger = CommandLine("", {"PERMISSION_LEDGER_HOME": str(data)})
    fill(ledger, "ses_1")
    assert said(ledger)["ok"]
    assert file_in(data).exists()
    assert not home.exists()


# --- what it costs ----------------------------------------------------------------------------------------------------


def calls(client: redis.Redis) -> int:
    return sum(int(one["calls"]) for one in client.info("commandstats").values())


def test_short_commands_do_not_compare(ledger: CommandLine, client: redis.Redis, home: Path) -> None:
    fill(ledger, "ses_1")
    said(ledger)
    file = file_in(home)
    client.flushall()
    before = calls(client)
    ran = ledger("ask", "ses_9", "bash", "make", "--no-wait", code=7)
    assert calls(client) - before < 60
    assert GONE not in ran.err
    file.unlink()
    for words in (("ask", "ses_9", "bash", "ls", "--no-wait"), ("pending",), ("log", "ses_9"), ("close", "ses_9")):
        ledger(*words)
    assert list(home.iterdir()) == []


def test_what_is_noted_does_not_grow_with_the_sessions(server: RealServer, client: redis.Redis, home: Path) -> None:
    async def filled(count: int) -> int:
        async with Ledger.connect(server.url, partitions=4) as ledger:
            for number in range(count):
                await ledger.session(f"ses_{count}_{number}")
            before = calls(client)
            await compare_history(ledger.store, LedgerPlace(server.url, None))
            return calls(client) - before

    few, many = asyncio.run(filled(20)), asyncio.run(filled(200))
    assert many <= few + 20

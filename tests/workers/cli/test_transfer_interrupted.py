"""`export --all` and `import` in several processes, and an import that is killed in the middle and run again: the same as by one alone."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ledger import Ledger
from tests.support.command_line import CommandLine, ended
from tests.support.servers import RealServer
from tests.workers.cli.filling import entries, names, session_with_a_grant
from workers.upkeep.transfer import IMPORTED_AT_ONCE_COUNT

SESSIONS = 2 * IMPORTED_AT_ONCE_COUNT
LONG = 40
"""Events of a session that is not read in one round trip with others."""

OTHERS = 2
"""Streams that come before the sessions, a portion each: the rules that all sessions share, and the project."""

KILLED_BETWEEN_APPENDS = """
import os, signal, sys
from ledger.stores.redis.store import RedisStore
from workers.cli import cli
from workers.cli.lazy import run_program
from workers.upkeep import transfer

transfer.RESTORED_AT_ONCE_EVENTS = 7
real, left = RedisStore.restore, [{count}]

async def restore(self, *arguments):
    done = await real(self, *arguments)
    left[0] -= 1
    if left[0] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return done

RedisStore.restore = restore
sys.argv[1:] = {words!r}
sys.exit(run_program(cli))
"""

KILLED_AFTER_A_PORTION = """
import os, signal, sys
from workers.cli import cli, transfer
from workers.cli.lazy import run_program

real, left = transfer.results_of, [{count}]

async def results_of(*arguments):
    async for one in real(*arguments):
        yield one
        left[0] -= not isinstance(one, transfer.CheckedPortion)
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

transfer.results_of = results_of
sys.argv[1:] = {words!r}
sys.exit(run_program(cli))
"""


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def filled(ledger: CommandLine) -> CommandLine:
    asyncio.run(_fill(ledger.url))
    return ledger


async def _fill(url: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        await session_with_a_grant(ledger)
        long = await ledger.session("ses_long", project="shop")
        for number in range(LONG):
            await long.submit("bash", [f"make {number}"], request_id=f"long_{number}")

        async def one(number: int) -> None:
            session = await ledger.session(f"ses_x{number:03}", project="shop")
            await session.submit("bash", ["make"], request_id=f"x{number}")

        for first in range(0, SESSIONS, 100):
            await asyncio.gather(*(one(number) for number in range(first, first + 100)))


def killed(ledger: CommandLine, program: str, count: int, *words: str | Path) -> None:
    """Run a command that kills itself at the point of the program that is reached after `count` others."""
    with ledger.beside(program.format(count=count, words=[str(word) for word in words])) as process:
        ran = ended(process)
    assert ran.code == -signal.SIGKILL, ran


def streams_in(file: Path) -> list[str]:
    """Return the names of the streams of an export, in order."""
    lines = (json.loads(line) for line in file.read_text().splitlines())
    return [line["stream"] for line in lines if "stream" in line]


def all_entries(client: redis.Redis) -> dict[str, list[tuple[bytes, dict[bytes, bytes]]]]:
    return {key: entries(client, key) for key in names(client, "*}:[sp]:*")}


@pytest.mark.slow
def test_an_export_by_several_processes_equals_that_of_one(filled: CommandLine, tmp_path: Path) -> None:
    alone, shared = tmp_path / "alone", tmp_path / "shared"
    filled("export", "--all", "--out", alone, "--jobs", "1", code=0)
    told = filled("export", "--all", "--out", shared, "--jobs", "2", code=0).err
    assert f"exported {len(streams_in(alone))} streams to {shared}" in told
    assert shared.read_bytes() == alone.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_an_import_killed_between_portions_is_completed_by_the_next(
    filled: CommandLine, client: redis.Redis, tmp_path: Path, jobs: str
) -> None:
    file = tmp_path / "ledger.jsonl"
    filled("export", "--all", "--out", file, code=0)
    before = all_entries(client)
    client.flushall()
    words = ("import", file, "--with-grants", "--jobs", jobs, "--json")
    killed(filled, KILLED_AFTER_A_PORTION, OTHERS + 1, *words)
    for key, found in all_entries(client).items():
        assert found[:-1] == before[key], f"{key} is there in part, or not as it was"
    rows = filled(*words, code=0).rows
    assert [row["stream"] for row in rows] == streams_in(file)
    assert not any(row["added"] for row in rows[: OTHERS + IMPORTED_AT_ONCE_COUNT])
    assert {key: found[:-1] for key, found in all_entries(client).items()} == before
    after = all_entries(client)
    assert {row["added"] for row in filled("import", file, "--json", "--jobs", jobs, code=0).rows} == {0}
    assert all_entries(client) == after


@pytest.mark.slow
def test_a_long_session_of_which_a_killed_import_wrote_a_part_is_completed(
    filled: CommandLine, client: redis.Redis, tmp_path: Path
) -> None:
    file = tmp_path / "ledger.jsonl"
    filled("export", "ses_long", "--out", file, code=0)
    (key,) = names(client, "*}:s:ses_long")
    before = entries(client, key)
    client.flushall()
    killed(filled, KILLED_BETWEEN_APPENDS, 3, "import", file, "--with-grants")
    begun = entries(client, key)
    assert 0 < len(begun) < len(before)
    assert before[: len(begun)] == begun
    filled("import", file, "--with-grants", code=0)
    assert entries(client, key)[:-1] == before
    filled("verify", "ses_long", code=0)


def test_options_that_do_not_go_together_are_refused(filled: CommandLine) -> None:
    assert "goes with --all" in filled("export", "ses_1", "--jobs", "2", code=2).err

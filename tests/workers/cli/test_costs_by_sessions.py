"""The cost of a command on the server, which does not grow with the number of sessions, unless it is to read all of them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest
import redis

from ledger import Ledger
from ledger.stores.port import StreamKey
from ledger.stores.urls import open_store
from tests.support.backends import PARTITION_COUNT
from tests.support.command_line import CommandLine
from tests.support.projecting import project_as_a_worker
from tests.support.servers import RealServer
from workers.upkeep import health

FEW, MANY = 30, 90
"""Sessions: every one of the few partitions has some, since a read of all partitions may skip those that are empty."""

WAITING = 4
"""Sessions with a pending request, of few and of many."""

SPARE_COMMANDS: Final = 12
"""A turn of the clock, a lease or a page more are no growth; one command for each further session would be."""

SPARE_BYTES: Final = 2000

COMMANDS: Final = (
    "sessions --limit 5",
    "pending",
    "pending --session s0",
    "approved --limit 5",
    "approved --project shop",
    "approved --session s0",
    "show s0",
    "log s0",
    "replay s0 --speed 0",
    "verify s0",
    "export s0",
    "redact s0 2",
    "reply p0 once",
    "reply q9 once",
    "reply nosuch once",
    "ask s0 bash ls",
    "ask s0 bash make --id p1 --no-wait",
    "cancel p1",
    "claim q1 --runner me",
    "close s3",
    "grant --session s0 bash ls",
    "grant --project shop bash ls",
    "revoke gra_none",
    "hold --session s0 --reason drill",
    "hold --list",
    "unhold --session s0 --reason over",
    "freeze --project shop --reason drill",
    "unfreeze --project shop --reason over",
    "freeze --reason drill",
    "unfreeze --reason over",
    "token create ann --role auditor",
    "token list",
    "passkey list",
    "access",
    "streams",
    "doctor",
)
"""Commands that say one thing, or one page, or change one thing.

Those that are for all sessions are not among them: `verify --all`, `export --all`, `import`, `rebuild`, `redact --matching`,
`archive`, `log --all`, `streams --each`, and lists without a limit.
"""


class Cost(NamedTuple):
    """The exit code of a command, and what the server did for it."""

    code: int
    commands: int
    sent_bytes: int
    scans: int


async def fill(url: str, count: int) -> None:
    """Write sessions, each with a settled request, a grant and a call that a rule allowed."""
    store = open_store(url, partition_count=PARTITION_COUNT)
    await store.start()
    await store.close()
    async with Ledger.connect(url, entry_points=False) as ledger:
        for number in range(count):
            rules = [{"permission": "bash", "pattern": "ls", "action": "allow"}]
            session = await ledger.session(f"s{number}", project="shop" if number < FEW else "bank", rules=rules)
            await session.ask("bash", ["ls"])
            await session.submit("bash", ["make"], always=["make"], request_id=f"q{number}")
            await session.reply(f"q{number}", "session", actor="ann")
            if number < WAITING:
                await session.submit("edit", ["a.py"], request_id=f"p{number}")
        await project_as_a_worker(ledger)


def costs(ledger: CommandLine) -> dict[str, Cost]:
    """Run all commands."""
    with redis.Redis.from_url(ledger.url) as client:

        def spent() -> tuple[int, int, int]:
            facts: Any = client.info("stats")
            counts: Any = client.info("commandstats")
            scans = counts.get("cmdstat_scan", {}).get("calls", 0)
            return facts["total_commands_processed"], facts["total_net_output_bytes"], scans

        found = {}
        for words in COMMANDS:
            before, code, after = spent(), ledger(*words.split()).code, spent()
            found[words] = Cost(code, *(one - two for one, two in zip(after, before, strict=True)))
        return found


def some_sessions(found: list[StreamKey], count: int) -> list[StreamKey]:
    """Choose streams of one kind: that of a project is as long as many of sessions."""
    return [key for key in found if key.kind == "session"][:count]


def test_a_command_costs_the_server_the_same_whatever_the_number_of_sessions(
    ledger: CommandLine, server: RealServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "SAMPLE_COUNT", 10)  # so that few sessions are more than the sample, too
    monkeypatch.setattr("random.sample", some_sessions)
    asyncio.run(fill(ledger.url, FEW))
    few = costs(CommandLine(ledger.url, {"PERMISSION_LEDGER_HOME": str(tmp_path)}))
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    asyncio.run(fill(ledger.url, MANY))
    many = costs(ledger)
    assert {words: one.code for words, one in many.items() if one.code != few[words].code} == {}
    grown = {
        words: (few[words], one)
        for words, one in many.items()
        if one.commands > few[words].commands + SPARE_COMMANDS
        or one.sent_bytes > 1.1 * few[words].sent_bytes + SPARE_BYTES
    }
    assert grown == {}
    # The sample of `doctor` is a page of keys.
    assert {words for words, one in many.items() if one.scans} <= {"doctor"}

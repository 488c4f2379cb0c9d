"""One session of each real client on one ledger, recorded: one list of pending requests, and one replay."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.command_line import CommandLine
from tests.support.gateways import RunningGateway, ServedGateway
from tests.support.processes import ROOT
from tests.support.servers import RealServer

FOLDER: Final = ROOT / "tests" / "data" / "agents"
WAITING: Final = FOLDER / "together-waiting.jsonl"
WHOLE: Final = FOLDER / "together.jsonl"

ASKED: Final = {
    "claude-code": ("Write", "/srv/shop/test_prices.py"),
    "gemini": ("bash", "rm -r build"),
    "codex": ("edit", "prices.py"),
    "codelia": ("bash", 'git commit -q -m "Keep prices in a module of their own"'),
    "python": ("bash", "python -m compileall -q prices.py"),
    "opencode": ("bash", "git tag v1.4.0"),
}
ANSWERED: Final = {
    "claude-code": ("once", "allowed", True),
    "gemini": ("reject", "corrected", False),
    "codex": ("session", "allowed", False),
    "codelia": ("once", "allowed", True),
    "python": ("once", "allowed", False),
    "opencode": ("always", "allowed", True),
}
"""Reply, outcome, and whether the client told that the tool ended."""


@pytest.fixture
def ledger(server: RealServer) -> CommandLine:
    return CommandLine(server.url)


@pytest.fixture
def running(server: RealServer) -> Iterator[RunningGateway]:
    gateway = ServedGateway(server)
    try:
        gateway.start()
        yield gateway
    finally:
        gateway.close()


def agents(ledger: CommandLine) -> dict[str, str]:
    """Session: the agent that opened it."""
    return {row["session"]: row["agent"] for row in ledger("sessions", "--json", code=0).rows}


async def test_every_client_waits_in_one_list_and_is_answered_there(
    ledger: CommandLine, running: RunningGateway
) -> None:
    ledger("import", WAITING, "--with-grants", code=0)
    by_session = agents(ledger)
    ann = running.person()
    rows = await ann.all_pending()
    assert {by_session[row["session"]]: (row["permission"], *row["patterns"]) for row in rows} == ASKED
    for row in rows:
        await ann.reply(row["session"], row["request_id"], "once")
    assert await ann.all_pending() == []
    last = ledger("replay", "--all", "--speed", "0", "--json", code=0).rows[-6:]
    assert [(row["type"], row["waiting"]) for row in last] == [("replied", count) for count in (5, 4, 3, 2, 1, 0)]
    await ann.close()


def test_one_replay_tells_of_all_clients_in_the_order_in_which_it_happened(ledger: CommandLine) -> None:
    ledger("import", WHOLE, "--with-grants", code=0)
    by_session = agents(ledger)
    rows = ledger("replay", *by_session, "--speed", "0", "--json", code=0).rows
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    kinds = Counter((by_session[row["session"]], row["type"]) for row in rows)
    replies = {by_session[row["session"]]: row["event"] for row in rows if row["type"] == "replied"}
    found = {
        agent: (reply["reply"], reply["outcome"], kinds[agent, "tool_finished"] == 1)
        for agent, reply in replies.items()
    }
    assert found == ANSWERED
    assert {kinds[agent, "asked"] for agent in ASKED} == {1}
    waiting = [row["waiting"] for row in rows]
    assert (max(waiting), waiting[-1]) == (6, 0)
    assert replies["gemini"]["detail"]["message"] == "keep it until the release is out"


def test_the_record_is_whole_and_what_was_always_allowed_stands_for_the_project(ledger: CommandLine) -> None:
    ledger("import", WHOLE, "--with-grants", code=0)
    rows = ledger("verify", "--all", "--json", code=0).rows
    assert (len(rows), {row["ok"] for row in rows}) == (10, {True})
    [grant] = ledger("approved", "--project", "shop", "--json", code=0).rows
    assert (grant["permission"], grant["pattern"], grant["by"]) == ("bash", "git tag *", "ann")


def test_what_waited_is_the_beginning_of_what_became_of_it() -> None:
    earlier, later = entries(WAITING), entries(WHOLE)
    for stream, lines in earlier.items():
        assert later[stream][: len(lines)] == lines


@pytest.mark.parametrize("path", [WAITING, WHOLE], ids=lambda path: path.stem)
def test_nothing_of_the_machine_on_which_it_was_recorded_stands_in_it(path: Path) -> None:
    text = path.read_text()
    assert [word for word in ("/tmp", "/root", "/home", "/Users", "@vm") if word in text] == []


def entries(path: Path) -> dict[str, list[Any]]:
    """The entries of an export, by stream."""
    found: dict[str, list[Any]] = {}
    stream = ""
    for line in map(json.loads, path.read_text().splitlines()):
        if "stream" in line:
            stream = line["stream"]
        elif "d" in line:
            found.setdefault(stream, []).append(line)
    return found

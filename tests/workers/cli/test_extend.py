"""`extend`: five minutes more from a terminal, and the wait that `ask --timeout` declares."""

from __future__ import annotations

import json

import pytest

from ledger import Ledger
from tests.support.command_line import CommandLine


async def attended(ledger: CommandLine, **more: object) -> None:
    """Ask with somebody connected, by the server of the command line."""
    async with Ledger.connect(ledger.url) as own:
        session = await own.session("ses_1", project="shop")
        async with await session.connect("phone", actor="ann"):
            await session.submit("bash", ["git push"], request_id="call_1", **more)  # type: ignore[arg-type]


async def test_it_prints_the_new_deadline_and_the_log_names_the_person(ledger: CommandLine) -> None:
    await attended(ledger)
    (row,) = ledger("extend", "call_1", "--as", "ann", "--json", code=0).rows
    assert (row["session"], row["request_id"], row["tier"]) == ("ses_1", "call_1", "attended")
    (moved,) = [one for one in ledger("log", "ses_1", "--json", code=0).rows if one["type"] == "deadline_moved"]
    assert (moved["event"]["reason"], moved["actor"]["name"]) == ("by_hand", "ann")
    said = ledger("extend", "call_1", code=0)
    assert said.out.startswith("request call_1 waits until 20")


async def test_beyond_the_declared_wait_it_says_why_and_what_to_do(ledger: CommandLine) -> None:
    await attended(ledger, waits=60)
    refused = ledger("extend", "call_1", code=12)
    assert "error: request `call_1` gets no more time: whoever asked waits until" in refused.err
    assert "hint: answer it, or have it asked again" in refused.err
    (row,) = map(json.loads, ledger("extend", "call_1", "--json", code=12).err.splitlines()[:1])
    assert row["code"] == "NOT_EXTENDABLE"


@pytest.mark.slow
def test_an_ask_with_a_timeout_declares_that_it_waits_no_longer(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", "bash", "make", "--timeout", "1s", "--extending", "by-hand", code=7)
    rows = {row["type"]: row["event"] for row in ledger("log", "ses_1", "--json", code=0).rows}
    assert rows["asked"]["waits_ms"] == 1000
    assert rows["session_opened"]["settings"]["extending"] == "by-hand"
    refused = ledger("extend", rows["asked"]["request_id"], code=12)
    assert "it is unattended" in refused.err


def test_an_unknown_request_is_told_where_to_look(ledger: CommandLine) -> None:
    assert "hint: `permission-ledger pending`" in ledger("extend", "call_9", code=9).err

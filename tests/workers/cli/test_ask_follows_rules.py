"""`ask --rules FILE` follows the file while it waits: a change is recorded, and applies to later asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until


def write(file: Path, **permission: object) -> None:
    file.write_text(json.dumps({"permission": permission}))


def changes(ledger: CommandLine) -> list[dict[str, object]]:
    return [row["event"] for row in ledger("log", "s", "--json").rows if row["type"] == "policy_changed"]


@pytest.mark.slow
def test_a_file_that_changes_while_an_answer_is_waited_for_is_recorded(ledger: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "opencode.json"
    write(file, bash="ask")
    with ledger.started("ask", "s", "bash", "make", "--id", "r1", "--rules", str(file), "--json") as asking:
        wait_until(lambda: bool(ledger("pending", "--json").rows), "the request to wait")
        write(file, bash="deny")
        wait_until(lambda: bool(changes(ledger)), "the change to be recorded")
        # The yes comes after the deny, and stops at it.
        ledger("reply", "r1", "once", code=3)
        assert asking.wait(timeout=60) == 3
    (change,) = changes(ledger)
    assert change["policy_source"] == str(file)
    assert ledger("ask", "s", "bash", "make", "--no-wait").code == 3


def test_what_is_asked_after_the_directory_is_judged_by_the_rules_of_then(ledger: CommandLine, tmp_path: Path) -> None:
    file = tmp_path / "opencode.json"
    write(file, bash="allow", external_directory="ask")
    call = json.dumps({"command": "cat /srv/x"})
    words = ("ask", "s", "--tool", "bash", "--input", call, "--id", "r1", "--rules", str(file), "--json")
    with ledger.started(*words) as asking:
        wait_until(lambda: bool(ledger("pending", "--json").rows), "the directory to wait")
        write(file, bash="deny", external_directory="ask")
        ledger("reply", "r1.external_directory", "once", code=0)
        assert asking.wait(timeout=60) == 3

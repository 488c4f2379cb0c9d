"""`search` and `worker indexer`, as typed in a shell."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.command_line import CommandLine, interrupted
from tests.support.waiting import wait_until


@pytest.fixture
def searching(ledger: CommandLine, tmp_path: Path) -> CommandLine:
    """The command line, with a file of its own as the index."""
    ledger.environment["PERMISSION_LEDGER_SEARCH"] = str(tmp_path / "search.sqlite")
    return ledger


def fill(ledger: CommandLine) -> None:
    asking = ("ask", "ses_1", "bash", "--project", "shop", "--no-wait")
    ledger(*asking, "git push origin", "--id", "r1", code=7)
    ledger("reply", "r1", "once", "--as", "ann", code=0)
    ledger(*asking, "git push --force", "--id", "r2", code=7)
    ledger("reply", "r2", "reject", "--message", "never on fridays", "--as", "bob", code=0)
    ledger(*asking, "make all", "--id", "r3", code=7)


def lag_of(ledger: CommandLine) -> dict[str, Any]:
    """Return the lag that a search tells; None of the index without a file."""
    ran = ledger("search", "--limit", "1", "--json")
    told: dict[str, Any] = json.loads(ran.err.splitlines()[-1])
    return dict(told.get("lag", {}))


@pytest.mark.slow
def test_requests_are_found_while_an_indexer_runs(searching: CommandLine) -> None:
    fill(searching)
    with searching.started("worker", "indexer") as worker:
        wait_until(lambda: lag_of(searching) == {"sessions": 0, "events": 0, "whole": True}, "the index is whole")
        found = searching(
            "search", "git push", "--by", "ann", "--outcome", "allowed", "--since", "30d", "--json", code=0
        )
        assert (found.row["request_id"], found.row["project"], found.row["reason"]) == ("r1", "shop", "once")
        assert searching("search", "git", "push", "by:ann", "project:shop", "--json", code=0).rows == found.rows
        moment = searching("show", found.row["session"], "--at", str(found.row["version"]), "--json", code=0)
        assert "r1" in moment.out
        table = searching("search", "fridays", code=0)
        assert "git push --force" in table.out
        assert "reject: never on fridays" in table.out
        assert "bob" in table.out
        assert table.err == ""
        assert "no request matches" in searching("search", "nothing-like-it", code=0).err
        assert interrupted(worker).code == 0
    # The file is read without an indexer, and what it lacks is told.
    searching("reply", "r3", "once", "--as", "cleo", code=0)
    late = searching("search", "outcome:pending", code=0)
    assert "make all" in late.out
    assert "1 events of 1 sessions behind the log" in late.err


@pytest.mark.slow
def test_pages_go_on_after_a_cursor(searching: CommandLine) -> None:
    fill(searching)
    with searching.started("worker", "indexer") as worker:
        wait_until(lambda: lag_of(searching) == {"sessions": 0, "events": 0, "whole": True}, "the index is whole")
        assert interrupted(worker).code == 0
    first = searching("search", "--limit", "2", "--json", code=0)
    cursor = json.loads(first.err.splitlines()[0])["cursor"]
    rest = searching("search", "--limit", "2", "--after", cursor, "--json", code=0)
    assert [row["request_id"] for row in first.rows + rest.rows] == ["r3", "r2", "r1"]


def test_without_an_index_the_error_says_what_to_start(searching: CommandLine) -> None:
    said = searching("search", "git").err
    assert "there is no index" in said
    assert "start `permission-ledger worker indexer --file" in said


def test_a_query_that_cannot_be_meant_is_refused_before_a_server_is_reached(searching: CommandLine) -> None:
    searching.environment["PERMISSION_LEDGER_URL"] = "redis://127.0.0.1:1"
    assert "unknown outcome" in searching("search", "--outcome", "maybe", code=12).err
    assert "given twice" in searching("search", "by:ann", "--by", "bob", code=12).err


@pytest.mark.slow
def test_the_index_of_another_ledger_is_refused(searching: CommandLine, server_without_file: CommandLine) -> None:
    with searching.started("worker", "indexer") as worker:
        wait_until(lambda: lag_of(searching) == {"sessions": 0, "events": 0, "whole": True}, "the index is whole")
        assert interrupted(worker).code == 0
    file = searching.environment["PERMISSION_LEDGER_SEARCH"]
    assert "is the index of another ledger" in server_without_file("search", "--file", file, code=12).err
    refused = server_without_file("up", "--listen", "none", code=12, PERMISSION_LEDGER_SEARCH=file)
    assert "is the index of another ledger; name another file by PERMISSION_LEDGER_SEARCH" in refused.err


def _found(ledger: CommandLine) -> str:
    return ledger("search", "push", "--json").out


@pytest.mark.slow
def test_each_ledger_that_a_person_uses_has_an_index_of_its_own(
    ledger: CommandLine, server_without_file: CommandLine, tmp_path: Path
) -> None:
    for number, line in enumerate((ledger, server_without_file), 1):
        line.environment["PERMISSION_LEDGER_HOME"] = str(tmp_path)
        line("ask", f"ses_{number}", "bash", "git push", "--no-wait", code=7)
        with line.started("worker", "indexer") as worker:
            wait_until(partial(_found, line), "what was asked")
            assert interrupted(worker).code == 0
        assert [row["session"] for row in line("search", "push", "--json", code=0).rows] == [f"ses_{number}"]

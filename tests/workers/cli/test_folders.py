"""The folder of a call, wherever a request is shown at a terminal."""

from __future__ import annotations

from pathlib import Path

from tests.support.command_line import ROOT, CommandLine
from workers.cli.output import Exit


def test_a_request_is_shown_with_the_folder_it_would_run_in(ledger: CommandLine, tmp_path: Path) -> None:
    words = ("ask", "s", "bash", "rm -rf build", "--id", "r1", "--no-wait")
    ledger(*words, "--cwd", tmp_path, code=Exit.PENDING)
    assert ledger("pending", "--json").row["cwd"] == str(tmp_path)
    for shown in (("pending", "r1"), ("show", "s"), ("log", "s")):
        assert str(tmp_path) in ledger(*shown, code=0).out.replace("\n", ""), shown
    refused = ledger(*words, "--json", code=Exit.BAD_INPUT)
    assert refused.error["error"].startswith(f"request `r1` of session `s` was asked in `{tmp_path}`, not in `{ROOT}`")
    ledger("reply", "r1", "reject", code=0)
    assert str(tmp_path) in ledger("show", "r1", code=0).out


def test_an_ask_that_says_no_folder_is_asked_in_the_one_it_is_run_in(ledger: CommandLine) -> None:
    ledger("ask", "s", "bash", "make", "--no-wait", code=Exit.PENDING)
    ledger(
        "ask", "s", "--tool", "webfetch", "--input", '{"url": "https://example.com"}', "--no-wait", code=Exit.PENDING
    )
    assert [row["cwd"] for row in ledger("pending", "--json").rows] == [str(ROOT), str(ROOT)]

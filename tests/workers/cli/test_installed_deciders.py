"""A decider of an installed distribution is heard by commands that ask, and by no other."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.command_line import CommandLine

DENIES = """
class Guard:
    name = "guard"
    def decide(self, session, question, evaluation):
        return "deny", "not on a Friday"
"""


def install(ledger: CommandLine, folder: Path, code: str) -> None:
    """Put a distribution with a decider on the path of the commands."""
    (folder / "the_guard.py").write_text(code)
    told = folder / "the_guard-1.0.dist-info"
    told.mkdir()
    (told / "METADATA").write_text("Metadata-Version: 2.1\nName: the-guard\nVersion: 1.0\n")
    (told / "entry_points.txt").write_text("[permission_ledger.deciders]\nguard = the_guard:Guard\n")
    path = ledger.environment.get("PYTHONPATH")
    ledger.environment["PYTHONPATH"] = os.pathsep.join([str(folder), *([path] if path else [])])


def test_a_command_that_asks_hears_it(ledger: CommandLine, tmp_path: Path) -> None:
    install(ledger, tmp_path, DENIES)
    assert "not on a Friday" in ledger("ask", "ses_1", "bash", "git push", code=3).out


@pytest.mark.slow
def test_one_that_cannot_be_loaded_stops_asks_and_nobody_who_answers_or_reads(
    ledger: CommandLine, tmp_path: Path
) -> None:
    ledger("ask", "ses_1", "bash", "git push", "--id", "r1", "--no-wait", code=7)
    install(ledger, tmp_path, "raise RuntimeError('its licence ran out')")
    refused = ledger("ask", "ses_1", "bash", "git pull", "--no-wait", code=12)
    assert "the decider `guard` (the_guard:Guard) cannot be loaded: its licence ran out" in refused.err
    for words in (["pending"], ["sessions"], ["show", "ses_1"], ["reply", "r1", "reject"]):
        ledger(*words, code=0)

"""Findings of the hardened reading in lines that are odd, or long and repetitive."""

from __future__ import annotations

import pytest

from ledger.policy import Evaluation, Verdict
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.model import CommandRules


class NoRules(CommandRules):
    """A dialect without any rule: nothing is allowed and nothing restricted."""


@pytest.mark.parametrize("line", ["[édo 2>&1", "[nice ls >>x", ">x", "2>&1"])
def test_a_line_in_which_nothing_runs_by_itself_is_asked_and_not_a_crash(line: str) -> None:
    assert hardened(line, Evaluation(Verdict.ALLOW), NoRules()).verdict is Verdict.ASK


def test_a_finding_is_told_once_however_often_it_occurs() -> None:
    line = "&&".join(["a"] * 20_000)

    evaluation = hardened(line, Evaluation(Verdict.ALLOW), NoRules())

    assert evaluation.verdict is Verdict.ASK
    assert len(evaluation.parts) <= 2

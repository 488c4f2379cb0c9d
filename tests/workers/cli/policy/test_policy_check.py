"""`policy check`: JSON lines in, JSON lines out."""

from __future__ import annotations

from pathlib import Path

from tests.workers.cli.policy.conftest import PolicyLine

ASK = {"dialect": "opencode", "config": {"permission": {"bash": {"ls": "allow"}}}, "permission": "bash"}


def test_each_line_gets_one_answer_in_order(line: PolicyLine) -> None:
    ran = line.check({"id": "a", **ASK, "patterns": ["ls"]}, {"id": 2, **ASK, "patterns": ["rm"]})
    assert (ran.code, ran.err) == (0, "")
    assert [(row["id"], row["verdict"]) for row in ran.rows] == [("a", "allow"), (2, "ask")]


def test_a_bad_line_is_an_error_and_the_run_goes_on(line: PolicyLine) -> None:
    ran = line.check({"id": 2, **ASK, "patterns": ["ls"]}, raw='nonsense\n{"id": 1}\n\n{"a": 1, "a": 2}\n')
    assert ran.code == 12
    assert [row.keys() for row in ran.rows[:3]] == [{"id", "error"}] * 3
    assert [row["id"] for row in ran.rows] == [None, 1, None, 2]
    assert ran.rows[2]["error"] == "the line is not JSON: `a` is given twice; keep one of them"
    assert ran.rows[3]["verdict"] == "allow"


def test_options_stand_for_what_lines_leave_out_with_file_and_line_of_rules(line: PolicyLine, opencode: Path) -> None:
    options = ("--dialect", "opencode", "--config", opencode)
    ran = line.check({"permission": "bash", "patterns": ["git push x"]}, options=options)
    place = {"layer": "project", "file": str(opencode), "line": 6}
    assert ran.row["rules"] == [{"text": "bash git push * deny", **place}]


def test_layers_stand_below_the_configuration(line: PolicyLine, opencode: Path, tmp_path: Path) -> None:
    low = tmp_path / "low.json"
    low.write_text('{"permission": {"*": "allow", "webfetch": "allow"}}')
    options = ("--dialect", "opencode", "--layer", f"user={low}", "--config", opencode)
    asked = [{"permission": name, "patterns": ["x"]} for name in ("webfetch", "edit")]
    assert [row["verdict"] for row in line.check(*asked, options=options).rows] == ["deny", "ask"]


def test_a_file_of_rules_that_cannot_be_read_starts_nothing(line: PolicyLine, tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    ran = line.check({"permission": "bash", "patterns": ["x"]}, options=("--dialect", "opencode", "--config", broken))
    assert (ran.code, ran.out) == (12, "")
    assert " line 1: expected a name in double quotes" in ran.err


def test_a_line_separator_in_an_answer_does_not_end_the_line(line: PolicyLine) -> None:
    ran = line.check({"id": "a\u2028b", **ASK, "patterns": ["ls"]})
    assert (len(ran.out.splitlines()), ran.row["id"]) == (1, "a\u2028b")

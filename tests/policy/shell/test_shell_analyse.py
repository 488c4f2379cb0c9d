from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.model import ShellCommand, Wrapper
from ledger.policy.shell.parse import COMMANDS_MAX, source_commands
from ledger.policy.shell.unwrap import UNWRAP_DEPTH_MAX, peel
from tests.support.rows import every

DATA = Path(__file__).parents[2] / "data/policy"
CORPUS: dict[str, list[dict[str, Any]]] = json.loads((DATA / "shell_fuzz.json").read_text())
TABLE: dict[str, list[dict[str, Any]]] = json.loads((DATA / "shell.json").read_text())


def texts(line: str) -> list[str]:
    return [command.text for command in analyse(line).commands]


@pytest.mark.parametrize("row", CORPUS["commands"], ids=lambda row: row["why"])
def test_a_command_is_found_where_the_grammar_alone_misses_it(row: dict[str, Any]) -> None:
    found = [" ".join(word.resolved or word.raw for word in command.words) for command in analyse(row["line"]).commands]
    assert any(text == row["finds"] or text.startswith(row["finds"] + " ") for text in found), found


@every("row", [row for row in TABLE["adversarial"] if "programs" in row], ids=lambda row: row["id"])
def test_every_program_that_the_shell_would_run_is_found_in_order(row: dict[str, Any]) -> None:
    found = iter([command.name for command in analyse(row["command"]).commands if command.words])
    missing = [program for program in row["programs"] if not any(name == program for name in found)]
    assert missing == []


@every(
    ("line", "inner", "wrapper"),
    [
        ("timeout -k 5 10s rm x", "rm x", Wrapper.TRANSPARENT),
        ("nice -n 5 rm x", "rm x", Wrapper.TRANSPARENT),
        ("stdbuf -oL rm x", "rm x", Wrapper.TRANSPARENT),
        ("time -p rm x", "rm x", Wrapper.TRANSPARENT),
        ("timeout --unknown 5 rm x", "rm x", Wrapper.OPAQUE),
        ("sudo -u bob rm x", "rm x", Wrapper.OPAQUE),
        ("env -u A B=1 rm x", "rm x", Wrapper.OPAQUE),
        ("xargs -n 1 -I {} rm {}", "rm {}", Wrapper.OPAQUE),
        ("find . -name a -exec rm {} +", "rm {}", Wrapper.OPAQUE),
        ("find . -execdir rm {} \\;", "rm {}", Wrapper.OPAQUE),
        ("fd a -x rm", "rm", Wrapper.OPAQUE),
        ("flock -w 5 lock rm x", "rm x", Wrapper.OPAQUE),
        ("npx rm x", "rm x", Wrapper.OPAQUE),
        ("bash -ec 'rm x' name", "rm x", Wrapper.SCRIPT),
        ("bash -o pipefail -c 'rm x'", "rm x", Wrapper.SCRIPT),
        ("/bin/sh -c 'ls; rm x'", "rm x", Wrapper.SCRIPT),
        ("eval rm 'x'", "rm x", Wrapper.SCRIPT),
        ("env -S 'rm x'", "rm x", Wrapper.SCRIPT),
        ("su root -c 'rm x'", "rm x", Wrapper.SCRIPT),
        ("script -qc 'rm x' /dev/null", "rm x", Wrapper.SCRIPT),
        ("ssh host rm x", "rm x", Wrapper.SCRIPT),
        ("watch -n 1 rm x", "rm x", Wrapper.SCRIPT),
        ("trap 'rm x' EXIT", "rm x", Wrapper.SCRIPT),
        ("alias a='rm x'", "rm x", Wrapper.SCRIPT),
        ("git -c alias.a='!rm x' a", "rm x", Wrapper.SCRIPT),
        ("git submodule foreach rm x", "rm x", Wrapper.SCRIPT),
        ("let 'a[$(rm x)]'", "rm x", Wrapper.SCRIPT),
        ("bash <<< 'rm x'", "rm x", Wrapper.SCRIPT),
        ("sh <<'E'\nrm x\nE", "rm x", Wrapper.SCRIPT),
        ("$SHELL -c 'rm x'", "rm x", Wrapper.SCRIPT),
        ("$SUDO rm x", "rm x", Wrapper.OPAQUE),
    ],
)
def test_what_a_wrapper_runs_is_found(line: str, inner: str, wrapper: Wrapper) -> None:
    found = {command.text: command.wrapper for command in analyse(line).commands}
    nested = found.get(inner, "missing")
    assert nested == wrapper or (nested is None and wrapper is Wrapper.SCRIPT), found


def test_wrappers_are_unwrapped_one_in_another_and_each_names_the_one_around_it() -> None:
    line = "sudo env A=1 bash -c 'nice rm $(cat x)'"
    chain = [(command.text, command.inside) for command in analyse(line).commands]
    assert chain == [
        (line, None),
        ("env A=1 bash -c 'nice rm $(cat x)'", line),
        ("bash -c 'nice rm $(cat x)'", "env A=1 bash -c 'nice rm $(cat x)'"),
        ("nice rm $(cat x)", "bash -c 'nice rm $(cat x)'"),
        ("rm $(cat x)", "nice rm $(cat x)"),
        ("cat x", "nice rm $(cat x)"),
    ]


def test_wrappers_deeper_than_the_bound_give_a_reason() -> None:
    analysis = analyse("nice " * (UNWRAP_DEPTH_MAX + 1) + "ls")
    assert analysis.reason == f"commands are wrapped more than {UNWRAP_DEPTH_MAX} deep"


def test_looking_a_command_up_does_not_run_it() -> None:
    assert texts("command -v rm") == ["command -v rm"]


@pytest.mark.parametrize(
    "line",
    ["timeout ls", "timeout -z 5 ls", "nice -n x ls", "time -o out ls", "./timeout 5 ls", "stdbuf ls -oL", "timeout 5"],
)
def test_a_wrapper_with_options_that_are_not_understood_is_never_transparent(line: str) -> None:
    inner = peel(analyse(line).commands[0])
    assert inner is None or inner.text == "ls -oL"


def test_redirections_of_groups_and_lines_without_a_program_are_kept() -> None:
    commands = analyse("{ ls; } > out; > other; x=$(rm a)").commands
    shown = [(command.text, [redirect.target.raw for redirect in command.redirects]) for command in commands]
    assert shown == [("", ["out"]), ("ls", []), ("", ["other"]), ("x=$(rm a)", []), ("rm a", [])]


def test_opencode_gets_every_command_as_the_source_spells_it() -> None:
    found = source_commands("A=1 'rm'  x >f && r\\\nm y; (cat <<E\nbody\nE\n)")
    assert found is not None
    assert [(command.text, command.statement) for command in found] == [
        ("A=1 'rm'  x", "A=1 'rm'  x >f"),
        ("r\\\nm y", "r\\\nm y"),
        ("cat", "cat <<E\nbody\nE"),
    ]
    assert [word.raw for word in found[0].words] == ["'rm'", "x"]


def test_a_long_quoted_here_document_does_not_stop_the_search() -> None:
    line = "cat > f <<'E'\n" + "if (x) { $(a) `b` } << c\n" * 40 + "z" * 20_000 + "\nE\nrm y"
    assert texts(line) == ["cat", "rm y"]


def test_a_command_without_words_has_no_name() -> None:
    assert ShellCommand("", ()).name is None


def test_a_plain_line_of_too_many_different_commands_is_asked_and_the_first_of_them_are_seen() -> None:
    line = analyse("; ".join(f"ls a{number}" for number in range(COMMANDS_MAX + 1)))
    assert (line.plain, line.reason) == (False, "the line would run more than 2,000 commands")
    assert len(line.commands) == COMMANDS_MAX
    assert analyse("; ".join(f"ls a{number}" for number in range(COMMANDS_MAX))).plain


def test_equal_commands_are_no_more_than_one() -> None:
    assert analyse("; ".join(["ls"] * (COMMANDS_MAX + 1))).plain

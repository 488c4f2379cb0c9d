from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.policy.shell.lexer import TOO_LONG_REASON, lex
from ledger.policy.shell.model import Redirect, ShellCommand, Word

CORPUS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data/policy/shell_fuzz.json").read_text()
)


def resolved(line: str) -> list[list[str | None]]:
    return [[word.resolved for word in command.words] for command in lex(line).commands]


@pytest.mark.parametrize("row", CORPUS["plain"], ids=lambda row: row["why"])
def test_a_plain_line_has_the_words_that_the_shell_sees(row: dict[str, Any]) -> None:
    assert lex(row["line"]).reason is None
    assert resolved(row["line"]) == row["words"]


@pytest.mark.parametrize("row", CORPUS["not_plain"], ids=lambda row: row["why"])
def test_a_line_outside_the_subset_has_a_reason(row: dict[str, Any]) -> None:
    analysis = lex(row["line"])
    assert not analysis.plain
    assert analysis.reason


def test_a_command_keeps_its_text_without_redirections_and_its_statement_with_them() -> None:
    analysis = lex("ls  2>&1 'a b' >/dev/null | wc -l")
    first = ShellCommand(
        "ls 'a b'",
        (Word("ls", "ls"), Word("'a b'", "a b", quoted=True)),
        (),
        (Redirect("2>&", Word("1", "1"), "2>&1"), Redirect(">", Word("/dev/null", "/dev/null"), ">/dev/null")),
        "ls  2>&1 'a b' >/dev/null",
    )
    second = ShellCommand("wc -l", (Word("wc", "wc"), Word("-l", "-l")), statement="wc -l")
    assert analysis.commands == (first, second)
    assert analysis.operators == ("|",)


def test_redirections_to_files_are_told_from_everything_else_that_is_not_plain() -> None:
    analysis = lex("ls > out.txt && pwd")
    assert (analysis.plain, analysis.redirects_only) == (False, True)
    assert analysis.reason == "`> out.txt` writes to a file"
    assert lex("ls > $x").redirects_only is False


def test_operators_stand_between_the_commands_whatever_blank_lines_and_comments_there_are() -> None:
    assert lex("\n\na && # x\n\n b;c # y\nd || e\n").operators == ("&&", ";", "\n", "||")


@pytest.mark.parametrize("glob", ["a*", "?x", "[a]b", "src/*.py"])
def test_a_glob_is_plain_in_an_argument_and_never_in_a_name(glob: str) -> None:
    assert lex(f"ls {glob}").commands[0].words[1] == Word(glob, glob, glob=True)
    assert not lex(glob).plain


@pytest.mark.parametrize(
    "line",
    ["ls\u00a0a", "ls\u200b", "ls \u202e", "ls\r", "ls # \u2028", "ls '\x1b'", "ls \ue000", "ls \ud800", "ls \u3164"],
    ids=ascii,
)
def test_a_character_that_does_not_show_as_what_it_is_is_named(line: str) -> None:
    reason = lex(line).reason
    assert reason is not None
    assert reason.startswith("the line holds U+")


def test_letters_beyond_ascii_are_plain_in_arguments_and_never_in_a_name() -> None:
    assert lex("echo 'grüße 日本' ✓").plain
    assert not lex("\uff4c\uff53").plain


def test_a_line_over_64_kib_is_not_read() -> None:
    assert lex("ls " + "é" * 32_767).reason == TOO_LONG_REASON
    assert lex("ls " + "a" * 65_533).plain


def test_a_line_without_commands_is_plain() -> None:
    assert lex("  \n # nothing\n").plain
    assert lex("").commands == ()

"""Properties of every line: never looser by an addition, one reading by lexer and parser, bounded work."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.core.policy import Evaluation, Part, Verdict, strictest
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.parse import Budget, parse
from ledger.policy.shell.words import LINE_BYTES_MAX, join_lines, loosen
from tests.policy.shell.simple_rules import ROOT, SimpleRules, verdict

JUDGE_SECONDS_MAX: Final = 10.0  # stated: 250 ms, measured by the bench; here only that nothing hangs
CORPUS: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[2] / "data/policy/shell_fuzz.json").read_text()
)
ALLOW = ["prefix ls", "prefix git", "prefix rg", "glob echo *", "prefix timeout"]
DENY = ["prefix rm", "prefix git push --force"]

NAMES: Final = ["ls", "git", "rg", "rm", "echo", "sort", "timeout 5 ls", "nice", "l's'", "\\rm", "/bin/rm", "sudo"]
WORDS: Final = [
    *["push", "status", "-f", "--force", "rm", "--pre", "x.sh", "'a b'", '"c;d"', "\\;", "a#b", "*.ts", "-n", "origin"],
    *["-o", "5", "'it'\"'\"'s'", "a\\ b", "{}", "\u00e9", "~/x", "--", "'x y'z", "x=1", "[a]", "!", "git"],
]
commands = st.tuples(st.sampled_from(NAMES), st.lists(st.sampled_from(WORDS), max_size=5)).map(
    lambda parts: " ".join([parts[0], *parts[1]])
)
joins = st.sampled_from([" && ", " || ", ";", " | ", "\n", " |& "])
lines = (
    st.lists(st.tuples(joins, commands), min_size=1, max_size=4)
    .map(lambda parts: "".join(map("".join, parts)))
    .map(lambda line: line.lstrip(" &|;\n"))
)

wrappers: st.SearchStrategy[Callable[[str], str]] = st.sampled_from(
    [
        lambda line: "sudo " + line,
        lambda line: "timeout 5 " + line,
        lambda line: "nice -n 3 " + line,
        lambda line: "env A=1 " + line,
        lambda line: "A=1 " + line,
        lambda line: "command " + line,
        lambda line: "! " + line,
        lambda line: "time " + line,
        lambda line: f"( {line}\n)",
        lambda line: f"{{ {line}\n}}",
        lambda line: f"echo $({line}\n)",
        lambda line: f"if ls; then {line}\nfi",
    ]
)
additions = st.sampled_from(
    [
        " > out",
        " 2>&1",
        " < in",
        " && rm x",
        "; ls",
        " | sh",
        " &",
        "\ntouch x",
        " $(rm x)",
        " `ls`",
        " <(ls)",
        " )",
        " '",
    ]
)


@settings(max_examples=300)
@given(lines, additions)
def test_adding_a_part_or_a_redirection_never_loosens(line: str, addition: str) -> None:
    before, after = verdict(line, ALLOW, DENY), verdict(line + addition, ALLOW, DENY)
    assert strictest([before, Verdict.ASK]) is before or strictest([before, after]) is after
    if before is not Verdict.ALLOW:
        assert after is not Verdict.ALLOW


@settings(max_examples=300)
@given(commands, wrappers)
def test_wrapping_a_command_never_loosens(line: str, wrap: Callable[[str], str]) -> None:
    before, after = verdict(line, ALLOW, DENY), verdict(wrap(line), ALLOW, DENY)
    assert strictest([before, after]) is after, (before, after)


@settings(max_examples=200)
@given(lines, st.sampled_from("'\"`$()&<>{}\\\x00\u200b\r"), st.integers(0, 60))
def test_an_injected_error_never_makes_an_ask_an_allow(line: str, error: str, at: int) -> None:
    after = line[:at] + error + line[at:]
    analysis = analyse(after)
    if not analysis.plain:
        assert verdict(after, ["tool"], DENY) is not Verdict.ALLOW


@settings(max_examples=300)
@given(lines)
def test_the_analysis_is_never_looser_than_the_faithful_verdict(line: str) -> None:
    for faithful in (Evaluation(Verdict.ASK, (Part(line, Verdict.ASK),)), Evaluation(Verdict.DENY)):
        given_verdict = hardened(line, faithful, SimpleRules(["tool"]), ROOT).verdict
        assert strictest([given_verdict, faithful.verdict]) is given_verdict


@settings(max_examples=300)
@given(lines)
def test_the_lexer_and_the_parser_agree_on_the_commands_of_plain_lines(line: str) -> None:
    analysis = lex(line)
    if not analysis.plain:
        return
    parsed = parse(join_lines(line), Budget())
    expected = [[word.resolved for word in command.words] for command in analysis.commands]
    assert [[loosen(word) for word in one.command.words] for one in parsed] == expected


@settings(max_examples=300)
@given(st.text(max_size=80) | st.text(alphabet="ab \n;&|<>(){}[]$`'\"\\#=!*?~-", max_size=60))
def test_any_text_is_analysed_without_an_error_and_with_a_reason_when_it_is_not_plain(line: str) -> None:
    analysis = analyse(line)
    assert analysis.plain is (analysis.reason is None)
    assert analyse(line) == analysis


@pytest.mark.parametrize("row", CORPUS["slow"], ids=lambda row: row["why"])
def test_the_longest_line_of_any_shape_is_judged_in_bounded_time(row: dict[str, Any]) -> None:
    line = row["fragment"] * (LINE_BYTES_MAX // len(row["fragment"]))
    started = time.perf_counter()
    verdict(line, ALLOW, DENY)
    assert time.perf_counter() - started < JUDGE_SECONDS_MAX


@pytest.mark.parametrize("depth", [200, 20_000])
def test_nested_substitutions_ask_at_once(depth: int) -> None:
    line = "ls " + "$(" * depth + ")" * depth
    started = time.perf_counter()
    assert verdict(line, ALLOW, DENY) is Verdict.ASK
    assert time.perf_counter() - started < JUDGE_SECONDS_MAX


def test_no_code_point_upsets_the_parser() -> None:
    for start in range(0x80, 0x110000, 0x400):
        line = "ls `x` " + "".join(map(chr, range(start, min(start + 0x400, 0x110000), 7)))
        assert not analyse(line).plain

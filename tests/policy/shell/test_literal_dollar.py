"""A literal `$` within double quotes is text, for every reader of a shell line; an expansion is none."""

from __future__ import annotations

import subprocess
from typing import Final

import pytest

from ledger.core.policy import Verdict
from ledger.policy.shell.analyse import analyse
from tests.policy.dialect_rules import FIVE, allowing, evaluated
from tests.support.rows import every

PROGRAMS: Final = ("grep", "echo", "sed", "git log")
LITERAL: Final = {
    '"foo$"': "foo$",
    '"$"': "$",
    '"a$ b"': "a$ b",
    '"a$ $ b"': "a$ $ b",
    '"a$\tb"': "a$\tb",
    '"cost: 5$"': "cost: 5$",
    r'"\$x"': "$x",
    '"^a$|^b$"': "^a$|^b$",
    '"(a$)"': "(a$)",
    '"/foo$/p"': "/foo$/p",
    '"a$,b$;"': "a$,b$;",
    r'"foo$\|bar$"': r"foo$\|bar$",
    r'"a$\"b"': 'a$"b',
    r'"a$\$x"': "a$$x",
    r'"a$\\"': "a$\\",
    '"foo$"bar': "foo$bar",
    "\"foo$\"'$x'": "foo$$x",
    '"$""x"': "$x",
}
EXPANDED: Final = (
    '"$x"', '"${x}"', '"$(cmd)"', '"$1"', '"$?"', '"$@"', '"$*"', '"$-"', '"$$"', '"$!"', '"$#"', '"$[1+1]"', '"$((1+1))"',
    '"$_x"', '"foo$"$x', '"foo$$(cmd)"', '"a$ $(cmd)"', '"a$ $x"', '"foo$`cmd`"', '"$\'x\'"', '"$~x"', '"$=x"', '"$+x"',
    '"$^x"', '$"foo$"', '"a$\\\nx"', '"a$ b$(cmd)"', '"a$ b$x"', '"\\\\$x"', '"a$',
)  # fmt: skip


@pytest.mark.parametrize(("word", "text"), LITERAL.items())
def test_it_is_the_value_of_the_word(word: str, text: str) -> None:
    for line in (f"grep {word} a", f"if true; then grep {word} a; fi"):
        analysis = analyse(line)
        assert analysis.plain
        assert analysis.commands[-1].words[1].resolved == text
    said = subprocess.run(["bash", "-c", f"printf %s {word}"], capture_output=True, text=True, check=True)
    assert said.stdout == text


@every("dialect", FIVE)
@every("word", LITERAL)
def test_a_line_with_it_is_allowed_by_a_rule(dialect: str, word: str) -> None:
    assert evaluated(dialect, f"grep {word} a", allowing(dialect, PROGRAMS)).verdict is Verdict.ALLOW
    line = f"echo a | grep {word} && grep x a"
    assert evaluated(dialect, line, allowing(dialect, PROGRAMS)).verdict is Verdict.ALLOW


@every("word", EXPANDED)
def test_an_expansion_has_no_known_value(word: str) -> None:
    analysis = analyse(f"grep {word} a")
    assert not analysis.plain or analysis.commands[0].words[1].resolved is None


@every("dialect", ["betcode", "claude"])
@every("word", EXPANDED)
def test_a_line_with_an_expansion_is_asked_where_variables_are(dialect: str, word: str) -> None:
    assert evaluated(dialect, f"grep {word} a", allowing(dialect, PROGRAMS)).verdict is Verdict.ASK


@every("dialect", FIVE)
@every("line", ['grep "a$ $(rm x)" a', 'grep "a$`rm x`" a', 'grep "a$"$(rm x) a', 'grep "$" a; rm x'])
def test_a_command_behind_it_is_judged(dialect: str, line: str) -> None:
    assert evaluated(dialect, line, allowing(dialect, PROGRAMS)).verdict is Verdict.ASK

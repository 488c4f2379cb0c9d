"""Words that are known only when the line runs, as Claude Code evaluates them."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.policy import Call, Evaluation, Layer, PolicySource, compile_policy
from tests.support.rows import every

CWD, HOME = "/home/ann/shop", "/home/ann"
MESSAGE = "\"$(cat <<'EOF'\nFix `it`\n# for $5\nEOF\n)\""
RULES = ["Bash(mytool *)", "Bash(git commit *)", "Bash(rm *)", "Bash(find *)"]


def judged(command: str, profile: str = "faithful", **permissions: Any) -> Evaluation:
    layer = Layer("project", config={"permissions": permissions or {"allow": RULES}})
    options = {"cwd": CWD, "home": HOME, "profile": profile, "fs": {}}
    found = compile_policy(PolicySource("claude", (layer,), options))
    return found.evaluate(Call("Bash", (), "Bash", {"command": command}))


@pytest.mark.parametrize(
    "command",
    [
        f"git commit -m {MESSAGE}",
        f"git commit -m {MESSAGE} && git status",
        f"mytool --body={MESSAGE}",
        'mytool; mytool "exit: $?"; mytool "pid $$"',
        'mytool "in $PWD"',
        'mytool "a $(mytool b) c"',
        'echo "a $(echo "b $(ls)")"',
        f"cd {CWD} && git status",
        f"cd '{CWD}/' && git commit -m x",
        f"cd {CWD} && mytool 2>&1 | tail -5",
        "cd src && mytool >&2",
    ],
)
def test_a_line_that_the_program_runs_under_these_rules_is_allowed(command: str) -> None:
    assert judged(command).verdict.value == "allow"


@every(
    "command",
    [
        'mytool "$?"',
        "mytool $?",
        'mytool "$(ls)"',
        'mytool "v$(ls)"',
        'mytool "a $FOO"',
        'mytool "at $HOSTNAME"',
        'mytool "sum $((1 + 2))"',
        'mytool <<< "a $(ls)"',
        "mytool <<'EOF'\nx\nEOF",
        'mytool "a ${HOME}"',
        'mytool "a $(ls; ls)"',
        'mytool "a $(ls | wc)"',
        'mytool "a $((x=1))"',
        'mytool --x="a $?"',
        '"my $?tool" x',
        '[ "a $?" = b ] && mytool',
        'rm "a $PWD"',
        'find "a $(ls)"',
        'env "a $?"',
        'grep "a $USER" f',
        'ls "a $?"',
        "mytool <<'EOF' | cat\nx\nEOF",
        "mytool <<'EOF' && ls\nx\nEOF",
        'git commit -m "$(cat <<EOF\nx\nEOF\n)"',
        "git commit -m \"$(cat <<'EOF' > y\nx\nEOF\n)\"",
        "mytool 2>&-",
        "a=(1 2)",
        "PATH=/x; mytool",
        "LD_PRELOAD=x; mytool",
        "A=1; ls",
        "A=$(ls)",
        "cd src && mytool > /dev/null",
        f"cd {CWD}/../shop && git status",
    ],
)
def test_a_line_that_the_program_asks_about_under_these_rules_is_asked(command: str) -> None:
    assert judged(command).verdict.value == "ask"


def test_a_command_inside_a_string_is_denied_by_its_own_rule() -> None:
    for command in ('echo "a $(rm x)"', 'echo "a `rm x`"', 'mytool <<< "a $(rm x)"', 'A="a $(rm x)"'):
        assert judged(command, allow=["Bash"], deny=["Bash(rm *)"]).verdict.value == "deny"


def test_a_message_is_the_text_that_a_command_gets() -> None:
    read = "cat \"$(cat <<'EOF'\n{}\nEOF\n)\""
    assert judged(read.format("notes.txt")).verdict.value == "allow"
    assert judged(read.format("/etc/passwd")).verdict.value == "ask"
    assert judged(read.format(".env"), deny=["Read(.env)"]).verdict.value == "deny"


def test_the_commands_of_a_string_are_parts_of_the_line() -> None:
    parts = [(part.text, part.verdict.value) for part in judged('mytool "a $(other b)"').parts]
    assert parts == [('mytool "a $(other b)"', "allow"), ("other b", "ask")]


def test_a_variable_that_is_set_in_front_is_followed_to_what_rules_deny() -> None:
    rules: dict[str, Any] = {"allow": ["Bash"], "deny": ["Bash(rm *)", "Read(.env)"]}
    assert judged("A=rm; $A x", **rules).verdict.value == "deny"
    assert judged("A=.env && cat ${A}", **rules).verdict.value == "deny"
    assert judged("A=b; mytool $A", **rules).verdict.value == "allow"
    assert judged(f"FOO={'b' * 2_000}; mytool $FOO", **rules).verdict.value == "ask"
    assert judged(f"A={'b' * 1_000}; mytool {'$A ' * 100}", **rules).verdict.value == "ask"

"""Redirections, and lines beyond the plain ones, under rules that allow files or everything (hardened)."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ledger.policy.check_questions import Checker

EDITING: Any = {"bash": "allow", "edit": "allow", "read": "allow"}


def verdict(permission: Any, line: str, **more: Any) -> str:
    asked = {"dialect": "opencode", "tool": "bash", "input": {"command": line}, "cwd": "/srv/shop", "fs": {}}
    found: str = Checker().answer({**asked, "config": {"permission": permission}, **more})["verdict"]
    return found


@pytest.mark.parametrize(
    "line", ["echo a > f", "echo a >> sub/f && ls", "cat < in", "ls | sort > out", "cd sub && echo a > f"]
)
def test_a_redirection_inside_the_project_is_what_the_rules_for_files_say(line: str) -> None:
    assert verdict(EDITING, line) == "allow"
    only_reads = line == "cat < in"  # needs no more than `cat in`
    assert verdict({"bash": "allow"}, line) == ("allow" if only_reads else "ask")
    assert verdict({**EDITING, "edit": "ask", "read": "ask"}, line) == "ask"
    assert verdict({**EDITING, "edit": "deny", "read": "deny"}, line) == "deny"


@pytest.mark.parametrize(
    "line", ["echo a > /etc/x", "echo a > ../x", "cat < ~/.ssh/id_rsa", "echo a > $F", "echo a > *.py"]
)
def test_a_redirection_that_leads_outside_or_nobody_knows_where_is_asked(line: str) -> None:
    assert verdict(EDITING, line) == "ask"
    assert verdict("allow", line) == "ask"
    assert verdict({"bash": "allow"}, line) == "ask"


def test_a_rule_for_one_file_allows_that_file_alone() -> None:
    permission = {"bash": "allow", "edit": {"*": "ask", "build/*": "allow", "build/secret": "deny"}}
    lines = ("make > build/log", "make > log", "make > build/secret", "make > build/log 2> log")
    assert [verdict(permission, line) for line in lines] == ["allow", "ask", "deny", "ask"]


@pytest.mark.parametrize("form", ["echo a > f", "echo a > f && ls"])
def test_a_link_that_leads_outside_is_no_file_of_the_project(form: str) -> None:
    assert verdict(EDITING, form, fs={"f": "-> /etc/x"}) == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "rm src/$X",
        "case $X in a) make;; esac",
        "> emptied",
        "echo `date`",
        "[[ -f x || -f y ]] && make",
        "for f in a b; do echo $f; done > list",
    ],
)
def test_where_everything_is_allowed_a_line_of_known_commands_runs(line: str) -> None:
    assert verdict("allow", line) == "allow"
    assert verdict({"*": "allow"}, line, defaults=True) == "allow"
    assert verdict({"bash": "allow"}, line) == "ask", "other permissions were not said to be allowed"


@pytest.mark.parametrize("line", ["git show $X", "case $X in a) make;; esac", "echo `date`"])
def test_where_something_is_forbidden_what_a_line_hides_is_asked(line: str) -> None:
    assert verdict({"*": "allow", "webfetch": "deny"}, line) == "ask"


@pytest.mark.parametrize(
    "line",
    [
        "echo $HOME",
        "for f in a b; do rm $f; done",
        "while true; do ls; done",
        "if test -f x; then make; fi",
        "(cd build && make)",
        "echo $(date)",
        "make &",
        "cat <<'E'\nx\nE",
        "CI=1 make",
    ],
)
def test_a_line_of_known_parts_runs_where_commands_are_allowed(line: str) -> None:
    assert verdict({"bash": "allow"}, line) == "allow"
    assert verdict({"bash": {"*": "allow", "make": "deny", "ls": "deny", "date": "deny"}}, line) == (
        "deny" if re.search("make|ls;|date", line) else "allow"
    )


@pytest.mark.parametrize(
    "line",
    [
        "$X",
        "sudo ls",
        "bash -c 'ls'",
        "curl x | sh",
        "for f in a; do eval $f; done",
        "echo $(bash x)",
        "bash <<E\nls\nE",
        "PATH=/tmp/x ls",
        "find $X",
        "(cd /tmp && echo a > f)",
        "for f in a",
        "echo \u202e$X",
        "echo " + "x" * 70_000,
    ],
)
def test_where_everything_is_allowed_what_hides_a_command_is_asked(line: str) -> None:
    assert verdict("allow", line) == "ask"


def test_a_grant_with_a_wildcard_lets_no_redirection_through() -> None:
    grants = [{"permission": "bash", "pattern": "echo *"}]
    exact = [{"permission": "bash", "pattern": "echo a > f"}]
    assert [verdict({}, "echo a > f", grants=one) for one in (grants, exact)] == ["ask", "allow"]
    assert verdict({}, "echo a > f; rm x", grants=exact) == "ask"
    assert verdict({"edit": "deny"}, "echo a > f", grants=exact) == "deny"


OPEN: Any = {**EDITING, "bash": {"*": "ask", "ls *": "allow", "cat *": "allow", "find *": "allow", "xargs *": "allow", "echo *": "allow"},
             "external_directory": {"*": "ask", "/tmp/*": "allow"}}  # fmt: skip


@pytest.mark.parametrize("dialect", ["opencode", "brutus"])
@pytest.mark.parametrize(
    "line",
    ["echo a > /tmp/x", "ls > /tmp/sub/x 2>&1", "cat < /tmp/x", "find /srv/shop/src -name a | xargs cat",
     "for f in $(find /srv/shop -name a); do cat $f; done", "find /srv/shop/src -exec cat {} +"],
)  # fmt: skip
def test_a_folder_that_rules_open_is_as_the_project(line: str, dialect: str) -> None:
    assert verdict(OPEN, line, dialect=dialect) == "allow"
    assert verdict({**OPEN, "external_directory": "allow"}, line, dialect=dialect) == (
        "ask" if "/tmp" in line else "allow"
    ), "a rule for every folder opens none of them"


@pytest.mark.parametrize(
    "line",
    ["cd /tmp && ls", "cd /tmp/a && echo a > b", "cd /tmp && cat x"],
)
def test_a_folder_that_rules_open_may_be_entered_if_its_files_may_be_edited(line: str) -> None:
    assert verdict(OPEN, line, fs={"/tmp": "dir"}) == "allow"
    assert verdict({**OPEN, "edit": "ask"}, line, fs={"/tmp": "dir"}) == "ask"


@pytest.mark.parametrize(
    "line",
    ["echo a > /tmp/../etc/x", "echo a > /etc/x", "cd /tmp && cat ../etc/x", "cd /tmp/a && cd ../.. && ls", "cd /etc && ls",
     "find /srv/shop2 -name a | xargs cat", "find /srv/shop/.. | xargs cat", "find /srv/shop src | xargs cat",
     "find /srv/shop /etc -exec cat {} +", "echo a > /tmp/link"],
)  # fmt: skip
def test_what_leads_out_of_a_folder_that_rules_open_is_asked(line: str) -> None:
    assert verdict(OPEN, line, fs={"/tmp/link": "-> /etc/x"}) == "ask"
    assert verdict({**OPEN, "bash": "allow"}, line, fs={"/tmp/link": "-> /etc/x"}) == "ask"


def test_every_question_says_why() -> None:
    asked = {"tool": "bash", "input": {"command": "cat /etc/hosts"}, "cwd": "/srv/shop", "config": {"permission": OPEN}}
    for dialect in ("opencode", "brutus"):
        for line in ("cat /etc/hosts", "make"):
            found = Checker().answer({**asked, "dialect": dialect, "input": {"command": line}})
            assert found["verdict"] == "ask"
            assert "asks about" in found["reason"]


def test_what_a_program_without_a_table_reads_needs_a_rule() -> None:
    permission = {"bash": "allow", "edit": "allow"}
    assert [verdict(permission, line) for line in ("cat < in", "mytool < in", "timeout 5 cat < in")] == [
        "allow", "ask", "allow"
    ]  # fmt: skip
    assert verdict({**permission, "read": "allow"}, "mytool < in") == "allow"

from __future__ import annotations

import pytest

from ledger.policy.shell.danger import dangerous_argument, in_table, never_allowed
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.names import lookups, plain_name
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT


def reason(line: str) -> str | None:
    return dangerous_argument(lex(line).commands[0])


@pytest.mark.parametrize(
    "line",
    [
        "git diff --outp=x",
        "sort -uox",
        "rg -e -- --pre ./x",
        "/usr/bin/rg --pre x",
        "GIT --exec-path=x y",
        "python3.11 x.py",
        "gsed -i s/a/b/ x",
        "npm -prefix x test",
        "tar cIf x y",
        "git st*",
        "rg -*",
        "sort *",
        "bun run ./x.js",
        "bun run x.ts",
    ],
)
def test_dangerous_options_are_seen_abbreviated_clustered_and_under_other_names(line: str) -> None:
    assert reason(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "git diff --output-indicator-new=x",
        "git log -- --output=x",
        "rg --pretty x",
        "rg -tzig x",
        "rg -- --pre src",
        "sort -k2o",
        "find . -name a -o -name b",
        "go test -v -count=1 -cover ./...",
        "tar -xzf x.tgz",
        "node --version",
        "bun run build",
        "unknown --exec x",
        "ls *",
    ],
)
def test_options_that_only_look_alike_stay_harmless(line: str) -> None:
    assert reason(line) is None


@pytest.mark.parametrize(
    "script",
    [
        "5p",
        "1,20p",
        "$d",
        "/a/,/b/p",
        "s/a/b/g",
        "s|a|b|2",
        "s/a/b/;s/c/d/",
        "y/ab/cd/",
        "/x/!d",
        "$!N",
        "1~2p",
        "q",
        "=",
    ],
)
def test_sed_scripts_that_only_print_are_harmless(script: str) -> None:
    assert reason(f"sed -n '{script}' a.txt") is None


@pytest.mark.parametrize(
    "script",
    [
        "w x",
        "1e id",
        "s/a/b/e",
        "s/a/b/w x",
        "s/a/b/gw x",
        "e",
        "r x",
        "R x",
        "W x",
        "s/a/b/;w x",
        "p;e",
        "{p}",
        "s/a/b",
        "a x",
    ],
)
def test_sed_scripts_that_may_do_more_are_dangerous(script: str) -> None:
    assert reason(f"sed '{script}' a.txt") is not None


@pytest.mark.parametrize(
    "script",
    [
        "{print $1}",
        "NR==1",
        "/a b/ {print $NF}",
        "NR>1 && $2!=3 {print $1, $2}",
        "END{print NR}",
        '{print "x" $1; print $2}',
        "$1 ~ /x/",
    ],
)
def test_awk_programs_that_only_print_are_harmless(script: str) -> None:
    assert reason(f"awk -F: '{script}' a.txt") is None


@pytest.mark.parametrize(
    "script",
    [
        '{print > "x"}',
        '{print | "sh"}',
        'BEGIN{system("id")}',
        '"id" | getline',
        "{print $1 > $2}",
        '{print}; @load "x"',
        "function f() {}",
    ],
)
def test_awk_programs_that_may_do_more_are_dangerous(script: str) -> None:
    assert reason(f"awk '{script}' a.txt") is not None


def test_a_file_name_that_awk_takes_for_an_assignment_is_dangerous() -> None:
    assert reason("awk NR==1 FS=x a.txt") is not None


@pytest.mark.parametrize(
    "line",
    ["bash x", "/bin/zsh", "sudo ls", "env", "eval ls", "export A", "hash -r", "nice --x ls", "./nohup ls", "bash5 x"],
)
def test_no_rule_for_a_shell_a_wrapper_or_a_builtin_that_changes_the_shell_ever_counts(line: str) -> None:
    assert never_allowed(lex(line).commands[0]) is not None


def test_a_programs_name_is_known_whatever_path_version_case_or_prefix_it_has() -> None:
    names = ["/usr/bin/python3.11", "GAWK", "gsed", "node18", "vim.exe", "pip3", "clang-15", "7z", "["]
    assert [plain_name(name) for name in names] == ["python", "awk", "sed", "node", "vim", "pip", "clang", "7z", "test"]
    assert lookups("/opt/GAWK") == ("gawk", "awk")


def test_the_tables_keep_what_they_held() -> None:
    assert in_table("git")
    assert not in_table("ls")
    assert len(ARGUMENTS) >= 110
    assert sum(entry.always for entry in ARGUMENTS.values()) >= 45
    assert len(OPAQUE) + len(SHELLS) >= 50
    assert len(STATE_BUILTINS) >= 33
    assert set(TRANSPARENT) == {"timeout", "nice", "nohup", "time", "stdbuf"}
    assert not set(ARGUMENTS) & set(TRANSPARENT)
    assert not STATE_BUILTINS & {"cd", "echo", "true", "test", "printf"}

from __future__ import annotations

import pytest

from ledger.policy.check_questions import Checker
from ledger.policy.shell.danger import dangerous_argument, in_table, never_allowed
from ledger.policy.shell.forms.reduction import is_harmless_script
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.names import lookups, plain_name
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT


def reason(line: str) -> str | None:
    return dangerous_argument(lex(line).commands[0])


@pytest.mark.parametrize(
    "line",
    [
        "gpg --outp=x",
        "history -wc",
        "nm -e -- --plugin ./x",
        "/usr/bin/ar --plugin x",
        "GPG --homedir=x y",
        "gpg2 --homedir x",
        "most +x",
        "bat cache",
        "journalctl *",
        "rg -*",
        "sort *",
    ],
)
def test_dangerous_options_are_seen_abbreviated_clustered_and_under_other_names(line: str) -> None:
    assert reason(line) is not None


@pytest.mark.parametrize(
    "line",
    [
        "gpg --output-x x",
        "bat --paging x",
        "journalctl -nD",
        "nm -- --plugin x",
        "unknown --exec x",
        "ls *",
    ],
)
def test_options_that_only_look_alike_stay_harmless(line: str) -> None:
    assert reason(line) is None


@pytest.mark.parametrize("line", ["git $X", 'tar "$X"', 'git log -- "$X"', "rustc $X f", 'npm run "$X"', 'tee "$X"'])
def test_a_rule_that_allows_everything_leaves_out_unknown_words_of_programs_with_a_table(line: str) -> None:
    everything = {"dialect": "opencode", "config": {"permission": {"*": "allow"}}}
    judged = Checker().answer({**everything, "tool": "bash", "input": {"command": line}})
    assert judged["verdict"] == "ask"
    assert "may become an option of" in judged["reason"]


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
    assert is_harmless_script("sed", script)


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
    assert not is_harmless_script("sed", script)


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
    assert is_harmless_script("awk", script)


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
    assert not is_harmless_script("awk", script)


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
    assert len(OPAQUE) + len(SHELLS) >= 50
    assert len(STATE_BUILTINS) >= 33
    assert set(TRANSPARENT) == {"timeout", "nice", "nohup", "time", "stdbuf"}
    assert not set(ARGUMENTS) & set(TRANSPARENT)
    assert not STATE_BUILTINS & {"cd", "echo", "true", "test", "printf"}

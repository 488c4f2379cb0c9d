"""Commands that an allow rule covers, by their form."""

from __future__ import annotations

import pytest

from ledger.core.policy import Verdict
from ledger.policy.check_questions import Checker
from tests.policy.shell.simple_rules import verdict


@pytest.mark.parametrize("runner", ["uv run", "poetry run", "pipenv run"])
def test_a_runner_of_the_project_runs_what_a_rule_of_its_own_allows(runner: str) -> None:
    line = f"{runner} pytest -q tests"
    assert verdict(line, [f"prefix {runner}", "prefix pytest"]) is Verdict.ALLOW
    assert verdict(line, [f"prefix {runner} pytest"]) is Verdict.ALLOW
    assert verdict(line, [f"prefix {runner}"]) is Verdict.ASK
    assert verdict(f"{runner} pytest -p evil", [f"prefix {runner}", "prefix pytest"]) is Verdict.ASK
    assert verdict(f"{runner} bash -c ls", [f"prefix {runner}", "prefix bash"]) is Verdict.ASK


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("npx tsc --noEmit", "prefix npx tsc"),
        ("python -m pytest -q", "prefix python -m pytest"),
        ("git log --ext-diff", "prefix git log --ext-diff"),
        ("frobnicate --all src/x", "prefix frobnicate"),
        ("go build -o bin/x ./cmd/x", "prefix go build"),
    ],
)
def test_a_rule_covers_what_it_names_and_what_is_harmless(line: str, rule: str) -> None:
    assert verdict(line, [rule]) is Verdict.ALLOW


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("npx touch x", "prefix npx"),
        ("python -m evil", "prefix python"),
        ("git log --ext-diff", "prefix git log"),
        ("git log --zap", "prefix git"),
        ("frobnicate ../x", "prefix frobnicate"),
        ("frobnicate https://example.com", "prefix frobnicate"),
        ("frobnicate --exec='touch x'", "prefix frobnicate"),
        ("frobnicate -c 'touch x'", "prefix frobnicate"),
        ("go build -o ../x ./cmd/x", "prefix go build"),
        ("go build -o .git/hooks/pre-commit ./cmd/x", "prefix go build"),
        ("cp a .claude/settings.json", "prefix cp"),
    ],
)
def test_a_rule_does_not_cover_what_it_neither_names_nor_means(line: str, rule: str) -> None:
    assert verdict(line, [rule]) is Verdict.ASK


@pytest.mark.parametrize(
    "line",
    [
        "jest --globalSetup=./x $F",
        "echo $X; mypy --python-executable=./x a.py",
        'for f in "$D"/*; do vitest --config ./evil.ts; done',
        "[[ -f x ]] && npm run x --script-shell=./e",
    ],
)
def test_rules_that_allow_everything_do_not_cover_what_runs_something_else(line: str) -> None:
    question = {"dialect": "opencode", "profile": "hardened", "config": {"permission": {"*": "allow"}}, "cwd": "/repo"}
    answer = Checker().answer({**question, "tool": "bash", "input": {"command": line}})
    assert answer["verdict"] == "ask", answer


@pytest.mark.parametrize("option", ["--help", "--hel", "--he", "--version", "--v"])
def test_a_rule_for_a_program_that_always_asks_covers_the_request_for_its_help(option: str) -> None:
    """The fuzzer of spellings found that `--he` asked where `--help` did not."""
    assert verdict(f"truncate {option}", ["prefix truncate"]) is Verdict.ALLOW
    assert verdict(f"truncate {option} x", ["prefix truncate"]) is Verdict.ASK
    assert verdict(f"truncate -s 0 {option}", ["prefix truncate"]) is Verdict.ASK


@pytest.mark.parametrize("line", ["perl -v", "bash -v", "xargs -V", "sudo -h", "truncate -h"])
def test_a_short_option_of_a_program_that_always_asks_is_not_taken_for_its_help(line: str) -> None:
    assert verdict(line, [f"prefix {line.partition(' ')[0]}"]) is Verdict.ASK

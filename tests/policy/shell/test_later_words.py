"""Later words of a command: what an unknown program may run, and what a rule that names an operand covers."""

from __future__ import annotations

from time import process_time
from typing import Any, Final

import pytest

from ledger.core.policy import Verdict
from ledger.policy.own import OwnCommands, OwnPaths
from ledger.policy.shell.forms.respelling import TAILS_COUNT
from ledger.policy.shell.hardened import hardened
from tests.policy.dialect_rules import FIVE, FOLDER, allowing, evaluated
from tests.policy.shell.simple_rules import ROOT, UNDECIDED, SimpleRules

RAN: Final = (
    "vaultrun exec -- rm -rf src",
    "vaultrun rm -r -f src",
    "vaultrun exec --env=x /bin/rm -rf src",
    'vaultrun ssh -C "rm -rf src"',
    'vaultrun ssh "cd src;rm -rf ."',
    "vaultrun ssh 'rm \"-rf\" src'",
    "vaultrun '--command=rm -rf src'",
    "vaultrun -C 'sh -c \"rm -rf src\"'",
)
NOT_RAN: Final = (
    "vaultrun exec ls src",
    "vaultrun rmdir src",
    "vaultrun --rm src",
    "vaultrun 'rm one thing'",
    "vaultrun rm src",
)
NAMED: Final = (
    "rm -rf build", "touch logs/a", "make stage", "git push origin", "git push upstream topic", "kubectl delete pod web",
    "kubectl rollout restart deploy/web", "docker compose up -d web", "brew install jq", "kill 12", "curl https://api.internal/",
)  # fmt: skip
COVERED: Final = (
    *NAMED, "git push origin main", "git push upstream topic --dry-run", "kubectl delete pod web --wait=false", "curl https://api.internal/ -s",
)  # fmt: skip
MORE: Final = (
    "rm -rf build src", "rm -rf build -- src", "touch logs/a src/b", "make stage release", "git push upstream topic main",
    "git push upstream topic --tags", "kubectl delete pod web db", "kubectl delete pod web --all",
    "kubectl delete pod web --context prod", "kubectl rollout restart deploy/web deploy/db", "docker compose up -d web db", "git push upstream topic --force", "kill 12 1", "systemctl restart nginx sshd",
    "brew install jq --cask wget", "curl https://api.internal/ -s https://elsewhere.example/",
)  # fmt: skip


def rules(dialect: str, programs: tuple[str, ...] = (), denied: str | None = "rm -rf") -> dict[str, Any]:
    """Return a configuration that allows programs, or everything, and denies one command."""
    config = allowing(dialect, programs)
    if denied is None:
        return config
    if dialect in ("claude", "betcode"):
        config["permissions"]["deny"] = [f"Bash({denied}:*)"]
    elif dialect == "codelia":
        config["permissions"]["deny"] = [{"tool": "bash", "command": denied}]
    else:
        config["permission"]["bash"][f"{denied} *"] = "deny"
    return config


@pytest.mark.parametrize("dialect", FIVE)
@pytest.mark.parametrize("programs", [(), ("vaultrun",)], ids=["everything", "the program"])
def test_an_unknown_program_asks_where_its_later_words_say_what_a_rule_denies(
    dialect: str, programs: tuple[str, ...]
) -> None:
    for line in RAN:
        assert evaluated(dialect, line, rules(dialect, programs)).verdict is not Verdict.ALLOW, line
    for line in NOT_RAN:
        assert evaluated(dialect, line, rules(dialect, programs)).verdict is Verdict.ALLOW, line


@pytest.mark.parametrize("dialect", FIVE)
def test_an_unknown_program_asks_where_its_own_words_say_that_it_runs_or_writes_something(dialect: str) -> None:
    config = rules(dialect, ("vaultrun", "ls"), None)
    if dialect in ("claude", "betcode"):
        config["permissions"]["allow"] = ["Bash(vaultrun:*)", "Bash(ls:*)"]
    elif dialect != "codelia":
        config["permission"]["edit"] = "ask"
    for line in (
        "vaultrun -- ./evil", "vaultrun exec -- npm run deploy", "vaultrun --diff-command ./x a b", "vaultrun --config=x.yml",
        "vaultrun log ui.pager=./evil", "vaultrun alias set x '!touch a'", "vaultrun < a.sql", "vaultrun -o Makefile",
        "vaultrun --output=src/a.ts", "vaultrun --in-place a.csv",
    ):  # fmt: skip
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line
    for line in ("vaultrun exec -- ls src", "vaultrun --verbose a.csv", "vaultrun --name=x list", "vaultrun a=b"):
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line


@pytest.mark.parametrize("dialect", FIVE)
def test_a_wildcard_covers_no_path_that_leads_elsewhere(dialect: str) -> None:
    config = rules(dialect, ("cp src/* dist/", "touch build/"), None)
    if dialect == "codelia":
        config["permissions"]["allow"] = [
            {"tool": "bash", "command_glob": "cp src/* dist/*"},
            {"tool": "bash", "command_glob": "touch build/*"},
        ]
    for line in ("cp src/a dist/../Makefile", "touch build/../src/a"):
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line


@pytest.mark.parametrize("dialect", FIVE)
def test_a_wildcard_behind_the_name_of_a_task_stands_for_more_words_and_not_for_other_tasks(dialect: str) -> None:
    config = rules(dialect, ("npm run lint",), None)
    if dialect == "codelia":
        config["permissions"]["allow"] = [{"tool": "bash", "command_glob": "npm run lint*"}]
    elif "permission" in config:
        config["permission"]["bash"] = {"*": "ask", "npm run lint*": "allow"}
    for line in ("npm run lint", "npm run lint -- --fix"):
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line
    for line in ("npm run lint:evil", "npm run linty", "npm run lint-evil"):
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line


@pytest.mark.parametrize("dialect", FIVE)
def test_a_command_in_one_word_for_a_container_is_not_covered(dialect: str) -> None:
    config = rules(dialect, ("docker run --rm ours/app",), None)
    if dialect == "codelia":
        config["permissions"]["allow"] = [{"tool": "bash", "command_glob": "docker run --rm ours/app*"}]
    assert evaluated(dialect, "docker run --rm ours/app sh -c 'touch x'", config).verdict is Verdict.ASK
    assert evaluated(dialect, "docker run --rm ours/app ls -l", config).verdict is Verdict.ALLOW


@pytest.mark.parametrize("dialect", FIVE)
def test_a_text_that_a_shell_may_compute_asks_if_it_holds_a_command(dialect: str) -> None:
    config = rules(dialect, ("printf", "test", "["), None)
    for line in ("printf '%d' 'a[$(touch x)]'", "test 'a[`id`]' -eq 1", "[ 'a[$(id)]' -eq 1 ]"):
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line
    assert evaluated(dialect, "printf '%s [%s]' a b", config).verdict is Verdict.ALLOW


def test_an_unknown_program_asks_where_its_later_words_answer_for_a_person() -> None:
    own = OwnCommands(OwnPaths(()))
    for line in ("vaultrun -- permission-ledger reply r1 once", 'vaultrun -C "permission-ledger reply r1 once"'):
        found = own.touched(line, FOLDER)
        assert found is not None, line
        assert found.verdict is Verdict.ASK, line
    for line in (
        "vaultrun -- permission-ledger pending",
        "grep -rn permission-ledger docs",
        "echo permission-ledger reply r1",
    ):
        assert own.touched(line, FOLDER) is None, line


@pytest.mark.parametrize("dialect", FIVE)
def test_a_rule_that_names_one_of_several_operands_covers_no_others(dialect: str) -> None:
    config = rules(dialect, NAMED, None)
    for line in COVERED:
        assert evaluated(dialect, line, config).verdict is Verdict.ALLOW, line
    for line in MORE:
        assert evaluated(dialect, line, config).verdict is Verdict.ASK, line


@pytest.mark.parametrize("dialect", FIVE)
def test_a_deny_about_a_file_holds_for_another_spelling_of_its_path(dialect: str) -> None:
    config = rules(dialect, ("cat",), "cat .env")
    for line in ("cat .env", "cat ./.env", "cat src/../.env", "cat -n .//.env"):
        assert evaluated(dialect, line, config).verdict is Verdict.DENY, line
    assert evaluated(dialect, "cat ./.envrc", config).verdict is Verdict.ALLOW


def test_the_judgement_of_later_words_is_bounded_and_asks_beyond_the_bound() -> None:
    class Counting(SimpleRules):
        count = 0

        def restricting(self) -> tuple[str, ...]:
            return ("rm -rf *",)

        def restrict(self, spelling: Any) -> Any:
            self.count += 1
            return super().restrict(spelling)

    few, many = Counting(["tool"], ["prefix rm -rf"]), Counting(["tool"], ["prefix rm -rf"])
    assert hardened("vaultrun" + " rm" * (TAILS_COUNT - 1), UNDECIDED, few, ROOT).verdict is Verdict.ALLOW
    assert hardened("vaultrun" + " rm" * 20_000, UNDECIDED, many, ROOT).verdict is Verdict.ASK
    assert many.count <= few.count + 4


LONG_LINE_S: Final = 1.0
"""Processor time: one that grows with the square of the line takes several times as long."""
LONG: Final = (
    "vaultrun --" + "a-" * 15_000,
    "vaultrun " + "a.b=" * 7_500,
    "vaultrun " + "-- " * 10_000,
    "printf %d '" + "[" * 30_000 + "'",
    "git push origin " + "'*' " * 7_500,
    "kubectl delete pod " + "web " * 7_500,
    "docker run image " + "-c 'a b' " * 3_000,
    "npm run " + "a-" * 15_000,
    "find . " + "| xargs cat " * 2_500,
)


@pytest.mark.parametrize("dialect", FIVE)
def test_a_long_line_is_judged_in_linear_time(dialect: str) -> None:
    config = rules(
        dialect,
        ("vaultrun", "printf", "git", "kubectl delete pod web", "docker run image", "npm run a*"),
        "git push origin main",
    )
    for line in LONG:
        started = process_time()
        evaluated(dialect, line, config)
        assert process_time() - started < LONG_LINE_S, line[:30]

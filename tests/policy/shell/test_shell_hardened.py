from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.core.policy import Evaluation, Part, RuleRef, Verdict
from ledger.policy.shell.hardened import hardened
from ledger.policy.shell.words import SENTENCE_CHARS_MAX
from tests.policy.shell.simple_rules import ROOT, SimpleRules, judge, verdict
from tests.support.rows import every

TABLE: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parents[2] / "data/policy/shell.json").read_text())
RM = RuleRef("prefix rm")


@every("row", TABLE["adversarial"], ids=lambda row: row["id"])
def test_no_smuggled_command_is_allowed(row: dict[str, Any]) -> None:
    assert verdict(row["command"], row["allow"], row.get("deny", ())) is not Verdict.ALLOW


@every("row", TABLE["benign"], ids=lambda row: row["id"])
def test_every_benign_command_is_allowed(row: dict[str, Any]) -> None:
    assert judge(row["command"], row["allow"], row.get("deny", ())) == Evaluation(Verdict.ALLOW)


def test_every_ask_and_deny_has_a_sentence_and_a_part() -> None:
    for row in TABLE["adversarial"]:
        evaluation = judge(row["command"], row["allow"], row.get("deny", ()))
        assert evaluation.reason, row["id"]
        assert any(part.verdict is evaluation.verdict for part in evaluation.parts), row["id"]
        assert (evaluation.message is not None) == (evaluation.verdict is Verdict.DENY), row["id"]


def test_a_denied_command_behind_wrappers_is_named_with_what_runs_it() -> None:
    evaluation = judge("ls; sudo bash -c 'rm x'", ["tool"], ["prefix rm"])
    assert evaluation == Evaluation(
        Verdict.DENY,
        (
            Part("rm x", Verdict.DENY, (RM,), liftable=False, inside="bash -c 'rm x'"),
            Part("sudo bash -c 'rm x'", Verdict.ASK, liftable=False),
        ),
        (RM,),
        message="Denied by rule: prefix rm",
        reason="a rule denies `rm x`",
    )


def test_a_denial_of_the_source_stands_as_it_is() -> None:
    faithful = Evaluation(Verdict.DENY, (Part("rm x", Verdict.DENY),), message="no")
    assert hardened("rm x; $(ls)", faithful, SimpleRules(["tool"]), ROOT) is faithful


def test_parts_of_a_line_that_is_not_plain_are_raised_and_no_grant_lifts_them() -> None:
    faithful = Evaluation(Verdict.ASK, (Part("ls `x`", Verdict.ALLOW, (RM,), grants=("g",)), Part("pwd", Verdict.ASK)))
    evaluation = hardened("ls `x`; pwd", faithful, SimpleRules(["prefix ls"]), ROOT)
    assert evaluation.parts == (Part("ls `x`", Verdict.ASK, liftable=False), Part("pwd", Verdict.ASK, liftable=False))
    assert evaluation.reason == "a backtick runs another command inside this one"


def test_a_part_that_asks_for_want_of_a_rule_can_still_be_lifted() -> None:
    faithful = Evaluation(Verdict.ASK, (Part("pwd", Verdict.ASK),))
    assert hardened("pwd", faithful, SimpleRules(["prefix ls"]), ROOT).parts == faithful.parts


def test_a_part_that_asks_and_has_a_dangerous_argument_cannot_be_lifted() -> None:
    faithful = Evaluation(Verdict.ASK, (Part("git -c a=b status", Verdict.ASK),))
    parts = hardened("git -c a=b status", faithful, SimpleRules([]), ROOT).parts
    assert parts == (Part("git -c a=b status", Verdict.ASK, liftable=False),)


def test_a_command_without_a_rule_for_its_own_words_asks_although_the_source_allows() -> None:
    evaluation = judge("timeout 5 touch x", ["prefix timeout"])
    assert evaluation.parts == (Part("timeout 5 touch x", Verdict.ASK, liftable=False),)
    assert evaluation.reason == "no rule allows `touch x` by its own words"


@pytest.mark.parametrize(
    ("line", "allowed"),
    [
        ("cd a && cd .. && ls", True),
        ("cd a; cd ..; ls", False),
        ("cd a && ls; cd b", True),
        ("ls || cd a && cd ..", False),
        ("cd a || ls; cd b/..", True),
        ("cd a && cd b && cd ../..", True),
        ("cd a && cd ../..", False),
        ("(cd ..)", False),
        ("cd a | ls", True),
        ("cd .", True),
        ("cd ''", False),
        ("cd a b", False),
        ("timeout 5 cd ..", False),
        ("cd a; " * 33, False),
    ],
)
def test_cd_needs_no_rule_inside_the_root_and_asks_where_it_may_leave(line: str, allowed: bool) -> None:
    assert (verdict(line, ["prefix ls"]) is Verdict.ALLOW) is allowed


def test_a_deny_rule_for_cd_applies() -> None:
    assert verdict("cd a", [], ["prefix cd"]) is Verdict.DENY


@pytest.mark.parametrize(
    ("line", "denied"),
    [
        ("cat < .env", True),
        ("ls > .env", True),
        ("ls &>> ./.env", True),
        ("{ ls; } 2> .env", True),
        ("cat < a/../.env", True),
        ("cd a && cat < ../.env", True),
        ("cd a && cat < .env", False),
        ("sh -c 'cat < .env'", True),
        ("ls 2>&1", False),
        ("cat << .env\nx\n.env", False),
    ],
)
def test_targets_and_inputs_of_redirections_count_for_path_rules(line: str, denied: bool) -> None:
    assert (verdict(line, ["tool"], paths=[ROOT + "/.env"]) is Verdict.DENY) is denied


def test_a_rule_without_wildcard_covers_a_dangerous_argument_but_never_a_wrapper() -> None:
    assert verdict("sed -i s/a/b/ x", ["exact sed -i s/a/b/ x"]) is Verdict.ALLOW
    assert verdict("sed -i s/a/b/ y", ["exact sed -i s/a/b/ x"]) is Verdict.ASK
    assert verdict("sudo ls", ["exact sudo ls"]) is Verdict.ASK


def test_a_glob_over_the_full_text_must_spell_operators_and_redirections() -> None:
    assert verdict("rg a > out", ["glob_full rg * > out"]) is Verdict.ALLOW
    assert verdict("rg a > out2", ["glob_full rg * > out"]) is Verdict.ASK
    assert verdict("rg a >> out", ["glob_full rg * > out"]) is Verdict.ASK
    assert verdict("rg a > out; ls", ["glob_full rg * > out*"]) is Verdict.ASK
    assert verdict("rg 'a > b' > out", ["glob_full rg * > *"]) is Verdict.ALLOW


def test_a_near_miss_of_a_deny_rule_asks_and_says_which() -> None:
    evaluation = judge("tool push origin -f", ["prefix tool"], ["prefix tool push --force"])
    assert evaluation.verdict is Verdict.ASK
    assert evaluation.reason == "it is close to `tool push --force`, which a rule restricts"


@pytest.mark.parametrize("line", ["git push origin -f", "git -P push -qf o", "git push o +main", "sudo git push -f"])
def test_a_deny_rule_reaches_every_spelling_of_what_it_says(line: str) -> None:
    evaluation = judge(line, ["tool"], ["prefix git push --force"])
    assert (evaluation.verdict, evaluation.rules) == (Verdict.DENY, (RuleRef("prefix git push --force"),))


def test_a_reason_stays_readable_however_long_the_line_is() -> None:
    for line in ("ls " + "x" * 60_000, "ls > " + "x" * 60_000, "x+=" + "x" * 60_000, "git -c " + "x" * 60_000):
        reason = judge(line, []).reason
        assert reason is not None
        assert len(reason) <= SENTENCE_CHARS_MAX + 3

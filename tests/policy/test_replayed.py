"""Policies by recorded facts: what was not recorded is never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ledger.client.machine import DiskFacts
from ledger.client.policies import RememberingPolicy
from ledger.core.policy import ConsultedFacts, ConsultedFile
from ledger.policy import Call, Layer, Policy, PolicySource, Rule, Verdict, compile_policy, digest
from ledger.policy.consulted import (
    FILES_BYTES,
    NotDecidableError,
    RecordedFacts,
    ReplayedPolicies,
    merged,
    with_answers,
)
from ledger.policy.spelled import UNKNOWN_FOLDER

CD = Call("bash", (), "bash", {"command": "cd link && git status"})
SOURCE = PolicySource(layers=(Layer("test", rules=(Rule("*", "*", Verdict.ALLOW),)),))


def replayed(facts: ConsultedFacts | None, cwd: str, source: PolicySource = SOURCE) -> Policy:
    return ReplayedPolicies().policy(source, digest(source), facts, cwd=cwd, home=None)


def test_a_fact_that_was_not_recorded_is_not_guessed() -> None:
    with pytest.raises(NotDecidableError, match=r"the log does not say the kind of `/p/\.git`"):
        replayed(None, "/p").evaluate(CD)


def test_one_fact_less_is_not_decidable(tmp_path: Path) -> None:
    project = tmp_path.resolve()
    (project / "link").symlink_to("/etc")
    policy = RememberingPolicy(
        compile_policy(PolicySource(layers=SOURCE.layers, options={"cwd": str(project)})), DiskFacts()
    )
    facts = policy.evaluate(CD).facts
    assert facts is not None
    assert ConsultedFile(f"{project}/link", found="/etc") in facts.files
    for left_out in facts.files:
        fewer = ConsultedFacts(tuple(file for file in facts.files if file != left_out))
        with pytest.raises(NotDecidableError):
            replayed(fewer, str(project)).evaluate(CD)
    assert replayed(facts, str(project)).evaluate(CD).ask_first == policy.evaluate(CD).ask_first


def test_a_path_below_an_unknown_folder_needs_no_record() -> None:
    facts = RecordedFacts(ConsultedFacts())
    assert (facts.resolve(f"{UNKNOWN_FOLDER}/a"), facts.kind(f"{UNKNOWN_FOLDER}/a")) == (f"{UNKNOWN_FOLDER}/a", None)
    with pytest.raises(NotDecidableError):
        facts.resolve(f"{UNKNOWN_FOLDER}/../etc/link")


def test_one_reader_judges_by_the_facts_of_each_event() -> None:
    policies = ReplayedPolicies()
    found = []
    for target in ("/p/docs", "/etc", None):
        files = [ConsultedFile("/p/link", found=target), ConsultedFile("/p/.git", "kind", "dir"), ConsultedFile("/p")]
        files.append(ConsultedFile("/p/link", "kind", "dir"))
        files.append(ConsultedFile("/p/link/HEAD", "kind"))
        files += [ConsultedFile(path) for path in ("/p/docs", "/etc")]
        policy = policies.policy(SOURCE, digest(SOURCE), ConsultedFacts(tuple(files)), cwd="/p", home=None)
        found.append(bool(policy.evaluate(CD).ask_first))
    assert found == [False, True, False]


def test_rules_that_rest_on_files_are_made_anew_when_the_files_change(tmp_path: Path) -> None:
    project = tmp_path.resolve() / "shop"
    (project / "deep").mkdir(parents=True)
    options: dict[str, Any] = {
        "defaults": True,
        "cwd": str(project / "deep"),
        "home": str(tmp_path / "home"),
        "agent": "plan",
    }
    source = PolicySource(layers=(), options=options)
    policy = RememberingPolicy(compile_policy(source), DiskFacts())
    call = Call("edit", (), "edit", {"filePath": "a.ts"})
    before = policy.evaluate(call).facts
    (project / ".git").mkdir()
    after = policy.evaluate(call).facts
    assert before is not None
    assert after is not None
    kind = ConsultedFile(f"{project}/.git", "kind")
    assert kind in before.files
    assert ConsultedFile(kind.path, "kind", "dir") in after.files
    for facts in (before, after):
        replayed(facts, str(project / "deep"), source).evaluate(call)


def test_facts_over_the_bound_leave_the_verdict_in_their_place() -> None:
    evaluation = compile_policy(SOURCE).evaluate(CD)
    path = "/p/" + "x" * (FILES_BYTES // 2)
    half = with_answers(evaluation, {("target", path): path}, ())
    whole = with_answers(evaluation, {("target", path): path, ("kind", path): None}, ())
    assert half.facts is not None
    assert half.facts.files == (ConsultedFile(path),)
    assert whole.facts == ConsultedFacts(too_many=evaluation.verdict)
    other = with_answers(evaluation, {("target", path + "y"): path + "y"}, ())
    assert merged(half, [other]).facts == ConsultedFacts(too_many=evaluation.verdict)
    assert merged(half, [half]) == half

"""A policy with a cache returns the same evaluations as one without, also after files have changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ledger.client.machine import DiskFacts
from ledger.client.policies import EVALUATIONS_COUNT, FACTS_COUNT, KEY_BYTES, RememberingPolicy
from ledger.policy import Call, Evaluation, Grant, Layer, Policy, PolicySource, Rule, Verdict, compile_policy
from ledger.policy.facts import FileKind

RULES = (Rule("*", "*", Verdict.ASK), Rule("bash", "git *", Verdict.ALLOW), Rule("bash", "cat *", Verdict.ALLOW))


def opencode(**options: Any) -> Policy:
    return compile_policy(PolicySource(layers=(Layer("test", rules=RULES),), options=options))


def bash(command: str, **more: Any) -> Call:
    return Call("bash", (command,), **more)


def test_the_same_call_is_judged_once() -> None:
    policy = RememberingPolicy(opencode(), DiskFacts())
    first = policy.evaluate(bash("git status"))
    assert first == opencode().evaluate(bash("git status"))
    assert policy.evaluate(bash("git status")) is first


def test_a_link_that_leads_elsewhere_now_is_judged_anew(tmp_path: Path) -> None:
    project, outside = tmp_path / "project", tmp_path / "outside"
    for folder in (project / "docs", outside):
        folder.mkdir(parents=True)
    link = project / "link"
    link.symlink_to(project / "docs")
    policy = RememberingPolicy(opencode(cwd=str(project), worktree=str(project)), DiskFacts())
    call = Call("bash", (), "bash", {"command": "cd link && git status"})
    before = policy.evaluate(call)
    assert before.verdict is Verdict.ALLOW
    assert policy.evaluate(call) is before
    link.unlink()
    link.symlink_to(outside)
    assert policy.evaluate(call).verdict is Verdict.ASK
    link.unlink()
    link.symlink_to(project / "docs")
    assert policy.evaluate(call) == before


def test_grants_and_every_part_of_a_call_tell_calls_apart() -> None:
    policy = RememberingPolicy(opencode(), DiskFacts())
    call, grant = bash("npm test"), Grant("grn_1", "bash", "npm *")
    assert policy.evaluate(call).verdict is Verdict.ASK
    assert policy.evaluate(call, (grant,)).verdict is Verdict.ALLOW
    assert policy.evaluate(call).verdict is Verdict.ASK
    judged = Judged()
    telling = RememberingPolicy(judged, DiskFacts())
    inputs: list[Any] = [None, {}, {"a": 1}, {"a": True}, {"a": 1.0}, {"a": "1"}, {"a": [1]}, {"b": 1}]
    calls = [Call("bash", ("ls",), "bash", value) for value in inputs]
    calls += [bash("ls"), bash("ls", cwd="/"), Call("bash", ("ls", "ls")), Call("edit", ("ls",))]
    for one in (*calls, *calls):
        telling.evaluate(one)
    assert judged.calls == calls


def test_what_has_no_json_is_judged_every_time() -> None:
    judged = Judged()
    policy = RememberingPolicy(judged, DiskFacts())
    for call in (bash("echo \ud800"), bash("ls", input={"a": object()}), bash("x" * KEY_BYTES)):
        judged.calls.clear()
        assert policy.evaluate(call) == policy.evaluate(call)
        assert judged.calls == [call, call]


def test_it_remembers_a_bounded_number_and_forgets_the_oldest() -> None:
    judged = Judged()
    policy = RememberingPolicy(judged, DiskFacts())
    for number in range(EVALUATIONS_COUNT + 1):
        policy.evaluate(bash(f"git show {number}"))
        policy.evaluate(bash("git show 1"))
    judged.calls.clear()
    policy.evaluate(bash("git show 1"))
    policy.evaluate(bash("git show 2"))
    policy.evaluate(bash("git show 0"))
    assert judged.calls == [bash("git show 0")]


def test_a_judging_asks_each_fact_once_and_one_with_many_is_not_remembered() -> None:
    facts = Counted()
    few, many = Looking(2), Looking(FACTS_COUNT + 1)
    for policy, times in ((few, 1), (many, 2)):
        remembering = RememberingPolicy(policy, facts)
        facts.asked.clear()
        remembering.evaluate(bash("ls"))
        assert len(facts.asked) == len(set(facts.asked)) == policy.count
        remembering.evaluate(bash("ls"))
        assert policy.judged == times


@pytest.mark.parametrize("compat", ["v1", "v2"])
def test_it_says_what_grants_may_lift(compat: str) -> None:
    assert RememberingPolicy(opencode(compat=compat), DiskFacts()).compat == compat


class Judged:
    """Allows everything and records the questions."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.source = PolicySource()

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        self.calls.append(call)
        return Evaluation(Verdict.ALLOW, reason=str(len(grants)))

    def lifts(self, *_: Any) -> bool:
        return False

    def disabled(self, tools: Any) -> frozenset[str]:
        return frozenset(tools)


class Looking(Judged):
    """Looks at `count` files for each verdict, at each twice."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count, self.judged = count, 0
        self.facts: Any = None

    def with_facts(self, facts: Any) -> Looking:
        self.facts = facts
        return self

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        self.judged += 1
        for number in (*range(self.count), *range(self.count)):
            assert self.facts.resolve(f"/{number}") == f"/{number}"
        return super().evaluate(call, grants)


class Counted:
    """Every path leads to itself."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def resolve(self, path: str) -> str:
        self.asked.append(path)
        return path

    def kind(self, path: str) -> FileKind | None:
        return None

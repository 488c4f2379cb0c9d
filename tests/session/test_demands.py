"""A demand `not_by: asker`: nobody can answer the request of their own agent, in any way."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from ledger.core.errors import DemandNotMetError
from ledger.core.events import Actor, Asked, Replied
from ledger.core.policy import Call, Demand, DemandRule
from ledger.policy import Layer, PolicySource, compile_policy, digest
from ledger.policy.demands import demands_on, read_demands
from ledger.policy.dialects import DIALECTS, child_source
from ledger.policy.errors import PolicyError
from ledger.session.commands import Ask, MakeGrant, Open
from tests.support.commands import AGENT, ANN, BOB, asks, grants_in_project, opens, releases, replies
from tests.support.rows import every
from tests.support.scenario import Project, Scenario, given

NOT_ASKER = Demand(not_by="asker")
PUSHES = DemandRule(not_by="asker", permission="bash", pattern="git push *")


def opens_with(*demands: DemandRule, project: str | None = None, rules: Any = None) -> Open:
    command = opens(rules or {"bash": "ask"}, project=project)
    assert command.policy is not None
    policy = replace(command.policy, layers=(replace(command.policy.layers[0], demands=demands),))
    return replace(command, policy=policy, policy_digest=digest(policy))


def of_ann(request_id: str, *patterns: str, **more: Any) -> Ask:
    """An ask of an agent that works for ann."""
    return replace(asks(request_id, *patterns, **more), owner="ann", token_id="tok_1")


def waiting(**more: Any) -> Scenario:
    return given(opens_with(PUSHES), of_ann("per_1", "git push", **more))


@pytest.mark.parametrize("reply", ["once", "session", "always", "reject"])
@pytest.mark.parametrize("by", [ANN, AGENT, Actor("person", "Ann", "link"), Actor("person", "claude", "acp")])
def test_the_owner_and_the_asker_answer_nothing(reply: Any, by: Actor) -> None:
    waiting().when(replies("per_1", reply, by=by)).then_refused(DemandNotMetError, "DEMAND_NOT_MET")


def test_an_answer_that_is_told_names_nobody_who_could_be_another() -> None:
    told = replies("per_1", "once", by=Actor("agent", "bridge", "told"), told="editor")
    waiting().when(told).then_refused(DemandNotMetError, "DEMAND_NOT_MET")


def test_another_person_answers() -> None:
    happened = waiting().when(replies("per_1", "once", by=BOB))
    happened.then(Replied(request_id="per_1", reply="once", outcome="allowed"))


def test_the_ask_records_the_owner_and_the_demand() -> None:
    (asked,) = given(opens_with(PUSHES)).when(of_ann("per_1", "git push")).events
    assert isinstance(asked, Asked)
    assert (asked.owner, asked.demands) == ("ann", (NOT_ASKER,))
    (other,) = given(opens_with(PUSHES)).when(of_ann("per_2", "git pull")).events
    assert isinstance(other, Asked)
    assert (other.owner, other.demands) == ("ann", ())


def test_what_no_demand_is_about_is_answered_by_anybody() -> None:
    given(opens_with(PUSHES), of_ann("per_1", "git pull")).given(replies("per_1", "once", by=ANN))


def test_a_demand_that_was_added_while_a_request_waited_counts() -> None:
    scenario = given(opens({"bash": "ask"}), of_ann("per_1", "git push"), opens_with(PUSHES))
    scenario.when(replies("per_1", "once", by=ANN)).then_refused(DemandNotMetError, "DEMAND_NOT_MET")


def test_a_demand_that_was_taken_away_still_counts_for_what_was_asked_under_it() -> None:
    scenario = given(opens_with(PUSHES), of_ann("per_1", "git push"), opens({"bash": "ask"}))
    scenario.when(replies("per_1", "once", by=ANN)).then_refused(DemandNotMetError, "DEMAND_NOT_MET")


def test_an_edit_into_what_is_demanded_of_others_is_refused() -> None:
    call: dict[str, Any] = {"tool_name": "bash", "tool_input": {"command": "git pull"}}
    scenario = given(opens_with(PUSHES), of_ann("per_1", "git pull", **call))
    edited = {"command": "git push --force"}
    scenario.when(replies("per_1", "once", by=ANN, edited=edited)).then_refused(DemandNotMetError, "DEMAND_NOT_MET")
    scenario.given(replies("per_1", "once", by=BOB, edited=edited))


def test_the_owner_s_grant_lifts_nothing_and_another_person_s_does() -> None:
    grant = MakeGrant(actor=ANN, grant_id="grn_1", permission="bash", pattern="*")
    scenario = given(opens_with(PUSHES), grant, of_ann("per_1", "git push"), of_ann("per_2", "git pull"))
    assert scenario.waiting() == ["per_1"]
    scenario.given(MakeGrant(actor=BOB, grant_id="grn_2", permission="bash", pattern="*"), of_ann("per_3", "git push"))
    assert scenario.waiting() == ["per_1"]


def test_an_always_of_the_owner_releases_nothing_that_is_not_theirs_to_answer() -> None:
    scenario = given(
        opens_with(PUSHES), of_ann("per_1", "git push"), of_ann("per_2", "git pull", always=("git *",))
    ).given(replies("per_2", "always", by=ANN))
    assert scenario.waiting() == ["per_1"]
    others = given(opens_with(PUSHES), of_ann("per_1", "git push"), of_ann("per_2", "git pull", always=("git *",)))
    assert others.given(replies("per_2", "always", by=BOB)).waiting() == []


def test_a_grant_of_the_project_releases_nothing_of_its_owner_s() -> None:
    scenario = given(
        opens_with(PUSHES, project="shop"),
        of_ann("per_1", "git push"),
        grants_in_project("grn_1", "bash", "git *"),
        releases(),
        project=Project("shop"),
    )
    assert scenario.waiting() == ["per_1"]


@every(
    "line",
    [
        "cd /tmp && env A=1 git push origin main",
        "bash -c 'git push x'",
        'g"it" push x',
        "/usr/bin/git push x",
        "$(echo git) push",
        "$X push",
    ],
)
@every("dialect", sorted(DIALECTS))
def test_no_spelling_of_a_command_slips_past_a_demand(dialect: str, line: str) -> None:
    policy = compile_policy(PolicySource(dialect, (Layer("own", demands=(PUSHES,)),)))
    name = "Bash" if dialect in ("betcode", "claude") else "bash"
    assert demands_on(policy, Call(name, ("x",), name, {"command": line})) == (NOT_ASKER,)
    assert demands_on(policy, Call(name, (), name, {"command": "git pull && ls"})) == ()


@pytest.mark.parametrize("dialect", sorted(DIALECTS))
def test_a_child_is_answered_under_its_parent_s_demands(dialect: str) -> None:
    parent = PolicySource(dialect, (Layer("own", rules=(), demands=(PUSHES,)),))
    child = child_source(parent, PolicySource(dialect), None)
    call = Call("bash", ("git push",), "bash", {"command": "git push"})
    assert demands_on(compile_policy(child), call) == (NOT_ASKER,)


@pytest.mark.parametrize(
    ("given_value", "says"),
    [
        ({}, "must be a list of demands"),
        (["x"], "a demand is an object"),
        ([{"pattern": "*"}], "the demand is empty"),
        ([{"not_by": "me"}], "cannot be read"),
        ([{"approvers": 1}], "cannot be read"),
        ([{"approvers": 10}], "cannot be read"),
        ([{"approvers": True}], "cannot be read"),
        ([{"among": ["ann"]}], "the demand is empty"),
        ([{"not_by": "asker", "among": ["ann"]}], "`among` goes with `approvers`"),
        ([{"approvers": 2, "replies": ["once"]}], "no `replies` beside it"),
        ([{"approvers": 2, "roles": ["admin"]}], "no `roles` beside it"),
        ([{"approvers": 2, "among": ["a\nb"]}], "no name of a person"),
        ([{"approvers": 2, "among": [str(n) for n in range(101)]}], "names 101 people; at most 100"),
        ([{"not_by": "asker", "patern": "*"}], "no member `patern`"),
        ([{"not_by": "asker", "pattern": 1}], "a pattern must be a string"),
    ],
)
def test_a_misshapen_demand_is_refused(given_value: Any, says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        read_demands(given_value)

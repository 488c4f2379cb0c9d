"""Any history of grants with bounds: never more calls rest on a grant than it has uses, and none after its end.

Each session asks as a ledger does: it takes the uses that the decision names, and decides again. The count is made from
the events alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ledger.core.events import Asked, Claimed, GrantBounds, Granted, Replied
from ledger.core.grants import StandingGrant
from ledger.core.policy import ReplyKind, Verdict
from ledger.core.questions import Runner
from ledger.session.commands import Ask, Command
from ledger.session.judging import UsesWantedError
from tests.support.commands import (
    asks,
    claims,
    grants,
    grants_in_project,
    opens,
    rechecks,
    releases,
    releases_claim,
    replies,
    revokes,
    revokes_in_project,
    takes_use,
)
from tests.support.scenario import Project, Scenario, ms

pytestmark = pytest.mark.slow

sessions = st.sampled_from(["ses_1", "ses_2", "ses_3"])
numbers = st.integers(1, 3)
patterns = st.sampled_from(["git *", "npm *", "git push"])
texts = st.lists(st.sampled_from(["git push", "git pull", "npm test"]), min_size=1, max_size=2, unique=True)
limits = st.none() | st.integers(1, 3)
lifetimes = st.sampled_from([None, ms("1m"), ms("1h")])
request_ids = st.integers(0, 30).map(lambda number: f"per_{number}")
claim_ids = st.sampled_from(["", "clm_1", "clm_2"])


def do_with_uses(project: Project, scenario: Scenario, command: Command) -> None:
    """Decide a command as a ledger does, with the uses that it wants."""
    for _ in range(16):
        refusal = scenario.when(command).refusal
        if not isinstance(refusal, UsesWantedError):
            return
        taker = refusal.taker
        assert taker.session == scenario.key.id
        for grant_id in refusal.grant_ids:
            command_of_use = takes_use(grant_id, taker.request_id, taker.session, taker.claim_ids[-1])
            project.decide(command_of_use, scenario.now_ms)
    raise AssertionError("the decision wants uses for ever")


class GrantUses(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.project = Project("shop")
        self.sessions = {
            name: Scenario(name, self.project).given(opens({"bash": {"npm test": "ask"}}, project="shop"))
            for name in ("ses_1", "ses_2", "ses_3")
        }
        self.asked: dict[tuple[str, str], Ask] = {}

    def do(self, session: str, command: Command) -> None:
        do_with_uses(self.project, self.sessions[session], command)

    # --- what happens

    @rule(session=sessions, number=numbers, pattern=patterns, uses=limits, expires_in_ms=lifetimes)
    def grant(self, session: str, number: int, pattern: str, uses: int | None, expires_in_ms: int | None) -> None:
        self.do(session, grants(f"grn_{session}_{number}", "bash", pattern, uses=uses, expires_in_ms=expires_in_ms))

    @rule(number=numbers, pattern=patterns, uses=limits, expires_in_ms=lifetimes)
    def grant_in_project(self, number: int, pattern: str, uses: int | None, expires_in_ms: int | None) -> None:
        grant_id = f"grn_shop_{number}"
        if grant_id not in self.project.state.grants:
            command = grants_in_project(grant_id, "bash", pattern, uses=uses, expires_in_ms=expires_in_ms)
            self.project.decide(command, self.now_ms)

    @rule(session=sessions, number=st.integers(0, 9), in_project=st.booleans())
    def revoke(self, session: str, number: int, in_project: bool) -> None:
        known = sorted(self.project.state.grants if in_project else self.sessions[session].state.grants)
        if known and in_project:
            self.project.decide(revokes_in_project(known[number % len(known)]), self.now_ms)
        elif known:
            self.do(session, revokes(known[number % len(known)]))

    @rule(session=sessions, request_id=request_ids, wanted=texts, always=patterns)
    def ask(self, session: str, request_id: str, wanted: list[str], always: str) -> None:
        command = self.asked.setdefault((session, request_id), asks(request_id, *wanted, always=(always,)))
        self.do(session, command)

    @rule(session=sessions, number=st.integers(0, 9), kind=st.sampled_from(["once", "session", "always"]), uses=limits)
    def reply(self, session: str, number: int, kind: ReplyKind, uses: int | None) -> None:
        waiting = self.sessions[session].waiting()
        if waiting:
            bounds = None if kind == "once" or uses is None else GrantBounds(ms("1h"), uses)
            self.do(session, replies(waiting[number % len(waiting)], kind, bounds=bounds))

    @rule(session=sessions, number=st.integers(0, 9))
    def release(self, session: str, number: int) -> None:
        waiting = self.sessions[session].waiting()
        self.do(session, releases(waiting[number % len(waiting)] if waiting and number else None))

    @rule(session=sessions, request_id=request_ids)
    def recheck(self, session: str, request_id: str) -> None:
        if (session, request_id) in self.asked:
            self.do(session, rechecks(self.asked[session, request_id]))

    @rule(session=sessions, request_id=request_ids, runner=st.sampled_from(["r1", "r2"]))
    def claim(self, session: str, request_id: str, runner: str) -> None:
        if (session, request_id) in self.asked:
            self.do(session, claims(self.asked[session, request_id], Runner(runner, "call_1")))

    @rule(session=sessions, request_id=request_ids)
    def release_claim(self, session: str, request_id: str) -> None:
        self.do(session, releases_claim(request_id))

    @rule(session=sessions, request_id=request_ids, number=numbers, claim_id=claim_ids)
    def take_for_nothing(self, session: str, request_id: str, number: int, claim_id: str) -> None:
        """A process takes a use and dies."""
        self.project.decide(takes_use(f"grn_shop_{number}", request_id, session, claim_id), self.now_ms)

    @rule(span=st.sampled_from(["1ms", "30s", "1h"]))
    def pass_time(self, span: str) -> None:
        for scenario in self.sessions.values():
            scenario.now_ms += ms(span)

    @property
    def now_ms(self) -> int:
        return self.sessions["ses_1"].now_ms

    # --- what must be true

    @invariant()
    def no_grant_lets_more_calls_through_than_it_has_uses(self) -> None:
        shared: Counter[str] = Counter()
        for scenario in self.sessions.values():
            counts = calls_by_grant(scenario)
            assert_within(counts, scenario.state.grants.values())
            shared += counts
        assert_within(shared, self.project.state.grants.values())

    @invariant()
    def an_allow_by_a_grant_with_a_limit_took_its_use(self) -> None:
        for scenario in self.sessions.values():
            limited = {one.grant_id for one in self.project.state.grants.values() if one.uses is not None}
            for recorded in scenario.records:
                event = recorded.event
                if isinstance(event, Granted) and event.uses is not None:
                    limited.add(event.grant_id)
                elif isinstance(event, Asked) and event.verdict is Verdict.ALLOW:
                    assert limited.intersection(event.grants) <= set(event.uses)


def calls_by_grant(scenario: Scenario) -> Counter[str]:
    """Return how many uses of each grant the calls say that they took."""
    taking = (one.event for one in scenario.records if isinstance(one.event, Asked | Replied | Claimed))
    return Counter(grant_id for event in taking for grant_id in event.uses)


def assert_within(counts: Counter[str], known: Iterable[StandingGrant]) -> None:
    for grant in known:
        count = counts[grant.grant_id]
        assert grant.uses is None or count <= len(grant.taken) <= grant.uses, f"{grant.grant_id}: {count} calls"


TestGrantUses = GrantUses.TestCase
TestGrantUses.settings = settings(max_examples=150, stateful_step_count=40)


class OnlyLimitedGrants:
    """All grants have a limit and match all calls, so the calls that no person allowed are bounded by the sum of uses.

    What the events say of uses does not matter here. Grants are few: unused uses would hide a call too many.
    """

    def __init__(self, own: int, shared: int) -> None:
        self.project = Project("shop")
        self.sessions = {name: Scenario(name, self.project).given(opens(project="shop")) for name in SESSIONS}
        self.asked: dict[tuple[str, str], Ask] = {}
        if own:
            self.sessions["ses_1"].given(grants("grn_own", "bash", "git *", uses=own))
        if shared:
            command = grants_in_project("grn_shop", "bash", "git *", uses=shared)
            self.project.decide(command, self.sessions["ses_1"].now_ms)

    def ask(self, session: str, number: int, claims_it: bool) -> Command:
        request_id = f"per_{number}"
        claim = Runner("worker", request_id) if claims_it else None
        command = asks(request_id, f"git push {number % 2}", always=("git *",), claim=claim)
        return self.asked.setdefault((session, request_id), command)

    def reply(self, session: str, number: int, kind: ReplyKind) -> Command | None:
        waiting = self.sessions[session].waiting()
        bounds = None if kind == "once" else GrantBounds(uses=1)
        return replies(waiting[number % len(waiting)], kind, bounds=bounds) if waiting else None

    def release(self, session: str, number: int) -> Command | None:
        waiting = self.sessions[session].waiting()
        return releases(waiting[number % len(waiting)] if waiting and number else None)

    def recheck(self, session: str, number: int) -> Command | None:
        ask = self.asked.get((session, f"per_{number}"))
        return None if ask is None else rechecks(ask)

    def claim(self, session: str, number: int) -> Command | None:
        ask = self.asked.get((session, f"per_{number}"))
        return None if ask is None else claims(ask, Runner("worker", f"per_{number}"))

    def assert_within(self) -> None:
        shared = sum(grant.uses or 0 for grant in self.project.state.grants.values())
        beyond_own = 0
        for scenario in self.sessions.values():
            own = sum(grant.uses or 0 for grant in scenario.state.grants.values())
            beyond_own += max(len(allowed_by_grants(scenario)) - own, 0)
        assert beyond_own <= shared


def allowed_by_grants(scenario: Scenario) -> set[str]:
    """Return the requests that were allowed at least once without a person's answer to them."""
    found: set[str] = set()
    for recorded in scenario.records:
        event = recorded.event
        if (isinstance(event, Asked) and event.verdict is Verdict.ALLOW) or (
            isinstance(event, Replied) and event.outcome == "allowed" and event.cause is not None
        ):
            found.add(event.request_id)
    return found


SESSIONS = ("ses_1", "ses_2")
deeds = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 7), st.booleans()),
    st.tuples(st.just("ask"), st.integers(0, 7), st.booleans()),
    st.tuples(st.just("reply"), st.integers(0, 9), st.sampled_from(["once", "session", "always"])),
    st.tuples(st.sampled_from(["release", "recheck", "claim"]), st.integers(0, 7)),
)


@for_all(
    own=st.integers(0, 2),
    shared=st.integers(0, 2),
    steps=st.lists(st.tuples(st.sampled_from(SESSIONS), deeds), min_size=15, max_size=50),
)
def test_no_more_calls_are_allowed_than_there_are_uses(
    own: int, shared: int, steps: list[tuple[str, tuple[Any, ...]]]
) -> None:
    world = OnlyLimitedGrants(own, shared)
    for session, (name, *drawn) in steps:
        command = getattr(world, name)(session, *drawn)
        if command is not None:
            do_with_uses(world.project, world.sessions[session], command)
    world.assert_within()

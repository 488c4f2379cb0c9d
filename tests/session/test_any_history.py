"""Any history at all: random commands on one session and its project, with a clock that jumps.

Histories are drawn whole rather than step by step: that makes them three times as long and keeps deadlines in them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from ledger.core import codec
from ledger.core.events import Settings
from ledger.core.policy import ReplyKind
from ledger.core.questions import Runner, claim_id_of
from ledger.log.tail import read_entry
from ledger.log.verify import head_of, verify_entries
from ledger.session.commands import Ask, Command, NoteNotification, NoteToolFinished
from ledger.session.deadlines import settle
from ledger.session.evolve import evolve
from ledger.session.state import SessionState, next_due_ms
from ledger.stores.port import START, Entry
from tests.support.auditor import Auditor
from tests.support.commands import (
    asks,
    cancels,
    claims,
    closes,
    connects,
    disconnects,
    ends_claims,
    finishes_tool,
    grants,
    grants_in_project,
    has_inbox_open,
    notifies,
    opens,
    passes_lock,
    rechecks,
    releases,
    releases_claim,
    replies,
    revokes,
    revokes_in_project,
    takes_lock,
)
from tests.support.scenario import LosesLease, Project, Scenario, Settle, ms

RULES = {"bash": {"ls *": "allow", "rm *": "deny"}}
ALWAYS_NEW = (NoteToolFinished, NoteNotification)
"""Facts that are noted as often as they are told."""

request_ids = st.sampled_from([f"per_{number}" for number in range(9)])
reply_kinds = st.sampled_from(["once", "session", "always", "reject"])
clients = st.sampled_from(["phone", "desk", "tablet"])
runners = st.sampled_from([Runner("claude", "call"), Runner("worker-2", "call"), Runner("worker-3", "call")])
patterns = st.lists(st.sampled_from(["ls -l", "rm x", "git push", "git pull", "npm test"]), min_size=1, max_size=2)
grant_ids = st.sampled_from(["grn_1", "grn_2"])
grant_patterns = st.sampled_from(["git *", "npm *"])
expiries = st.sampled_from([None, ms("30s"), ms("8d")])
spans = st.sampled_from(["1ms", "5s", "10s", "30s", "60s", "1h", "1d", "7d", "31d"])
durations = st.sampled_from([ms("60s"), ms("5s"), ms("7d"), ms("30d"), None])
session_settings = st.builds(
    Settings,
    attended_ms=durations,
    unattended_ms=durations,
    cap_ms=durations,
    cascade_reject=st.sampled_from(["session", "siblings", "none"]),
    answering=st.sampled_from(["anyone", "lock-holder"]),
    when_abandoned=st.sampled_from(["move", "expire"]),
    approval_lifetime_ms=st.sampled_from([None, ms("30s")]),
    claim_timeout_ms=st.sampled_from([ms("60s"), ms("1h")]),
)


class World:
    """A session and its project. `do` is every command's way: refused and nothing written, or written and done."""

    def __init__(self) -> None:
        self.project = Project("shop")
        self.scenario = Scenario(project=self.project)
        self.asked: dict[str, Ask] = {}
        self.runs: dict[str, set[str]] = {}
        """The runners that were told so, by request."""

    def do(self, command: Command) -> None:
        scenario = self.scenario
        before = len(scenario.entries)
        happened = scenario.when(command)
        if happened.refusal is not None:
            assert len(scenario.entries) - before == len(happened.settled), "what is refused writes nothing"
            assert isinstance(scenario.when(command).refusal, type(happened.refusal))
        elif not isinstance(command, ALWAYS_NEW):
            assert scenario.when(command).events == (), "what is repeated writes nothing"
        self.assert_nothing_is_due()

    def assert_nothing_is_due(self) -> None:
        state, now_ms = self.scenario.state, self.scenario.now_ms
        assert settle(state, now_ms, self.scenario.live).events == (), "settling is idempotent"
        due = next_due_ms(state)
        assert due is None or due > now_ms
        if state.closed_ms is not None:
            assert (len(state.pending), due) == (0, None), "closing ends everything"

    # --- what happens -----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        self.scenario.when(Settle())
        self.assert_nothing_is_due()

    def pass_time(self, span: str) -> None:
        self.scenario.now_ms += ms(span)

    def wait_for_a_deadline(self, just_before: bool) -> None:
        due = next_due_ms(self.scenario.state)
        if due is not None:
            self.scenario.now_ms = max(self.scenario.now_ms, due - just_before)

    def ask(self, request_id: str, wanted: list[str], always: str, message_id: str) -> None:
        command = asks(request_id, *wanted, always=(always,), message_id=message_id)
        self.do(self.asked.setdefault(request_id, command))

    def ask_something_else(self, request_id: str) -> None:
        self.do(asks(request_id, "date"))

    def reply(self, number: int, kind: ReplyKind, message: str | None, client: str | None) -> None:
        """Mostly to a pending request as it is shown, else to any request."""
        waiting = self.scenario.waiting()
        request_id = waiting[number % len(waiting)] if number and waiting else f"per_{number}"
        request = self.scenario.state.pending.get(request_id) if number > 1 else None
        round_ = None if request is None else request.round
        self.do(replies(request_id, kind, message=message, client=client, round_=round_))

    # --- what runs --------------------------------------------------------------------------------------------------

    def claim(self, request_id: str, runner: Runner) -> None:
        if request_id not in self.asked:
            return
        command = claims(self.asked[request_id], runner)
        self.do(command)
        # Idempotent, so this tells what the runner was told.
        happened = self.scenario.when(command)
        settled = self.scenario.state.settled.get(request_id)
        if happened.refusal is None and settled is not None and settled.outcome == "allowed":
            told = self.runs.setdefault(request_id, set())
            told.add(claim_id_of(runner))
            assert len(told) == 1, "one runner is told that it may run"

    def end(self, request_id: str, runner: Runner) -> None:
        self.do(finishes_tool(request_id, claim_id=claim_id_of(runner)))

    def release_claim(self, request_id: str) -> None:
        before = self.scenario.state.settled.get(request_id)
        self.do(releases_claim(request_id))
        after = self.scenario.state.settled.get(request_id)
        if before is not None and after is not None and before.claim != after.claim:
            # A person has looked: the next runner may be told.
            self.runs.pop(request_id, None)

    def grant(self, grant_id: str, pattern: str, expires_in_ms: int | None) -> None:
        self.do(grants(grant_id, "bash", pattern, expires_in_ms=expires_in_ms))

    def lose_lease(self, client: str) -> None:
        self.scenario.given(LosesLease(client))

    def open_inbox(self, client: str) -> None:
        self.scenario.given(has_inbox_open(client))

    def recheck(self, request_id: str) -> None:
        if request_id in self.asked:
            self.do(rechecks(self.asked[request_id]))

    def grant_in_project(self, grant_id: str, pattern: str, expires_in_ms: int | None) -> None:
        if grant_id not in self.project.state.grants:
            command = grants_in_project(grant_id, "bash", pattern, expires_in_ms=expires_in_ms)
            self.project.decide(command, self.scenario.now_ms)

    def revoke_in_project(self, number: int) -> None:
        known = sorted(self.project.state.grants)
        if known:
            self.project.decide(revokes_in_project(known[number % len(known)]), self.scenario.now_ms)

    def change_settings(self, chosen: Settings) -> None:
        self.do(opens(RULES, project="shop", settings=chosen))

    # --- what must be true of the whole -----------------------------------------------------------------------------

    def assert_the_log_folds_to_the_state(self) -> None:
        state, position, payload = SessionState(session_id=self.scenario.key.id), START, b""
        for entry, step in zip(self.scenario.entries, self.scenario.states[1:], strict=True):
            recorded = read_entry(self.scenario.key, entry, position, payload, state)
            state, position, payload = evolve(state, recorded), entry.position, entry.payload
            assert state == step
            assert_same_bytes(entry)
        assert state == self.scenario.state

    def assert_the_auditor_agrees(self) -> None:
        auditor, state = Auditor().read(self.scenario.records), self.scenario.state
        assert sorted(auditor.waiting()) == sorted(state.pending)
        assert {one: auditor.deadline[one] for one in state.pending} == {
            request.request_id: request.deadline_ms for request in state.pending.values()
        }
        assert set(state.pending) | set(state.settled) == set(auditor.status)
        assert not set(state.pending) & set(state.settled)

    def assert_the_chain_holds(self) -> None:
        entries = self.scenario.entries
        assert verify_entries(self.scenario.key, entries, head=head_of(entries[-1])) == []


def assert_same_bytes(entry: Entry) -> None:
    read = codec.decode(entry.payload, entry.content)
    assert isinstance(read, codec.Envelope)
    fields = codec.encode(read.event, event_id=read.id, prev=read.prev, actor=read.actor, salt="")
    assert fields == (entry.payload, entry.content)


Step = Callable[[World], None]


def command(make: Callable[..., Command], *drawn: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    return st.tuples(*drawn).map(lambda values: lambda world: world.do(make(*values)))


def deed(name: str, *drawn: st.SearchStrategy[object]) -> st.SearchStrategy[Step]:
    return st.tuples(*drawn).map(lambda values: lambda world: getattr(world, name)(*values))


class Steps:
    """One strategy for each thing that may happen; `any_step` weighs them."""

    asking = deed("ask", request_ids, patterns, grant_patterns, st.sampled_from(["m1", "m2"]))
    answering = deed("reply", st.integers(0, 5), reply_kinds, st.sampled_from([None, "no"]), st.none() | clients)
    waiting = st.one_of(
        deed("pass_time", spans),
        deed("wait_for_a_deadline", st.booleans()),
        deed("settle"),
    )
    granting = st.one_of(
        deed("grant", grant_ids, grant_patterns, expiries),
        command(revokes, grant_ids),
        deed("grant_in_project", st.sampled_from(["grn_p1", "grn_p2"]), grant_patterns, expiries),
        deed("revoke_in_project", st.integers(0, 3)),
        deed("recheck", request_ids),
        command(releases),
    )
    coming_and_going = st.one_of(
        command(connects, clients),
        command(disconnects, clients),
        deed("lose_lease", clients),
        deed("open_inbox", clients),
        command(takes_lock, clients),
        command(passes_lock, clients, clients),
    )
    running = st.one_of(
        deed("claim", request_ids, runners),
        deed("claim", request_ids, runners),
        deed("end", request_ids, runners),
        deed("release_claim", request_ids),
        command(ends_claims, st.sampled_from([None, "claude"])),
    )
    seldom = st.one_of(
        deed("ask_something_else", request_ids),
        command(cancels, request_ids),
        command(finishes_tool, request_ids),
        command(notifies, request_ids),
        deed("change_settings", session_settings),
        command(closes),
    )


any_step = st.sampled_from(
    [Steps.asking] * 5
    + [Steps.answering] * 4
    + [Steps.waiting] * 4
    + [Steps.granting] * 4
    + [Steps.running] * 4
    + [Steps.coming_and_going] * 4
    + [Steps.seldom]
).flatmap(lambda strategy: strategy)


@pytest.mark.timeout(400)  # a failure is shrunk first, for up to five minutes
@settings(max_examples=150)
@for_all(session_settings, st.sampled_from(["v1", "v2"]), st.lists(any_step, min_size=30, max_size=90))
def test_whatever_happens_a_request_ends_once_and_in_time_and_the_log_tells_it_all(
    chosen: Settings, compat: str, steps: list[Step]
) -> None:
    world = World()
    world.do(opens(RULES, project="shop", settings=chosen, compat=compat))
    for step in steps:
        step(world)
    world.settle()
    world.assert_the_log_folds_to_the_state()
    world.assert_the_auditor_agrees()
    world.assert_the_chain_holds()

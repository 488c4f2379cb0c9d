"""Given, when, then for the decider: a session in memory, on a clock that the test moves.

    given(opens(), connects("phone"), asks("per_1", "git push"), later("30s"))
        .when(replies("per_1", "once"))
        .then(Replied(request_id="per_1", reply="once", outcome="allowed"))

A history is commands, events as the log may hold them, and spans of time. Every command is preceded by settling what
is due, as `ledger.log.stream` does it, and every event passes through its bytes and the chain before it is folded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec
import pytest
from msgspec.structs import replace

from ledger.client.results import Result, result_of
from ledger.core import codec
from ledger.core.commitments import after_entry, genesis, within_append
from ledger.core.errors import LedgerError
from ledger.core.events import Actor, Event, GrantBounds, Presence, Replied, Value
from ledger.core.grants import Recorded, derived_event_id
from ledger.core.times import parse_duration
from ledger.log.plans import SYSTEM
from ledger.log.tail import read_entry
from ledger.policy import Policy, PolicySource, compile_policy
from ledger.project import GrantInProject, ProjectCommand, ProjectState, decide_project, evolve_project
from ledger.session.brief import shortened
from ledger.session.commands import AnyCommand, Command, Connect, Disconnect, Live, Open
from ledger.session.deadlines import settle
from ledger.session.decide import decide
from ledger.session.decision import Decision
from ledger.session.evolve import evolve
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry, Position, StreamKey
from tests.support.salts import SALT, unsalted

T0: Final = 1_800_000_000_000
"""The start of a scenario (server ms)."""

AS_OPENED: Final = compile_policy(PolicySource())
"""Stands for the rules that the session was opened with, in a command."""

AS_IT_STANDS: Final = ProjectState(project_id="")
"""Stands for the current state of the session's project, in a command."""


class Later(msgspec.Struct, frozen=True):
    """A span of time that passes."""

    ms: int


class LosesLease(msgspec.Struct, frozen=True):
    """A client's lease ends, and no event records that yet."""

    client_id: str


class LosesPresence(msgspec.Struct, frozen=True):
    """The leases cannot be read any more."""


class HasInboxOpen(msgspec.Struct, frozen=True):
    """A person who has the inbox open, without having opened the session."""

    client: Presence


class Settle(msgspec.Struct, frozen=True):
    """A command of an expiry worker: only the settling that precedes every command."""


Step: TypeAlias = Command | Value | Later | LosesLease | LosesPresence | HasInboxOpen | Settle | ProjectCommand


def later(duration: str) -> Later:
    ms = parse_duration(duration)
    assert ms is not None
    return Later(ms)


def ms(duration: str) -> int:
    return later(duration).ms


class Project:
    """A project's grants, shared by the scenarios that are given it."""

    def __init__(self, project_id: str = "shop") -> None:
        self.state = ProjectState(project_id=project_id)

    def decide(self, command: ProjectCommand, now_ms: int) -> tuple[Event, ...]:
        events = decide_project(self.state, command, now_ms)
        for event in events:
            fixed = command.event_id if isinstance(command, GrantInProject) else None
            self.record(event, command.actor, now_ms, fixed)
        return events

    def record(self, event: Event | codec.NewerEvent, actor: Actor, now_ms: int, event_id: str | None = None) -> None:
        version = self.state.version + 1
        recorded = Recorded(event, actor, now_ms, version, event_id or f"evt_p{version}")
        self.state = evolve_project(self.state, recorded)

    def take(self, replied: Replied, asked_permission: str, actor: Actor, session: str, now_ms: int) -> None:
        """Make the grants of a winning reply, as a ledger does once the reply is in the log."""
        assert replied.detail is not None
        bounds = replied.bounds or GrantBounds()
        for grant_id, pattern in zip(replied.grants, replied.detail.patterns, strict=True):
            command = GrantInProject(
                actor=actor,
                event_id=derived_event_id(grant_id),
                grant_id=grant_id,
                permission=asked_permission,
                pattern=pattern,
                expires_in_ms=bounds.expires_in_ms,
                uses=bounds.uses,
                wider=grant_id in replied.wider,
                session=session,
                request_id=replied.request_id,
            )
            self.decide(command, now_ms)


class Scenario:
    """A session, its log and its clock. `now_ms` is the server's time; `entries` is what a store would hold."""

    def __init__(self, session_id: str = "ses_1", project: Project | None = None) -> None:
        self.key = StreamKey("session", session_id)
        self.state = SessionState(session_id=session_id)
        self.states: list[SessionState] = [self.state]
        self.entries: list[Entry] = []
        self.records: list[Recorded] = []
        self.project = project
        self.now_ms = T0
        self._leases: dict[str, Presence] = {}
        self._sources: dict[str, PolicySource] = {}
        self._silent: set[str] = set()
        self._inbox: dict[str, Presence] = {}
        self._is_presence_known = True
        self._compiled: tuple[PolicySource, Policy] | None = None

    # --- given ------------------------------------------------------------------------------------------------------

    def given(self, *steps: Step) -> Scenario:
        """Apply a history; its commands must not be refused."""
        for step in steps:
            self._live_through(step)
        return self

    def _live_through(self, step: Step) -> None:
        match step:
            case Later():
                self.now_ms += step.ms
            case LosesLease():
                self._leases.pop(step.client_id, None)
                self._inbox.pop(step.client_id, None)
            case LosesPresence():
                self._is_presence_known = False
            case HasInboxOpen():
                self._inbox[step.client.client_id] = step.client
            case Settle():
                self._settle()
            case Command():
                self._settle()
                self._decide(step)
            case _ if isinstance(step, ProjectCommand):
                assert self.project is not None
                self.project.decide(step, self.now_ms)
            case _:
                assert isinstance(step, Event)
                self._append([step], SYSTEM)

    # --- when -------------------------------------------------------------------------------------------------------

    def when(self, command: Command | Settle, *, now: int | None = None) -> Happened:
        """Decide a command at `now` (server ms, default: the scenario's time), after settling what is due."""
        if now is not None:
            self.now_ms = now
        settled = self._settle()
        if isinstance(command, Settle):
            return Happened(self, settled, (), None)
        try:
            events = self._decide(command)
        except LedgerError as refusal:
            return Happened(self, (), settled, refusal)
        return Happened(self, events, settled, None)

    def decision(self, command: Command) -> Decision:
        """Return the decision with its window of time; nothing is written."""
        return decide(self.state, self._filled(command), self.now_ms)

    # --- what can be asserted ---------------------------------------------------------------------------------------

    def result(self, request_id: str) -> Result:
        return result_of(self.state, request_id)

    def waiting(self) -> list[str]:
        """Return the ids of the pending requests, in order of asking."""
        return [one.request_id for one in sorted(self.state.pending.values(), key=lambda one: one.version)]

    def deadline_of(self, request_id: str) -> int | None:
        """Return a request's deadline in ms after the beginning."""
        deadline_ms = self.state.pending[request_id].deadline_ms
        return None if deadline_ms is None else deadline_ms - T0

    @property
    def live(self) -> Live:
        """Return the clients that are present by their leases."""
        leases, inbox = tuple(self._leases.values()), tuple(self._inbox.values())
        return Live(leases, inbox) if self._is_presence_known else Live(is_known=False)

    @property
    def head(self) -> Position:
        return self.entries[-1].position if self.entries else START

    # --- inside -----------------------------------------------------------------------------------------------------

    def _settle(self) -> tuple[Event, ...]:
        """Settle all that is due; as in a stream, what does not fit into one append goes into the next one."""
        events: list[Event] = []
        while True:
            settlement = settle(self.state, self.now_ms, self.live)
            assert settlement.not_before_ms is None or settlement.not_before_ms <= self.now_ms
            self._append(settlement.events, SYSTEM)
            events += settlement.events
            if not settlement.more:
                return tuple(events)

    def _decide(self, command: Command) -> tuple[Event, ...]:
        if isinstance(command, Open) and command.policy is not None:
            self._sources[command.policy_digest] = command.policy
        decision = self.decision(command)
        assert decision.not_after_ms is None or self.now_ms <= decision.not_after_ms
        before = self.state
        self._append(decision.events, command.actor)
        self._tell_project(before, decision.events, command.actor)
        if isinstance(command, Connect):
            self._leases[command.client_id] = Presence(command.client_id, command.name)
        elif isinstance(command, Disconnect):
            self._leases.pop(command.client_id, None)
        return decision.events

    def _filled(self, command: Any) -> AnyCommand:
        known: dict[str, Any] = {}
        if hasattr(command, "live") and command.live is None:
            known["live"] = self.live
        if getattr(command, "policy", None) is AS_OPENED:
            known["policy"] = self.policy
        if getattr(command, "project", None) is AS_IT_STANDS:
            known["project"] = self.project.state if self.project else None
        filled: AnyCommand = replace(command, **known)
        return filled

    @property
    def policy(self) -> Policy:
        """The rules of the session. A dialect without an implementation so far is judged by the rules of `opencode`."""
        source = self.rules
        if self._compiled is None or self._compiled[0] != source:
            self._compiled = (source, compile_policy(replace(source, dialect="opencode")))
        return self._compiled[1]

    @property
    def rules(self) -> PolicySource:
        """The rules that the session names, which a ledger has in a stream of their own."""
        return self._sources.get(self.state.policy_digest, PolicySource())

    def _append(self, events: Iterable[Event], actor: Actor) -> None:
        at_ms = max(self.now_ms, self.head.ms)
        before = self.entries[-1] if self.entries else None
        prev = after(before) if before else genesis(self.key.kind, self.key.id)
        for event in events:
            version = self.head.version + 1
            written = shortened(event, self.state)
            fields = codec.encode(written, event_id=f"evt_{version}", prev=prev, actor=actor, salt=SALT)
            self.add_entry(Entry(at_ms, version, *fields))
            prev = within_append(version, fields[0])
            assert unsalted(self.records[-1].event) == unsalted(event)

    def add_entry(self, entry: Entry) -> None:
        """Fold one entry as it stands in a stream. Raises DamageError when it does not follow."""
        before_payload = self.entries[-1].payload if self.entries else b""
        recorded = read_entry(self.key, entry, self.head, before_payload, self.state)
        self.entries.append(entry)
        self.records.append(recorded)
        self.state = evolve(self.state, recorded)
        self.states.append(self.state)

    def _tell_project(self, before: SessionState, events: Iterable[Event], actor: Actor) -> None:
        for event in events:
            if isinstance(event, Replied) and event.scope == "project":
                assert self.project is not None
                request = before.pending[event.request_id]
                self.project.take(event, request.permission, actor, self.key.id, self.now_ms)


def after(entry: Entry) -> str:
    """Return `prev` of an entry of the next append."""
    return after_entry(entry.ms, entry.version, entry.payload)


class Happened:
    """The events or the refusal of a command."""

    def __init__(
        self, scenario: Scenario, events: tuple[Event, ...], settled: tuple[Event, ...], refusal: LedgerError | None
    ) -> None:
        self._scenario = scenario
        self.events = events
        self.settled = settled
        self.refusal = refusal

    def then(self, *expected: Event) -> Scenario:
        """Check that exactly these events were made, in this order."""
        if self.refusal is not None:
            raise self.refusal
        assert self.events == expected
        return self._scenario

    def then_nothing_happens(self) -> Scenario:
        return self.then()

    def then_settled_first(self, *expected: Event) -> Happened:
        """Check that exactly these events were due before the command."""
        assert self.settled == expected
        return self

    def then_refused(self, error: type[LedgerError], code: str, *, contains: str = "", **data: object) -> Scenario:
        """Check that the command was refused with exactly this error; `data` is part of the error's data."""
        if self.refusal is None:
            pytest.fail(f"nothing was refused; made were {self.events}")
        assert (type(self.refusal), self.refusal.code) == (error, code)
        assert contains in self.refusal.text
        assert {name: self.refusal.data.get(name) for name in data} == data
        return self._scenario


def given(*steps: Step, project: Project | None = None) -> Scenario:
    return Scenario(project=project).given(*steps)

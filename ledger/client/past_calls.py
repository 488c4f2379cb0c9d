"""Past calls, read from the log, and judged again by the inputs of now."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec.structs import replace

from ledger.core import codec
from ledger.core.errors import DamageError, LedgerError, StoreError
from ledger.core.events import Asked
from ledger.core.policy import Call, Offer
from ledger.log.surveys import survey
from ledger.log.tail import entry_at
from ledger.project.state import ProjectState
from ledger.session.demands import askers
from ledger.session.past_reach import (
    Ground,
    OfferedGrants,
    PastCall,
    PastRequest,
    ReachCount,
    Reached,
    can_be_judged,
    would_answer,
)
from ledger.session.state import SessionState
from ledger.session.would_run import LINE_CHARS, describe_asked
from ledger.stores.port import Position, StreamKey

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger

JUDGING_SECONDS: Final = 2.0
"""Processor time for judging past calls; those left then are not counted, and the answer says that it was cut."""

WAITING_SECONDS: Final = 10.0
"""Time for all of it, with the reads and the turns of others; the page waits for 15 s."""

READ_AT_ONCE_COUNT: Final = 64


class TriedOffer(msgspec.Struct, frozen=True):
    """A choice that would have answered the request, and its grants."""

    offer: Offer
    grants: OfferedGrants


async def asked_event(ledger: Ledger, key: StreamKey, at: Position) -> Asked | None:
    """Return the ask at a position; None where the log does not have it, or not its content."""
    try:
        entry = await entry_at(ledger.store, key, at)
        if entry is None:
            return None
        event = codec.decode(entry.payload, entry.content).event
    except DamageError:
        return None
    return event if isinstance(event, Asked) and event.detail is not None else None


class PastGrounds:
    """The inputs of judgements as of now, read once for each session and project."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._now_ms = ledger.store.clock.now_ms()
        self._projects: dict[str, ProjectState] = {}
        self.states: dict[str, Ground | None] = {}

    async def of(self, state: SessionState) -> Ground:
        """Return the ground of a session. Raises RulesUnreadableError, StoreError."""
        policies = self._ledger.policies
        policy = policies.known(state) or policies.of(state, await self._ledger.streams.rulesets.of(state))
        return Ground(state, await self._project(state.project), policy, self._now_ms)

    async def _project(self, project: str | None) -> ProjectState | None:
        if project is None:
            return None
        if project not in self._projects:
            self._projects[project] = await self._ledger.streams.project(project).refresh()
        return self._projects[project]

    async def read(self, sessions: Iterable[str]) -> None:
        """Read sessions into `states`; None for one that cannot be judged."""
        streams = self._ledger.streams
        keys = [StreamKey("session", one) for one in dict.fromkeys(sessions)]
        found = await survey(keys, lambda key: streams.session(key.id).refresh())
        for state in found.rows:
            self.states[state.session_id] = await self._ground(state)

    async def _ground(self, state: SessionState) -> Ground | None:
        if state.newer or state.rules_redacted:
            return None
        try:
            return await self.of(state)
        except StoreError:
            raise
        except LedgerError:
            return None


async def counted(
    ledger: Ledger, grounds: PastGrounds, session: str, tried: Sequence[TriedOffer], past: Sequence[PastRequest]
) -> tuple[list[Reached], int, bool]:
    """Return what each choice would have answered, the number of requests that cannot be judged, and whether it was cut."""
    counts = [ReachCount(session) for _ in tried]
    if not tried:
        return [], 0, False
    await grounds.read(one.session for one in past)
    loop = asyncio.get_running_loop()
    until, judged_seconds, unknown = loop.time() + WAITING_SECONDS, 0.0, 0
    for start in range(0, len(past), READ_AT_ONCE_COUNT):
        some = past[start : start + READ_AT_ONCE_COUNT]
        calls = await asyncio.gather(*(_past_call(ledger, grounds, one) for one in some))
        for one in calls:
            if one is None:
                unknown += 1
                continue
            if judged_seconds > JUDGING_SECONDS or loop.time() > until:
                return [count.result() for count in counts], unknown, True
            began = time.thread_time()
            _count(grounds, one, tried, counts)
            judged_seconds += time.thread_time() - began
            await asyncio.sleep(0)
    return [count.result() for count in counts], unknown, False


async def _past_call(ledger: Ledger, grounds: PastGrounds, past: PastRequest) -> PastCall | None:
    """Return a past request with its call; None where it cannot be judged."""
    ground = grounds.states.get(past.session)
    if ground is None:
        return None
    event = await asked_event(ledger, StreamKey("session", past.session), Position(past.asked_ms, past.version))
    if event is None or event.detail is None or event.request_id != past.request_id:
        return None
    found, detail = ground.state.find(past.request_id), event.detail
    cwd = detail.cwd or ground.state.cwd
    call = Call(event.permission, detail.patterns, event.tool_name, detail.input, cwd, event.agent)
    if found is None or found.redacted or not can_be_judged(call):
        return None
    asking = askers(found.asker, event.owner)
    return PastCall(_as_of_now(ground.state, past), call, asking, describe_asked(event).in_words(LINE_CHARS))


def _as_of_now(state: SessionState, past: PastRequest) -> PastRequest:
    """Return a past request with the outcome that its session tells: an index may lag."""
    settled = state.settled.get(past.request_id)
    if settled is None:
        return replace(past, outcome=None, by=None)
    by = settled.by.name if settled.reply is not None and settled.cause is None else None
    return replace(past, outcome=settled.outcome, by=by)


def _count(grounds: PastGrounds, past: PastCall, tried: Sequence[TriedOffer], counts: Sequence[ReachCount]) -> None:
    """Count a past call for each choice that would have answered it, unless rules or grants of now do so anyway."""
    ground = grounds.states[past.request.session]
    assert ground is not None, "the call was read with it"
    request_id = past.request.request_id
    wanted = [
        count
        for one, count in zip(tried, counts, strict=True)
        if would_answer(ground, past.call, request_id, past.asking, one.grants)
    ]
    if wanted and not would_answer(ground, past.call, request_id, past.asking):
        for count in wanted:
            count.add(past)

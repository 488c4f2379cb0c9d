"""The calls that the events of one append end, or let run, read from the log."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledger import Ledger
from ledger.client.mask_setting import masks_of
from ledger.core import codec
from ledger.core.events import Asked, ClaimReleased, EndUnknown, Event, ToolFinished
from ledger.core.grants import Recorded
from ledger.core.limits import PAGE_COUNT
from ledger.log.one_append import are_one_append
from ledger.log.tail import entry_at, foreign_is_damage
from ledger.masks.masking import Masks
from ledger.session.brief import fill_in
from ledger.session.state import SessionState, Settled
from ledger.stores.port import START, Entry, Position, Store, StreamKey
from projections.call_spans import CallSpan, RunOutcome, begins_late, call_span, run_span

PLACES_COUNT: Final = 4096
"""Sessions of which the last place read is kept."""

WINDOWS_MS: Final = (60_000, 3_600_000)
"""Entries before the last one in which an older append is looked for first, before all are read."""


class MaybeRun(NamedTuple):
    """A call that was allowed by the entry `version`, and may begin to run from a server time (ms) on."""

    session: str
    request_id: str
    version: int
    since_ms: int


class FoundCalls(NamedTuple):
    """The spans that an append ends, and the calls that it lets run."""

    spans: tuple[CallSpan, ...] = ()
    may_run: tuple[MaybeRun, ...] = ()


class CallReader:
    """Reads appends of sessions. Each ended call is found in one append alone: that of the event that ends it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._store = ledger.store
        self._masks: Masks | None = None
        self._places: OrderedDict[str, Position] = OrderedDict()

    async def read(self, session: str, version: int) -> FoundCalls:
        """Return the calls of the append whose last entry is `version`. Raises StoreError, DamageError."""
        state = await self._ledger.streams.session(session).refresh()
        entries = await self._append(state, version)
        spans: list[CallSpan] = []
        may_run: list[MaybeRun] = []
        for recorded in map(_recorded, entries):
            request_id = getattr(recorded.event, "request_id", None)
            settled = state.settled.get(request_id) if isinstance(request_id, str) else None
            if settled is None or settled.imported:
                continue
            run = _run_of(recorded, settled)
            if run is not None:
                spans += await self._spans_of_run(state, settled, run)
            elif isinstance(recorded.event, ClaimReleased):
                may_run.append(MaybeRun(session, settled.request.request_id, settled.version, recorded.ms))
            elif settled.version == recorded.version and settled.outcome == "allowed":
                may_run.append(MaybeRun(session, settled.request.request_id, settled.version, settled.at_ms))
            elif settled.version == recorded.version:
                spans.append(await self._span(state, settled, None))
        return FoundCalls(tuple(spans), tuple(may_run))

    async def not_run(self, call: MaybeRun) -> CallSpan | None:
        """Return the span of an allowed call whose run did not begin; None where another append ends its span."""
        state = await self._ledger.streams.session(call.session).refresh()
        settled = state.settled.get(call.request_id)
        if settled is None or settled.version != call.version or settled.finished:
            return None
        claim = settled.claim
        if claim is not None and claim.status != "released":
            return None
        return await self._span(state, settled, None)

    async def _spans_of_run(self, state: SessionState, settled: Settled, run: RunOutcome) -> list[CallSpan]:
        if not begins_late(settled, run):
            return [await self._span(state, settled, run)]
        whole = await self._span(state, settled, None)
        late = run_span(whole, settled, run)
        # Where a claim was given back, nobody may have told of the call when its time was over.
        return [whole, late] if settled.request.released_claims else [late]

    async def _span(self, state: SessionState, settled: Settled, run: RunOutcome | None) -> CallSpan:
        request = settled.request
        key = StreamKey("session", state.session_id)
        entry = await entry_at(self._store, key, Position(request.asked_ms, request.version))
        asked = None if entry is None else _recorded(entry)
        if asked is None or not isinstance(asked.event, Asked):
            raise AssertionError("the log holds the ask of a request")
        if self._masks is None:
            self._masks = await masks_of(self._store)
        return call_span(state, asked, asked.event, settled, run, masks=self._masks)

    # --- the entries of an append -------------------------------------------------------------------------------------

    async def _append(self, state: SessionState, version: int) -> Sequence[Entry]:
        """Return the entries up to `version` that were appended with it."""
        session = state.session_id
        for after in self._beginnings(state, version):
            tail = await _tail_of(self._store, StreamKey("session", session), after, version)
            if tail is None:
                continue
            self._places[session] = tail[-1].position
            self._places.move_to_end(session)
            if len(self._places) > PLACES_COUNT:
                self._places.popitem(last=False)
            return tail
        return ()

    def _beginnings(self, state: SessionState, version: int) -> list[Position]:
        known = self._places.get(state.session_id)
        if known is not None and known.version < version:
            return [known, START]
        if state.version == version:
            return [Position(state.last_ms, 0)]
        return [*(Position(max(state.last_ms - one, 0), 0) for one in WINDOWS_MS), START]


async def _tail_of(store: Store, key: StreamKey, after: Position, version: int) -> list[Entry] | None:
    """Return the entries of the append that ends with `version`; None where it is not after that place."""
    found: list[Entry] = []
    while True:
        with foreign_is_damage(key):
            page = await store.read(key, after, PAGE_COUNT)
        for entry in page:
            if entry.version > version:
                return None
            found = [*(found if found and are_one_append(found[-1], entry) else ()), entry]
            if entry.version == version:
                return found
        if len(page) < PAGE_COUNT:
            return None
        after = page[-1].position


def _recorded(entry: Entry) -> Recorded:
    """Return the event of an entry of a stream that was folded, so its chain is not checked again."""
    envelope = codec.decode(entry.payload, entry.content)
    fill_in(envelope.event, None)
    return Recorded(envelope.event, envelope.actor, entry.ms, entry.version, envelope.id)


def _run_of(recorded: Recorded, settled: Settled) -> RunOutcome | None:
    """Return the end of the call's run if this event is the first that tells it."""
    event: Event | codec.NewerEvent = recorded.event
    claim = settled.claim
    if isinstance(event, EndUnknown):
        is_its = claim is not None and claim.claim_id == event.claim_id
        return RunOutcome("unknown", recorded.ms) if is_its else None
    if not isinstance(event, ToolFinished) or settled.outcome != "allowed":
        return None
    if claim is not None:
        # After an unknown end, or a first one, the span has ended.
        is_first = claim.ended_ms == recorded.ms and claim.end_cause is None and claim.status == "finished"
        if not is_first or event.claim_id not in (None, claim.claim_id):
            return None
    return RunOutcome("ok" if event.ok else "failed", recorded.ms)

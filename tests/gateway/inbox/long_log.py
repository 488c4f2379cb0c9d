"""A session with very many events, written as an import writes: fast, and with its chain whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from ledger import Ledger
from ledger.core import codec
from ledger.core.commitments import after_entry, genesis
from ledger.core.events import Asked, Event, Replied
from ledger.core.grants import Recorded
from ledger.core.ids import new_salt
from ledger.log.tail import read_events
from ledger.stores.port import START, Entry, StreamKey

PORTION_COUNT = 500
STEP_MS = 3000
RULES = [{"permission": "bash", "pattern": "ls*", "action": "allow"}]


async def write_long_session(ledger: Ledger, session_id: str, events_count: int) -> None:
    """Opened, then over and over: a call that a rule allows, one that waits, another by rule, the answer; 3 s apart."""
    opened, allowed, waited, replied = await _samples(ledger)
    key = StreamKey("session", session_id)
    position, entries = START, []
    prev = genesis(key.kind, key.id)
    begun_ms = ledger.store.clock.now_ms() - events_count * STEP_MS
    for version, (sample, event) in enumerate(_story(opened, allowed, waited, replied, events_count), 1):
        event_id = f"evt_{session_id}_{version}"
        fields = codec.encode(event, event_id=event_id, prev=prev, actor=sample.actor, salt=new_salt())
        entry = Entry(begun_ms + version * STEP_MS, version, *fields)
        prev = after_entry(entry.ms, version, entry.payload)
        entries.append(entry)
        if len(entries) == PORTION_COUNT or version == events_count:
            assert await ledger.store.restore(key, position, entries, None)
            position, entries = entry.position, []


async def _samples(ledger: Ledger) -> list[Recorded]:
    """An event of each kind of the session, as the ledger itself writes it."""
    session = await ledger.session("ses_sample", project="shop", agent="build", rules=RULES)
    await session.submit("bash", ["ls"], request_id="r1")
    await session.submit("bash", ["git push"], request_id="r2")
    await session.reply("r2", "once", actor="ann")
    return [one async for one in read_events(ledger.store, StreamKey("session", "ses_sample"))]


def _story(
    opened: Recorded, allowed: Recorded, waited: Recorded, replied: Recorded, count: int
) -> Iterator[tuple[Recorded, Event]]:
    yield opened, _event(opened)
    for number in range(2, count + 1):
        round_number, turn = divmod(number, 4)
        if turn == 0:
            yield waited, _asked(waited, f"push{round_number}", f"git push origin branch-{round_number}")
        elif turn == 2 and round_number:
            yield replied, msgspec.structs.replace(_replied(replied), request_id=f"push{round_number}")
        else:
            yield allowed, _asked(allowed, f"ls{number}", f"ls src/{number}")


def _event(recorded: Recorded) -> Event:
    assert not isinstance(recorded.event, codec.NewerEvent)
    return recorded.event


def _replied(recorded: Recorded) -> Replied:
    assert isinstance(recorded.event, Replied)
    return recorded.event


def _asked(recorded: Recorded, request_id: str, command: str) -> Asked:
    event: Any = recorded.event
    detail = msgspec.structs.replace(event.detail, patterns=(command,))
    asked: Asked = msgspec.structs.replace(event, request_id=request_id, detail=detail)
    return asked

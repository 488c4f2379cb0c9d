"""A stream that lost content without a word is decided upon by nobody."""

from __future__ import annotations

import pytest

from ledger.core import codec
from ledger.core.commitments import after_entry, genesis
from ledger.core.errors import DamageError
from ledger.core.events import Actor, Event, ReasonDetail, Redacted, ToolFinished, ToolFinishedDetail
from ledger.core.grants import Recorded
from ledger.core.ids import new_event_id, new_salt
from ledger.log.stream import Stream
from ledger.stores.memory import MemoryServer, MemoryStore
from ledger.stores.port import Entry, Position
from ledger.testing import TestClock
from tests.support.backends import SESSION
from tests.support.tally import Add, Tally, TallyFold, add

ANN = Actor("person", "ann")


class RedactableFold(TallyFold):
    """The fold of a tally that passes over the events of this page."""

    def evolve(self, state: Tally, recorded: Recorded) -> Tally:
        if isinstance(recorded.event, ToolFinished):
            return super().evolve(state, recorded)
        return state._replace(version=recorded.version)


@pytest.fixture
def server(clock: TestClock) -> MemoryServer:
    return MemoryServer(clock)


@pytest.fixture
def store(server: MemoryServer) -> MemoryStore:
    return MemoryStore(server)


def stream_of(store: MemoryStore) -> Stream[Tally]:
    return Stream(store, SESSION, RedactableFold())


def take_out(server: MemoryServer, *versions: int) -> None:
    entries = server.streams[SESSION]
    entries[:] = [one._replace(content=None) if one.version in versions else one for one in entries]


def write(server: MemoryServer, clock: TestClock, event: Event) -> Entry:
    """Write the next entry as another process does, without a word to this one."""
    entries = server.streams.setdefault(SESSION, [])
    last = entries[-1] if entries else None
    prev = genesis(*SESSION) if last is None else after_entry(*last[:3])
    payload, content = codec.encode(event, event_id=new_event_id(), prev=prev, actor=ANN, salt=new_salt())
    version = 1 if last is None else last.version + 1
    entries.append(Entry(clock.now_ms(), version, payload, content))
    return entries[-1]


async def test_content_that_is_gone_without_a_word_is_damage_to_who_folds_anew(
    server: MemoryServer, store: MemoryStore
) -> None:
    await stream_of(store).submit(Add(("a",), text="secret"))
    take_out(server, 1)
    for command in (None, add("b")):
        with pytest.raises(DamageError, match="version 1 has lost its content, and no `redacted` event names it"):
            await stream_of(store).submit(command)


async def test_a_stream_whose_redaction_is_recorded_goes_on(
    server: MemoryServer, store: MemoryStore, clock: TestClock
) -> None:
    known = stream_of(store)
    await known.submit(Add(("a",), text="secret"))
    await known.submit(add("b"))
    take_out(server, 1)
    write(server, clock, Redacted(versions=(1,), detail=ReasonDetail("a password")))
    assert (await stream_of(store).submit(add("c"))).state.names == ("a", "b", "c")
    assert (await known.submit(add("d"))).state.names == ("a", "b", "c", "d")


async def test_a_fold_that_holds_the_last_entry_goes_on_when_that_was_redacted(
    server: MemoryServer, store: MemoryStore, clock: TestClock
) -> None:
    known = stream_of(store)
    await known.submit(Add(("a",), text="secret"))
    take_out(server, 1)
    write(server, clock, Redacted(versions=(1,)))
    assert (await known.refresh()).names == ("a",)
    assert known.position == Position(clock.now_ms(), 2)


async def test_new_content_that_is_gone_is_damage_to_who_reads_on(
    server: MemoryServer, store: MemoryStore, clock: TestClock
) -> None:
    known = stream_of(store)
    await known.submit(add("a"))
    write(server, clock, ToolFinished(call_id="b", detail=ToolFinishedDetail(output="secret")))
    take_out(server, 2)
    for _ in range(2):
        with pytest.raises(DamageError, match="version 2 has lost its content"):
            await known.submit(add("c"))

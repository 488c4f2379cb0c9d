"""The flags of freezes, which an append that allows something is checked against, the same on every store."""

from __future__ import annotations

from typing import Final

import msgspec
import pytest

from ledger.core.freezes import Freeze
from ledger.stores.port import (
    START,
    Append,
    Appended,
    AppendResult,
    Blocked,
    Conflict,
    FreezeFlag,
    Position,
    StreamKey,
    Unverified,
)
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests.support.backends import PARTITION_COUNT, SESSION, Backend, answer_to, append_of, log_of, written

EVERYTHING: Final = Freeze(by="ann", at_ms=1, reason="a leak")
SHOP: Final = Freeze(by="bob", at_ms=2, project="shop")


def flag(version: int, *freezes: Freeze) -> FreezeFlag:
    return FreezeFlag(Position(version, version), {one.reach: one.encoded() for one in freezes})


def allowing(project: str | None = None, key: StreamKey = SESSION, after: Position = START) -> Append:
    return msgspec.structs.replace(append_of(b"x", key=key, after=after), allows=True, project=project)


async def allow(store: Store, append: Append) -> AppendResult:
    """Append; where the flag must be compared with the stream of freezes first, do so, with an empty stream."""
    answer = await answer_to(store, append)
    if isinstance(answer, Unverified):
        await store.set_flags(FreezeFlag(START, {}), answer.server)
        answer = await answer_to(store, append)
    return answer


async def test_an_append_that_allows_is_written_while_nothing_is_frozen(store: Store) -> None:
    assert isinstance(await allow(store, allowing("shop")), Appended)


async def test_a_freeze_of_everything_stops_what_allows_and_nothing_else(store: Store, clock: TestClock) -> None:
    await allow(store, allowing())
    head = (await log_of(store))[-1].position
    await store.set_flags(flag(1, EVERYTHING))
    answer = await answer_to(store, allowing("shop", after=head))
    assert answer == Blocked(EVERYTHING.encoded(), Position(1, 1), clock.now_ms())
    assert len(await log_of(store)) == 1
    await written(store, b"y", after=head)


@pytest.mark.parametrize(("project", "is_stopped"), [("shop", True), ("bank", False), (None, False), ("", False)])
async def test_a_freeze_of_a_project_stops_its_appends_alone(
    store: Store, project: str | None, is_stopped: bool
) -> None:
    await store.set_flags(flag(1, SHOP))
    assert isinstance(await allow(store, allowing(project)), Blocked) is is_stopped


async def test_every_partition_has_the_flag_that_was_set(store: Store) -> None:
    assert await store.set_flags(flag(3, EVERYTHING, SHOP)) == [Position(3, 3)] * PARTITION_COUNT
    for one in await store.flags():
        assert one is not None
        assert (one.at, dict(one.freezes)) == (Position(3, 3), dict(flag(3, EVERYTHING, SHOP).freezes))


async def test_a_flag_never_goes_back_to_an_earlier_entry(store: Store) -> None:
    await store.set_flags(flag(2, SHOP))
    assert await store.set_flags(flag(1)) == [Position(2, 2)] * PARTITION_COUNT
    await allow(store, allowing())
    assert isinstance(await allow(store, allowing("shop", StreamKey("session", "other"))), Blocked)


async def test_an_unfreeze_takes_every_trace_of_the_freeze_away(store: Store) -> None:
    await allow(store, allowing())
    await store.set_flags(flag(1, EVERYTHING, SHOP))
    await store.set_flags(flag(2))
    answer = await allow(store, allowing("shop", StreamKey("session", "other")))
    assert isinstance(answer, Appended)


async def test_a_writer_that_is_late_is_told_of_the_conflict_first(store: Store) -> None:
    await allow(store, allowing())
    await store.set_flags(flag(1, EVERYTHING))
    assert isinstance(await answer_to(store, allowing()), Conflict)


async def test_all_processes_see_the_flag_that_one_has_set(backend: Backend) -> None:
    ours, theirs = await backend.open(), await backend.open()
    await allow(ours, allowing())
    await theirs.set_flags(flag(1, EVERYTHING))
    assert isinstance(await allow(ours, allowing(key=StreamKey("session", "other"))), Blocked)

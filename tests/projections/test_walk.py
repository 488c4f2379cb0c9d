"""The walk over all streams: bounded steps, and a place that outlives its process."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from ledger import Ledger
from ledger.stores.port import START, StreamKey
from projections import lag as walk_module
from projections.engine import Engine
from projections.lag import StreamWalk
from tests.projections.looking import RULES_OF_ALL, differences, project_all, streams
from tests.support.store_calls import checkpoint, project

SES_1 = StreamKey("session", "ses_1")


class Walker:
    """A process that walks; notes what it was given to bring up."""

    def __init__(self, ledger: Ledger) -> None:
        self.found: list[StreamKey] = []
        self._engine = Engine(ledger.store)
        self.walk = StreamWalk(ledger.store, self._catch_up)

    async def _catch_up(self, keys: Sequence[StreamKey]) -> None:
        self.found += keys
        for key in keys:
            await self._engine.catch_up(key)

    async def round(self, *, begin: bool = True) -> int:
        """Walk to the end of a round; return the number of its steps."""
        steps = 1
        while not (await self.walk.step(begin=begin)).ended:
            steps += 1
        return steps


async def sessions(ledger: Ledger, names: Iterable[str]) -> None:
    for name in names:
        await ledger.session(name)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk_module, "STEP_KEYS_COUNT", 5)
    monkeypatch.setattr(walk_module, "KEYS_AT_ONCE_COUNT", 5)


async def test_the_first_round_of_all_is_due_and_brings_up_every_view(ledger: Ledger) -> None:
    await sessions(ledger, ("ses_1", "ses_2"))
    walker = Walker(ledger)
    assert await walker.walk.is_due()
    await walker.round(begin=False)
    assert sorted(walker.found) == await streams(ledger.store)
    assert not await walker.walk.is_due()
    assert await differences(ledger.store) == []


@pytest.mark.usefixtures("small_steps")
async def test_a_round_goes_on_in_another_process_where_it_was(ledger: Ledger) -> None:
    await sessions(ledger, (f"ses_{number}" for number in range(60)))
    found: list[StreamKey] = []
    steps, ended = 0, False
    while not ended:
        walker = Walker(ledger)
        ended = (await walker.walk.step()).ended
        found += walker.found
        steps += 1
    assert sorted(found) == await streams(ledger.store)
    assert steps > 5


async def test_without_a_wish_no_round_begins_unless_it_is_time(ledger: Ledger) -> None:
    walker = Walker(ledger)
    await walker.round()
    await ledger.session("ses_1")
    await walker.round(begin=False)
    assert walker.found == []
    await walker.round(begin=True)
    assert sorted(walker.found) == [RULES_OF_ALL, SES_1]


@pytest.mark.usefixtures("small_steps")
async def test_a_round_that_is_wished_for_during_another_follows_it(ledger: Ledger) -> None:
    await sessions(ledger, (f"ses_{number}" for number in range(20)))
    walker = Walker(ledger)
    await walker.round()
    calm = await walker.walk.step(begin=True)
    assert (calm.ended, calm.due) == (False, False)
    await Walker(ledger).walk.want()
    assert (await walker.walk.step(begin=False)).due
    await walker.round(begin=False)
    assert await walker.walk.is_due(), "what was lost may lie behind the place where the other round was"
    await walker.round(begin=False)
    assert not await walker.walk.is_due()


async def test_a_stream_that_is_gone_while_its_views_are_not_is_found(ledger: Ledger) -> None:
    await ledger.session("ses_1")
    await project_all(ledger)
    store, partition = ledger.store, SES_1.partition(ledger.store.partition_count)
    ghost = next(
        key
        for n in range(1000)
        if (key := StreamKey("session", f"ghost_{n}")).partition(store.partition_count) == partition
    )
    assert await project(store, ghost, START, await checkpoint(store, SES_1), [])
    found: list[StreamKey] = []

    async def note(keys: Sequence[StreamKey]) -> None:
        found.extend(keys)

    while not (await StreamWalk(store, note).step()).ended:
        pass
    assert found == [ghost]

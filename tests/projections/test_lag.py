"""The lag of views as the feeds tell it, and the overview of all partitions."""

from __future__ import annotations

from ledger import Ledger
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.keys import PROJECTORS
from ledger.stores.port import START, Position, StreamKey
from ledger.stores.store import Store
from projections.engine import Engine
from projections.lag import FedLag, overview
from tests.projections.looking import RULES_OF_ALL, project_all
from tests.support.backends import PARTITION_COUNT, written

SES_1 = StreamKey("session", "ses_1")
SES_2 = StreamKey("session", "ses_2")
ALL = range(PARTITION_COUNT)


async def more(store: Store, key: StreamKey, head: Position, events: int) -> Position:
    for _ in range(events):
        head = await written(store, b"x", key=key, after=head)
    return head


async def test_the_feeds_tell_which_views_lag_and_by_how_many_events(ledger: Ledger) -> None:
    fed = FedLag(ledger.store)
    assert await fed.all() == {}
    session = await ledger.session("ses_1")
    await ledger.session("ses_2")
    assert {key: one.events for key, one in (await fed.all()).items()} == {SES_1: 1, SES_2: 1, RULES_OF_ALL: 1}
    await project_all(ledger)
    await session.submit("bash", ["ls"])
    await session.submit("bash", ["ls -l"])
    assert {key: one.events for key, one in (await fed.all()).items()} == {SES_1: 2}
    await project_all(ledger)
    assert await fed.all() == {}
    assert not fed.trimmed


async def test_another_process_finds_the_same_lag_whatever_one_has_seen(ledger: Ledger) -> None:
    await ledger.session("ses_1")
    first = FedLag(ledger.store)
    found = await first.all()
    assert await FedLag(ledger.store).all() == await first.all() == found != {}


async def test_what_the_projectors_have_dealt_with_is_not_looked_at(ledger: Ledger) -> None:
    store = ledger.store
    await ledger.session("ses_1")
    await project_all(ledger)
    items = (await store.read_feed(ALL, PROJECTORS, "one", 100)).items
    assert len(await store.unacknowledged(PROJECTORS, {}, 100)) == 1, "delivered, and not acknowledged"
    await store.acknowledge(PROJECTORS, items)
    assert await store.unacknowledged(PROJECTORS, {}, 100) == []
    await ledger.session("ses_2")
    assert list(await FedLag(store).all()) == [SES_2]


async def test_many_lines_of_one_stream_are_read_page_by_page_and_its_lag_counts_once(ledger: Ledger) -> None:
    await more(ledger.store, SES_1, START, 120)
    found = await FedLag(ledger.store).all()
    assert {key: one.events for key, one in found.items()} == {SES_1: 120}


async def test_a_feed_that_dropped_lines_that_nobody_read_is_told_of_once(ledger: Ledger) -> None:
    await more(ledger.store, SES_1, START, FEED_LENGTH_COUNT + 1)
    fed = FedLag(ledger.store)
    await fed.all()
    assert fed.trimmed == {SES_1.partition(ledger.store.partition_count)}
    assert (await overview(ledger.store)).trimmed
    fed.trimmed.clear()
    await fed.all()
    assert not fed.trimmed


async def test_the_overview_counts_all_streams_and_events_projected_or_not(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", project="shop")
    await session.submit("bash", ["git push"], always=["git *"], request_id="r1")
    own = SES_1.partition(ledger.store.partition_count)
    await Engine(ledger.store).catch_up(SES_1)
    await session.reply("r1", "always", actor="ann")
    known = await overview(ledger.store)
    assert known.streams == 3
    assert sum(one.events for one in known.partitions) == 5
    assert known.behind_events.total() == 3
    assert known.partitions[own].events == 3 + (RULES_OF_ALL.partition(ledger.store.partition_count) == own)
    assert known.viewed == 1
    await project_all(ledger)
    after = await overview(ledger.store)
    assert after.partitions == known.partitions
    assert (after.behind, after.viewed) == ({}, 3)

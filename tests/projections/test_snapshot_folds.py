"""Every process begins its fold of a long stream from a snapshot, and decides as if it had read the whole log."""

from __future__ import annotations

from typing import Any

import pytest

from ledger import Ledger
from ledger.access.passkeys import PASSKEYS_ID
from ledger.core.errors import DamageError
from ledger.core.times import format_time
from ledger.log import fresh_folds
from ledger.log.fresh_folds import fresh_state
from ledger.log.snapshots import SNAPSHOTS_VIEW, load_snapshot
from ledger.log.tail import check_info, fold_entries, nothing_folded
from ledger.session.state import SessionState
from ledger.stores.port import Entry, Position, StreamInfo, StreamKey, ViewWrite
from ledger.stores.store import Store
from ledger.testing import TestClock
from projections.engine import Engine
from tests.projections.looking import RULES, SNAPSHOT_EVERY, differences
from tests.projections.test_snapshots import forged, with_state
from tests.support.backends import PARTITION_COUNT
from tests.support.store_calls import checkpoint, project, view

SES_1 = StreamKey("session", "ses_1")
EVENTS = 3 * SNAPSHOT_EVERY + 7
SECRET = "correct-horse-battery"


@pytest.fixture
async def long_session(soon: None, ledger: Ledger) -> Ledger:
    """A session whose snapshot is seven events old."""
    session = await ledger.session("ses_1", rules=RULES, project="shop")
    await session.submit("bash", ["git push"], request_id="per_answered")
    await session.reply("per_answered", "reject", message=f"no {SECRET}", actor="ann")
    await session.submit("bash", [f"curl -u ann:{SECRET}"], request_id="per_waiting")
    await session.grant("bash", "ls *", actor="ann")
    for number in range(EVENTS - (await session.state()).version):
        await session.submit("read", [f"file {number}"], request_id=f"per_{number}")
    await Engine(ledger.store).catch_up(SES_1)
    return ledger


async def whole(store: Store) -> SessionState:
    """Return the fold of all entries, which no snapshot can touch."""
    state: SessionState = fold_entries(
        SES_1, nothing_folded(SES_1), await store.read(SES_1, Position(0, 0), 1000)
    ).state
    return state


def watched_reads(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows by the version after which the process reads."""
    reads: list[int] = []
    read = ledger.store.read

    async def noted(key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        reads.append(after.version)
        return await read(key, after, count)

    monkeypatch.setattr(ledger.store, "read", noted)
    return reads


async def test_a_new_process_reads_only_what_is_newer_than_the_snapshot(
    long_session: Ledger, url: str, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as other:
        reads = watched_reads(other, monkeypatch)
        session = await other.attach("ses_1")
        state = await session.state()
        assert min(reads) == EVENTS - 8, "the entry of the snapshot itself, and then those after it"
        assert state == await whole(other.store)
        again = await session.submit("read", ["file 3"], request_id="per_3")
        assert (again.outcome, again.version) == ("allowed", 9), "the answer of then"
        assert (await session.submit("bash", ["ls -l"])).outcome == "allowed"
        with pytest.raises(Exception, match="already"):
            await session.reply("per_answered", "once", actor="bob")
        assert (await session.reply("per_waiting", "once", actor="bob")).outcome == "allowed"
        assert (await session.state()) == await whole(other.store)
    assert await differences(long_session.store) == []


async def test_reading_a_state_after_it_begins_there(long_session: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = await whole(long_session.store)
    reads = watched_reads(long_session, monkeypatch)
    for at in (None, EVENTS):
        reads.clear()
        assert (await long_session.state_at("ses_1", at)).state == expected
        assert min(reads) == EVENTS - 8


async def test_every_past_state_is_that_of_reading_from_the_first_entry(long_session: Ledger, clock: TestClock) -> None:
    entries = await long_session.store.read(SES_1, Position(0, 0), 1000)
    folded = nothing_folded(SES_1)
    for entry in entries:
        folded = fold_entries(SES_1, folded, [entry])
        moment = await long_session.state_at("ses_1", entry.version)
        assert (moment.state, moment.version, moment.ms) == (folded.state, entry.version, entry.ms)
    clock.advance("1s")
    await (await long_session.attach("ses_1")).submit("read", ["a file"], request_id="per_last")
    moment = await long_session.state_at("ses_1", format_time(entries[-1].ms))
    assert (moment.state, moment.version) == (folded.state, EVENTS)


async def test_a_past_state_has_no_text_that_was_redacted_after_the_snapshot(long_session: Ledger) -> None:
    for plan in await long_session.redactions.plan("ses_1", [3, 4]):
        await long_session.redactions.redact(plan, reason="a password", actor="ann")
    assert await load_snapshot(long_session.store, SES_1, EVENTS) is not None, "no projector has been here yet"
    assert SECRET not in repr((await long_session.state_at("ses_1", EVENTS)).state)


async def test_the_metadata_is_checked_before_every_snapshot(
    long_session: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []

    def noted(key: StreamKey, info: Any) -> None:
        checked.append(info.length)
        check_info(key, info)
        if checked[-1] == EVENTS:
            raise DamageError("an entry was deleted")

    monkeypatch.setattr(fresh_folds, "check_info", noted)
    with pytest.raises(DamageError, match="an entry was deleted"):
        await fresh_state(long_session.store, SES_1)
    assert checked == [EVENTS]


async def test_no_redacted_text_comes_back_from_a_snapshot_that_is_still_there(
    long_session: Ledger, url: str, clock: TestClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for plan in await long_session.redactions.plan("ses_1", [3, 4]):
        await long_session.redactions.redact(plan, reason="a password", actor="ann")
    kept = await load_snapshot(long_session.store, SES_1, EVENTS)
    assert kept is not None
    assert SECRET in repr(kept.state), "no projector has been here yet"
    async with Ledger.connect(url, clock=clock, partitions=PARTITION_COUNT, entry_points=False) as other:
        reads = watched_reads(other, monkeypatch)
        state = await (await other.attach("ses_1")).state()
        assert SECRET not in repr(state)
        assert state == await whole(other.store)
        assert len(reads) > 0
    await Engine(long_session.store).catch_up(SES_1)
    assert await view(long_session.store, SNAPSHOTS_VIEW, SES_1.partition(long_session.store.partition_count)) == {}


async def test_one_that_somebody_forged_is_found_by_comparing_the_views(long_session: Ledger) -> None:
    store = long_session.store
    fields = dict(await view(store, SNAPSHOTS_VIEW, SES_1.partition(store.partition_count)))

    def widened(members: dict[str, Any]) -> None:
        grant = next(iter(members["grants"].values()))
        grant["pattern"] = "*"

    snapshot = forged(fields[SES_1.name], with_state(widened))
    at = await checkpoint(store, SES_1)
    assert await project(store, SES_1, at, at, [ViewWrite(SNAPSHOTS_VIEW, SES_1.name, snapshot)])
    (found,) = await differences(store)
    assert (found.view, found.key) == (SNAPSHOTS_VIEW, SES_1.name)
    assert "is not the fold of its entries" in (found.text or "")


async def test_content_that_was_lost_without_a_word_is_not_hidden_by_a_snapshot(soon: None, clock: TestClock) -> None:
    async with Ledger.connect("memory://lost-content", clock=clock, partitions=1, entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=RULES)
        for number in range(EVENTS):
            await session.submit("read", [f"file {number}"])
        entries = ledger.store._server.streams[SES_1]  # type: ignore[attr-defined]
        entries[4] = entries[4]._replace(content=None)
        await Engine(ledger.store).catch_up(SES_1)
        assert await view(ledger.store, SNAPSHOTS_VIEW, 0) == {}
        async with Ledger.connect("memory://lost-content", clock=clock, partitions=1, entry_points=False) as other:
            with pytest.raises(DamageError, match="version 5 has lost its content"):
                await (await other.attach("ses_1")).submit("read", ["x"])


async def test_where_people_have_passkeys_every_fold_begins_with_the_log(
    long_session: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = watched_reads(long_session, monkeypatch)
    info = long_session.store.info

    async def with_passkeys(key: StreamKey) -> StreamInfo | None:
        return await info(SES_1 if key == StreamKey("access", PASSKEYS_ID) else key)

    monkeypatch.setattr(long_session.store, "info", with_passkeys)
    assert (await fresh_state(long_session.store, SES_1)).version == EVENTS
    assert reads == [], "the first page has all of it, and the snapshot's entry is not looked for"

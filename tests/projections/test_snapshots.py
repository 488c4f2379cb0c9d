"""Snapshots save time and mean nothing: without them, with broken ones and with foreign ones the views are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final
from uuid import uuid4

import msgspec
import pytest

from ledger import Ledger
from ledger.core.packed_map import WHOLE_MAX_COUNT
from ledger.log.tail import Folded, fold_entries, nothing_folded, read_folds
from ledger.project.state import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import Entry, Position, Store, StreamKey, ViewWrite
from ledger.testing import TestClock
from projections import engine as engine_module
from projections import snapshots
from projections.engine import Engine, checkpoint_of
from projections.snapshots import load_snapshot, snapshot_of
from projections.views import HEADS, SNAPSHOTS
from tests.projections.looking import RULES, data_of, differences, rebuild_all
from tests.support.backends import PARTITION_COUNT

SES_1 = StreamKey("session", "ses_1")
EVERY = 20


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (snapshots, engine_module):
        monkeypatch.setattr(module, "SNAPSHOT_EVERY_EVENTS", EVERY)
    monkeypatch.setattr(engine_module, "STEP_EVENTS", 10)


@pytest.fixture
async def long_session(soon: None, ledger: Ledger) -> Ledger:
    """A session of 47 events with all that a fold can hold, projected once."""
    await fill(ledger)
    assert (await Engine(ledger.store).catch_up(SES_1)).events == 47
    return ledger


async def fill(ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES, project="shop", agent="build", cwd="/w", home="/h")
    await session.grant("bash", "ls *", expires_in_ms=5000, actor="ann")
    connection = await session.connect("phone", actor="ann")
    await session.take_lock("phone", actor="ann")
    await session.submit("bash", ["git push"], metadata={"n": 1.5}, tool_name="Bash", tool_input={"a": [1]})
    await connection.session.connect("laptop", actor="bob")
    await session.take_lock("laptop", actor="bob")
    state = await session.state()
    for number in range(47 - state.version):
        await session.submit("read", [f"file {number}"])


async def fold_of(store: Store) -> Folded[SessionState]:
    return fold_entries(SES_1, nothing_folded(SES_1), (await store.open(SES_1)).entries)


async def plant(store: Store, value: bytes | None) -> None:
    version = (await checkpoint_of(store, SES_1)).version
    assert await store.project(SES_1, version, version, [ViewWrite(SNAPSHOTS, SES_1.name, value)])


async def held(store: Store) -> bytes:
    value = await store.view_field(SNAPSHOTS, store.partition_of(SES_1), SES_1.name)
    assert value is not None
    return value


async def test_a_snapshot_is_the_fold_as_of_its_entry(long_session: Ledger) -> None:
    store = long_session.store
    folded = await fold_of(store)
    write = snapshot_of(SES_1, folded)
    assert write is not None
    await plant(store, write.value if isinstance(write.value, bytes) else None)
    assert await load_snapshot(store, SES_1, 47) == folded


async def test_long_streams_get_one_and_a_new_projector_begins_there(long_session: Ledger) -> None:
    store = long_session.store
    loaded = await load_snapshot(store, SES_1, 47)
    assert loaded is not None
    assert loaded.version == 40
    assert await load_snapshot(store, SES_1, 39) is None
    reads: list[Position] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
            reads.append(after)
            return await store.read(key, after, count)

    await (await long_session.attach("ses_1")).submit("read", ["one more"])
    assert (await Engine(Watched()).catch_up(SES_1)).events == 1  # type: ignore[arg-type]
    assert min(position.version for position in reads) == 39


async def test_one_of_a_long_session_has_its_packed_requests_as_they_are(soon: None, ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    for number in range(2 * WHOLE_MAX_COUNT):
        await session.submit("read", [f"file {number}"])
    await Engine(ledger.store).catch_up(SES_1)
    version = (await session.state()).version
    loaded = await load_snapshot(ledger.store, SES_1, version)
    assert loaded is not None
    whole = [folded async for _, folded in read_folds(ledger.store, SES_1, nothing_folded(SES_1), loaded.version)][-1]
    assert loaded == whole
    assert isinstance(loaded.state, SessionState)
    assert isinstance(whole.state, SessionState)
    parts, again = loaded.state.settled.parts(), whole.state.settled.parts()
    assert len(parts.blocks) >= 1
    assert sorted(parts.whole) == sorted(again.whole)
    assert sorted(block for block, _ in parts.blocks) == sorted(block for block, _ in again.blocks)


def with_member(**changed: object) -> Callable[[bytes], bytes]:
    return lambda whole: msgspec.msgpack.encode({**msgspec.msgpack.decode(whole), **changed})


BROKEN: Final[dict[str, Callable[[bytes], bytes]]] = {
    "cut": lambda whole: whole[:100],
    "empty": lambda _: b"",
    "of other code": with_member(code="0" * 64),
    "of another entry": with_member(entry="0" * 64),
    "of an entry that is not there": with_member(at="1-40"),
    "edited": lambda whole: whole.replace(b"shop", b"mine"),
    "without a state": with_member(state=b""),
    "of no position": with_member(at="x"),
}


@pytest.mark.parametrize("how", BROKEN)
async def test_one_that_is_broken_is_as_good_as_none(long_session: Ledger, how: str) -> None:
    store = long_session.store
    broken = BROKEN[how](await held(store))
    assert broken != await held(store)
    await plant(store, broken)
    assert await load_snapshot(store, SES_1, 47) is None
    await (await long_session.attach("ses_1")).submit("read", ["one more"])
    await Engine(store).catch_up(SES_1)
    assert await differences(store) == []


async def test_one_of_another_history_is_as_good_as_none(long_session: Ledger, clock: TestClock) -> None:
    async with Ledger.connect(
        f"memory://{uuid4().hex}", clock=clock, partitions=PARTITION_COUNT, entry_points=False
    ) as other:
        await fill(other)
        await Engine(other.store).catch_up(SES_1)
        await plant(long_session.store, await held(other.store))
    assert await load_snapshot(long_session.store, SES_1, 47) is None


async def test_removing_them_changes_nothing(long_session: Ledger) -> None:
    store = long_session.store
    before = await data_of(store)
    await plant(store, None)
    await (await long_session.attach("ses_1")).submit("read", ["one more"])
    await Engine(store).catch_up(SES_1)
    after = await data_of(store)
    await rebuild_all(store)
    assert await data_of(store) == after
    assert after != before
    assert await differences(store) == []


async def test_a_short_stream_gets_none(soon: None, ledger: Ledger) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["x"])
    await Engine(ledger.store).catch_up(SES_1)
    assert await ledger.store.view_field(SNAPSHOTS, ledger.store.partition_of(SES_1), SES_1.name) is None
    assert await ledger.store.view_field(HEADS, ledger.store.partition_of(SES_1), SES_1.name) is not None


def test_every_member_of_a_fold_is_known_to_be_kept_whole() -> None:
    """A new member whose type is no plain value belongs into the tables of `projections.snapshots`."""
    plain = {
        "session_id",
        "project_id",
        "judged_version",
        "version",
        "last_ms",
        "opened_ms",
        "closed_ms",
        "imported_ms",
        "newer",
        "project",
        "agent",
        "parent",
        "token_id",
        "cwd",
        "home",
        "policy_digest",
        "policy_source",
        "rules_version",
        "redacted_version",
        "rules_redacted",
        "claims_count",
        "first_claim",
        "first_claim_ms",
        "lock",
    }
    members = {*SessionState.__struct_fields__, *ProjectState.__struct_fields__}
    assert members == plain | {*snapshots._MAPS} | {*snapshots._VALUES}


def test_without_the_text_of_the_code_none_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_code_digest", lambda: None)
    assert snapshot_of(SES_1, nothing_folded(SES_1)) is None

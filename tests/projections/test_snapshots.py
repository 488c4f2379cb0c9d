"""Snapshots save time and mean nothing: without them, with broken ones and with foreign ones the views are the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Any, Final
from uuid import uuid4

import msgspec
import pytest

from ledger import Ledger
from ledger.log import snapshots
from ledger.log.fresh_folds import fresh_state
from ledger.log.snapshots import DIGEST_BYTES, SNAPSHOTS_VIEW, load_snapshot, removal_writes, snapshot_writes
from ledger.log.tail import Folded, fold_entries, nothing_folded, read_folds
from ledger.project import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import START, Entry, Position, StreamKey, ViewWrite
from ledger.stores.store import Store
from ledger.testing import TestClock
from projections.engine import Engine
from tests.projections.looking import RULES, SNAPSHOT_EVERY, data_of, differences, project_all, rebuild_all
from tests.support.backends import PARTITION_COUNT
from tests.support.store_calls import checkpoint, project, view

SES_1 = StreamKey("session", "ses_1")


@pytest.fixture
async def long_session(soon: None, ledger: Ledger) -> Ledger:
    """A session of 47 events with all that a fold can hold, projected once."""
    await fill(ledger)
    assert (await Engine(ledger.store).catch_up(SES_1)).events == 47
    return ledger


async def fill(ledger: Ledger) -> None:
    session = await ledger.session(
        "ses_1", rules=RULES, project="shop", agent="build", cwd="/w", home="/h", answering="lock-holder"
    )
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


async def write(store: Store, writes: Sequence[ViewWrite]) -> None:
    at = await checkpoint(store, SES_1)
    assert await project(store, SES_1, at, at, writes)


async def plant(store: Store, field: str, value: bytes | None) -> None:
    await write(store, [ViewWrite(SNAPSHOTS_VIEW, field, value)])


async def held(store: Store) -> dict[str, bytes]:
    """Return the fields of all snapshots of the session's partition."""
    return dict(await view(store, SNAPSHOTS_VIEW, SES_1.partition(store.partition_count)))


async def stored(store: Store, folded: Folded[SessionState]) -> None:
    """Store a fold as a projector would."""
    await write(store, await snapshot_writes(store, SES_1, folded))


async def test_a_snapshot_is_the_fold_as_of_its_entry(long_session: Ledger) -> None:
    store = long_session.store
    folded = await fold_of(store)
    await stored(store, folded)
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
    for number in range(3 * SNAPSHOT_EVERY):
        await session.submit("read", [f"file {number}"])
    await Engine(ledger.store).catch_up(SES_1)
    version = (await session.state()).version
    loaded = await load_snapshot(ledger.store, SES_1, version)
    assert loaded is not None
    whole = [folded async for _, folded in read_folds(ledger.store, SES_1, nothing_folded(SES_1), loaded.version)][-1]
    assert loaded == whole
    assert loaded.state.settled.packed() == whole.state.settled.packed()


async def test_a_state_with_a_number_that_only_json_has_is_not_stored(soon: None, ledger: Ledger) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("bash", ["git push"], metadata={"n": 2**70})
    for number in range(2 * SNAPSHOT_EVERY):
        await session.submit("read", [f"file {number}"])
    await Engine(ledger.store).catch_up(SES_1)
    assert await held(ledger.store) == {}
    assert await differences(ledger.store) == []


Change = Callable[[dict[str, Any]], None]


def forged(whole: bytes, change: Change) -> bytes:
    """Return a snapshot with a change, whose digest is right."""
    members = msgspec.msgpack.decode(whole[DIGEST_BYTES:])
    change(members)
    rest = msgspec.msgpack.encode(members)
    return sha256(rest).digest() + rest


def with_member(**changed: object) -> Change:
    return lambda members: members.update(changed)


def with_state(change: Change) -> Change:
    """Return the change of a snapshot that makes a change of its state."""

    def changed(members: dict[str, Any]) -> None:
        state = msgspec.msgpack.decode(members["state"])
        change(state)
        members["state"] = msgspec.msgpack.encode(state)

    return changed


BROKEN: Final[dict[str, Callable[[bytes], bytes | None]]] = {
    "cut": lambda whole: whole[:100],
    "empty": lambda _: b"",
    "missing": lambda _: None,
    "without its digest": lambda whole: whole[DIGEST_BYTES:],
    "edited": lambda whole: whole.replace(b"shop", b"mine"),
}

FORGED: Final[dict[str, Change]] = {
    "of other code": with_member(code="0" * 64),
    "of another entry": with_member(entry=bytes(32)),
    "of an entry that is not there": with_member(at="1-40"),
    "of no position": with_member(at="x"),
    "of no state": with_member(state=b""),
    "of another version": with_state(lambda members: members.update(version=39)),
    "of another time": with_state(lambda members: members.update(last_ms=1)),
    "of a newer schema": with_state(lambda members: members.update(newer=True)),
    "of another type": with_state(lambda members: members.update(clients=[])),
    "without a member": with_state(lambda members: members.pop("lock")),
    "with another type of settled requests": with_state(lambda members: members.update(settled={"per_1": 7})),
}


async def test_one_that_is_broken_is_as_good_as_none(long_session: Ledger) -> None:
    store = long_session.store
    whole = (await held(store))[SES_1.name]
    for how, change in BROKEN.items():
        broken = change(whole)
        assert broken != whole, how
        await plant(store, SES_1.name, broken)
        await is_as_good_as_none(long_session, how)
    await plant(store, SES_1.name, whole)
    assert await load_snapshot(store, SES_1, 47) is not None
    await plant(store, SES_1.name, whole[:-1])
    await a_projector_goes_on(long_session)


async def test_one_of_another_content_is_as_good_as_none(long_session: Ledger) -> None:
    store = long_session.store
    whole = (await held(store))[SES_1.name]
    for how, change in FORGED.items():
        await plant(store, SES_1.name, forged(whole, change))
        await is_as_good_as_none(long_session, how)
    await a_projector_goes_on(long_session)


async def is_as_good_as_none(long_session: Ledger, how: str) -> None:
    store = long_session.store
    assert await load_snapshot(store, SES_1, 47) is None, how
    assert (await fresh_state(store, SES_1)).state == (await fold_of(store)).state


async def a_projector_goes_on(long_session: Ledger) -> None:
    store = long_session.store
    await (await long_session.attach("ses_1")).submit("read", ["one more"])
    await Engine(store).catch_up(SES_1)
    assert await differences(store) == []


async def test_one_of_another_history_is_as_good_as_none(long_session: Ledger, clock: TestClock) -> None:
    async with Ledger.connect(
        f"memory://{uuid4().hex}", clock=clock, partitions=PARTITION_COUNT, entry_points=False
    ) as other:
        await fill(other)
        await Engine(other.store).catch_up(SES_1)
        for field, value in (await held(other.store)).items():
            await plant(long_session.store, field, value)
    assert await load_snapshot(long_session.store, SES_1, 47) is None


async def test_removing_them_changes_nothing(long_session: Ledger) -> None:
    store = long_session.store
    before = await data_of(store)
    await write(store, removal_writes(SES_1))
    assert await held(store) == {}
    await (await long_session.attach("ses_1")).submit("read", ["one more"])
    await project_all(long_session)
    after = await data_of(store)
    await rebuild_all(store)
    assert await data_of(store) == after
    assert after != before
    assert await differences(store) == []


async def test_a_short_stream_gets_none(soon: None, ledger: Ledger) -> None:
    await (await ledger.session("ses_1")).submit("bash", ["x"])
    await Engine(ledger.store).catch_up(SES_1)
    assert await held(ledger.store) == {}
    assert await checkpoint(ledger.store, SES_1) != START


def test_every_member_of_a_fold_is_known_to_be_kept_whole() -> None:
    """A new member whose type is no plain value belongs into the tables of `ledger.log.snapshots`."""
    plain = {
        "session_id",
        "project_id",
        "judged_version",
        "version",
        "last_ms",
        "opened_ms",
        "closed_ms",
        "imported_ms",
        "answered_ms",
        "newer",
        "project",
        "agent",
        "parent",
        "token_id",
        "cwd",
        "home",
        "dialect",
        "edition",
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


async def test_without_the_text_of_the_code_none_is_kept(long_session: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "_code_digest", lambda: None)
    assert await snapshot_writes(long_session.store, SES_1, await fold_of(long_session.store)) == []
    assert await load_snapshot(long_session.store, SES_1, 47) is None

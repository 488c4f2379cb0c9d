"""A sealed stream leaves a stub that says where it is, takes no event, and comes back byte for byte, on every store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from ledger.core.errors import DamageError, InDoubtError, InputError, SealedError
from ledger.log.tail import raw_page
from ledger.stores.port import START, Append, Conflict, Due, Entry, Position, StreamKey
from ledger.stores.sealed import SEALING_MS, Seal
from ledger.stores.store import Store, streams_of
from ledger.stores.store import append_to as appended
from tests.support.backends import PARTITION_COUNT, PROJECT, SESSION, Backend, append_of, at, log_of, written
from tests.support.sealing import FILE, named_seal_of, seal_of, sealed, three
from tests.support.store_calls import checkpoint, positions, project, rewritten, seals
from tests.support.tally import RecordingListener
from tests.support.waiting import wait_until_async

ALL = range(PARTITION_COUNT)
OTHER = StreamKey("session", "ses_2")


async def refusal_of(attempt: Awaitable[object]) -> SealedError:
    with pytest.raises(SealedError) as caught:
        await attempt
    return caught.value


# --- seal -------------------------------------------------------------------------------------------------------------


async def test_a_sealed_stream_is_no_stream_but_its_seal_is_known(store: Store) -> None:
    seal, _ = await sealed(store)
    await three(store, OTHER)
    assert [key async for key in streams_of(store)] == [OTHER]
    assert [key async for key in streams_of(store, sealed=True)] == [SESSION]
    assert (await store.streams_page("", 10_000))[0] in ([], [OTHER])
    assert await seals(store, [OTHER, SESSION, PROJECT]) == [None, seal, None]
    assert await seals(store, []) == []


async def test_a_stream_that_has_gone_on_is_not_sealed(store: Store) -> None:
    log = await three(store)
    await written(store, b"four", after=log[-1].position)
    assert not await store.seal(SESSION, seal_of(log))
    assert len(await log_of(store)) == 4
    assert await seals(store, [SESSION]) == [None]


async def test_a_stream_that_is_not_there_is_not_sealed(store: Store) -> None:
    assert not await store.seal(SESSION, Seal(Position(7, 1), "0" * 64, FILE, 8))
    assert [key async for key in streams_of(store, sealed=True)] == []


async def test_a_repeated_seal_is_true_and_another_one_is_not(store: Store) -> None:
    seal, log = await sealed(store)
    assert await store.seal(SESSION, seal)
    assert not await store.seal(SESSION, seal_of(log, "another.jsonl.zst"))
    assert await seals(store, [SESSION]) == [seal]


@pytest.mark.parametrize("key", [PROJECT, StreamKey("access", "tokens")], ids=["project", "access"])
async def test_only_sessions_are_sealed(store: Store, key: StreamKey) -> None:
    log = await three(store, key)
    with pytest.raises(InputError, match="only sessions are"):
        await store.seal(key, seal_of(log))
    assert len(await log_of(store, key)) == 3


async def test_a_seal_removes_the_due_hint_of_its_session_alone(store: Store) -> None:
    log = await three(store, due=Due(500))
    await three(store, OTHER, Due(600))
    assert await store.seal(SESSION, seal_of(log))
    assert await store.due(None, 10) == [(OTHER.id, 600)]


async def test_a_seal_is_told_by_the_feed(store: Store) -> None:
    log = await three(store)
    lines = (await store.read_feed(ALL, "views", "one", 10)).items
    assert await store.seal(SESSION, seal_of(log))
    assert [(line.key, line.version, line.is_move) for line in lines] == [(SESSION, 3, False)]
    told = (await store.read_feed(ALL, "views", "one", 10)).items
    assert [(line.key, line.version, line.is_move) for line in told] == [(SESSION, 3, True)]


async def test_views_and_checkpoint_of_a_sealed_stream_stay(store: Store) -> None:
    log = await three(store)
    await project(store, SESSION, START, at(3), [])
    assert await store.seal(SESSION, seal_of(log))
    assert await checkpoint(store, SESSION) == at(3)
    assert await project(store, SESSION, at(3), at(3), [])


# --- what a stub refuses ----------------------------------------------------------------------------------------------

Attempt = Callable[[Store, Position], Awaitable[object]]

ENTRY = Entry(10**12, 4, b"four")

ATTEMPTS: dict[str, Attempt] = {
    "create": lambda store, _: appended(store, append_of(b"again")),
    "append": lambda store, head: appended(store, append_of(b"four", after=head)),
    "append that allows": lambda store, head: appended(
        store, Append(key=SESSION, after=head, payloads=((b"four", None),), allows=True)
    ),
    "binding append": lambda store, head: appended(
        store, Append(key=SESSION, after=head, payloads=((b"four", None),), binding=True)
    ),
    "append with another stream": lambda store, head: appended(store, append_of(b"four", after=head), (OTHER, START)),
    "open": lambda store, _: store.open(SESSION),
    "read": lambda store, _: store.read(SESSION, START, 10),
    "read the tail": lambda store, head: store.read(SESSION, head, 10),
    "info": lambda store, _: store.info(SESSION),
    "confirm": lambda store, head: store.confirm(SESSION, head),
    "raw": lambda store, _: raw_page(store, SESSION, START, 10),
    "restore from the start": lambda store, _: store.restore(SESSION, START, [Entry(5, 1, b"other")], None),
    "restore the rest": lambda store, head: store.restore(SESSION, head, [ENTRY], None),
    "rewrite": lambda store, head: rewritten(store, [2], append_of((b"r", b""), after=head)),
}


@pytest.mark.parametrize("attempt", ATTEMPTS.values(), ids=ATTEMPTS)
async def test_what_needs_the_entries_of_a_sealed_stream_is_told_where_they_are(store: Store, attempt: Attempt) -> None:
    seal, _ = await sealed(store)
    await written(store, b"d", key=OTHER)
    error = await refusal_of(attempt(store, seal.head))
    assert (error.code, error.key, error.seal, error.session) == ("SEALED", SESSION, seal, SESSION.id)
    assert f"is sealed: its 3 events are in the archive's file `{FILE}`" in error.text
    assert await seals(store, [SESSION]) == [seal]
    assert await store.due(None, 10) == []


async def test_a_stream_read_beside_an_append_that_is_sealed_leaves_the_append_in_doubt(store: Store) -> None:
    await sealed(store, OTHER)
    with pytest.raises(InDoubtError):
        await appended(store, append_of(b"one"), (OTHER, START))
    assert [one.payload for one in await log_of(store)] == [b"one"]


async def test_the_head_of_a_sealed_stream_is_that_of_its_seal(store: Store) -> None:
    seal, _ = await sealed(store)
    other = (await three(store, OTHER))[-1].position
    assert await positions(store, [PROJECT, SESSION, OTHER]) == [START, seal.head, other]


async def test_a_sealed_stream_is_no_short_stream(store: Store) -> None:
    await sealed(store)
    await three(store, OTHER)
    first, second = await store.short_streams([SESSION, OTHER], 10)
    assert first is None
    assert second is not None


# --- another file -----------------------------------------------------------------------------------------------------


async def test_a_stub_is_moved_to_another_file_and_a_repeated_move_is_true(store: Store) -> None:
    seal, log = await sealed(store)
    to = seal_of(log, "another.jsonl.zst")
    for _ in range(2):
        assert await store.seal(SESSION, to, seal)
    assert await seals(store, [SESSION]) == [to]
    assert not await store.seal(SESSION, seal_of(log, "third.jsonl.zst"), seal)
    assert await store.restore(SESSION, to, log, None)
    assert await log_of(store) == log


async def test_a_file_that_the_archive_named_is_sealed_moved_from_and_brought_back_from(store: Store) -> None:
    log = await three(store)
    seal, to = named_seal_of(log), seal_of(log, "another.jsonl.zst")
    assert await store.seal(SESSION, seal)
    assert await store.seal(SESSION, seal), "a lost answer"
    assert await store.seal(SESSION, to, seal)
    assert await store.seal(SESSION, seal, to)
    assert await seals(store, [SESSION]) == [seal]
    assert await store.restore(SESSION, seal, log, None)
    assert await log_of(store) == log


async def test_what_is_not_the_given_stub_is_not_moved(store: Store) -> None:
    seal, log = await sealed(store)
    await three(store, OTHER)
    to = seal_of(log, "another.jsonl.zst")
    assert not await store.seal(SESSION, to, seal_of(log, "wrong.jsonl.zst"))
    assert not await store.seal(OTHER, to, seal)
    assert not await store.seal(StreamKey("session", "ses_3"), to, seal)
    assert await seals(store, [SESSION, OTHER]) == [seal, None]
    assert len(await log_of(store, OTHER)) == 3


async def test_a_later_head_is_told_by_feed_and_wake_up_and_the_same_head_is_not(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    seal, log = await sealed(store)
    await store.read_feed(ALL, "views", "one", 10)
    listener = RecordingListener()
    await other.subscribe(SESSION.partition(other.partition_count), listener)
    same = seal_of(log, "another.jsonl.zst")
    assert await store.seal(SESSION, same, seal)
    longer = seal_of((*log, Entry(log[-1].ms + 1, 4, b"four")), "third.jsonl.zst")
    assert await store.seal(SESSION, longer, same)
    await wait_until_async(lambda: listener.wake_ups, "a wake-up")
    assert listener.wake_ups == [(longer.head, ())]
    assert [line[1:] for line in (await store.read_feed(ALL, "views", "one", 10)).items] == [(SESSION, 4, False)]


async def test_a_closed_file_takes_no_stub_and_those_that_name_it_stay(store: Store) -> None:
    seal, _ = await sealed(store)
    other = await three(store, OTHER)
    await store.close_file([SESSION, OTHER], FILE)
    assert not await store.seal(OTHER, seal_of(other))
    assert await seals(store, [SESSION, OTHER]) == [seal, None]
    assert await store.seal(OTHER, seal_of(other, "another.jsonl.zst"))
    assert not await store.seal(OTHER, seal_of(other), seal_of(other, "another.jsonl.zst"))
    assert await store.seal(SESSION, seal), "a lost answer to the stub that is there"


async def test_a_stub_is_taken_for_a_while_after_its_file_was_written_and_not_later(store: Store) -> None:
    log, now_ms = await three(store), await store.now_ms()
    late = Seal(log[-1].position, seal_of(log).hash, FILE, now_ms - SEALING_MS - 1)
    assert not await store.seal(SESSION, late)
    assert len(await log_of(store)) == 3
    early = Seal(late.head, late.hash, FILE, now_ms - SEALING_MS + 60_000)
    assert await store.seal(SESSION, early)
    assert not await store.seal(SESSION, Seal(late.head, late.hash, "another.jsonl.zst", late.sealed_ms), early)
    assert await seals(store, [SESSION]) == [early]


# --- bring back -------------------------------------------------------------------------------------------------------


async def test_a_stream_comes_back_byte_for_byte_and_goes_on(store: Store) -> None:
    seal, log = await sealed(store)
    assert await store.restore(SESSION, seal, log, None)
    assert await log_of(store) == log
    assert [key async for key in streams_of(store)] == [SESSION]
    assert [key async for key in streams_of(store, sealed=True)] == []
    assert await seals(store, [SESSION]) == [None]
    info = await store.info(SESSION)
    assert info is not None
    assert (info.length, info.entries_added, info.last, info.max_deleted) == (3, 3, seal.head, START)
    assert (await written(store, b"four", after=seal.head)).version == 4


async def test_a_stream_that_came_back_has_its_due_hint_if_one_is_given(store: Store) -> None:
    for key, due in ((SESSION, Due(700)), (OTHER, Due(None)), (StreamKey("session", "ses_3"), None)):
        seal, log = await sealed(store, key)
        assert await store.restore(key, seal, log, due)
    assert await store.due(None, 10) == [(SESSION.id, 700), (OTHER.id, None)]


async def test_a_repeated_unseal_is_true_also_after_the_stream_went_on(store: Store) -> None:
    seal, log = await sealed(store)
    for _ in range(2):
        assert await store.restore(SESSION, seal, log, None)
    await written(store, b"four", after=seal.head)
    assert await store.restore(SESSION, seal, log, None)
    assert len(await log_of(store)) == 4


async def test_another_stub_or_none_is_not_replaced(store: Store) -> None:
    seal, log = await sealed(store)
    other = seal_of(log, "another.jsonl.zst")
    assert not await store.restore(SESSION, other, log, None)
    assert await seals(store, [SESSION]) == [seal]
    assert not await store.restore(OTHER, seal, log, None)
    assert await seals(store, [OTHER]) == [None]
    assert [key async for key in streams_of(store)] == []


async def test_another_history_is_not_the_stream_that_was_sealed(store: Store) -> None:
    log = await three(store)
    last = log[-1]
    other = (*log[:-1], last._replace(payload=b"other"))
    assert not await store.restore(SESSION, seal_of(other), other, None)
    longer = (*log, Entry(last.ms, 4, b"four"))
    assert not await store.restore(SESSION, seal_of(longer), longer, None)
    assert await log_of(store) == log


def wrong_entries(log: tuple[Entry, ...]) -> Iterator[tuple[Entry, ...]]:
    yield ()
    yield log[:-1]
    yield log[1:]
    yield (log[0], log[0], *log[1:])
    yield (log[1], log[0], log[2])
    yield (*log[:-1], log[-1]._replace(payload=b"other"))


@pytest.mark.parametrize("which", range(6))
async def test_entries_that_are_not_those_of_the_seal_are_refused_whole(store: Store, which: int) -> None:
    seal, log = await sealed(store)
    with pytest.raises(DamageError, match="are not those that were sealed"):
        await store.restore(SESSION, seal, list(wrong_entries(log))[which], None)
    assert await seals(store, [SESSION]) == [seal]


async def test_a_stream_that_comes_back_is_told_by_feed_and_wake_up(backend: Backend) -> None:
    store, other = await backend.open(), await backend.open()
    seal, log = await sealed(store)
    await store.read_feed(ALL, "views", "one", 10)
    listener = RecordingListener()
    await other.subscribe(SESSION.partition(other.partition_count), listener)
    assert await store.restore(SESSION, seal, log, None)
    await wait_until_async(lambda: listener.wake_ups, "a wake-up")
    assert listener.wake_ups == [(seal.head, ())]
    lines = (await store.read_feed(ALL, "views", "one", 10)).items
    assert [(line.key, line.version, line.is_move) for line in lines] == [(SESSION, 3, True)]


async def test_of_many_processes_at_once_one_brings_it_back_and_all_are_told_so(backend: Backend) -> None:
    stores = [await backend.open() for _ in range(3)]
    seal, log = await sealed(stores[0])
    done = await asyncio.gather(*(one.restore(SESSION, seal, log, None) for one in stores * 3))
    assert done == [True] * 9
    assert await log_of(stores[0]) == log


async def test_of_a_seal_and_an_append_at_once_only_one_counts(backend: Backend) -> None:
    archiver, agent = await backend.open(), await backend.open()
    for number in range(8):
        key = StreamKey("session", f"ses_{number}")
        log = await three(agent, key)
        append = append_of(b"four", key=key, after=log[-1].position)
        done, answer = await asyncio.gather(
            archiver.seal(key, seal_of(log)), appended(agent, append), return_exceptions=True
        )
        assert done is not isinstance(answer, tuple), "either the stub or the event"
        assert isinstance(answer, tuple | SealedError)
        assert not (isinstance(answer, tuple) and isinstance(answer[0], Conflict))


async def test_a_long_stream_is_sealed_and_comes_back_whole(store: Store) -> None:
    head = START
    for size in (400, 400, 1, 250):
        head = await written(store, *[(b"d" * 50, b"x" * 9)] * size, after=head)
    head = await written(store, *[b"e" * 600_000] * 3, b"f", after=head)
    log = await log_of(store)
    seal = seal_of(log)
    assert await store.seal(SESSION, seal)
    assert await store.restore(SESSION, seal, log, None)
    assert await log_of(store) == log

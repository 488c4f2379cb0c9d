"""The caches of folds are bounded by the memory that the folds take, whatever their number."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from ledger import Ledger
from ledger.core.errors import InputError
from ledger.log import streams as streams_module
from ledger.log.fold_cache import (
    DEFAULT_MB,
    MB,
    VARIABLE,
    SizedCache,
    all_caches_bytes,
    cache_bytes,
    fold_bytes,
)
from ledger.log.history import FOLD_EVERY_VERSIONS, HistoryCache
from ledger.log.tail import Folded, fold_entries, nothing_folded
from ledger.project import ProjectState
from ledger.session.state import SessionState
from ledger.stores.port import StreamKey
from ledger.stores.store import Store
from projections import engine as engine_module
from projections.engine import Engine

KEYS = [StreamKey("session", f"ses_{number}") for number in range(10)]
RULES = [{"permission": "bash", "pattern": "*", "action": "allow"}]
ASKS = 3 * FOLD_EVERY_VERSIONS


@pytest.fixture
async def ledger() -> AsyncIterator[Ledger]:
    async with Ledger.connect("memory://") as ledger:
        yield ledger


# --- the setting ----------------------------------------------------------------------------------------------------


def test_the_caches_take_256_mb_unless_the_environment_says_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert all_caches_bytes() == DEFAULT_MB * MB == 256 * 1024 * 1024
    monkeypatch.setenv(VARIABLE, " 64 ")
    assert all_caches_bytes() == 64 * MB


def test_the_caches_of_a_process_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "64")
    of_the_past = (cache_bytes("history"), cache_bytes("outlines"), cache_bytes("sealed"))
    assert cache_bytes("streams") + cache_bytes("projected") + sum(of_the_past) == all_caches_bytes()
    # A gateway has no projector.
    assert cache_bytes("descriptions") <= cache_bytes("projected")


@pytest.mark.parametrize("word", ["0", "7", "-8", "64mb", "1e3", "1048577", "9" * 5000, "٦٤"])
async def test_another_word_is_refused_with_its_name(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, word)
    with pytest.raises(InputError, match=f"^{VARIABLE} is .* must be a whole number of megabytes from 8 to 1048576$"):
        await Ledger.connect("memory://").__aenter__()


# --- the estimate ---------------------------------------------------------------------------------------------------


async def entries_fold(store: Store, key: StreamKey) -> Folded[SessionState]:
    return fold_entries(key, nothing_folded(key), (await store.open(key)).entries)


@pytest.mark.slow
@pytest.mark.parametrize("asks", [0, 20, 150, 600])
async def test_the_estimate_of_a_fold_is_within_a_factor_of_three(ledger: Ledger, asks: int) -> None:
    session = await ledger.session("ses_0", rules=RULES, cwd="/home/ann/shop")
    for number in range(asks):
        await session.submit("bash", [f"git commit -m 'change {number}'"], always=["git commit *"])
    entries = list((await ledger.store.open(KEYS[0])).entries)
    while more := await ledger.store.read(KEYS[0], entries[-1].position, 1000):
        entries += more
    gc.collect()
    tracemalloc.start()
    try:
        folded = fold_entries(KEYS[0], nothing_folded(KEYS[0]), entries)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(folded.state.settled) == asks
    assert taken / 3 <= fold_bytes(folded.state) <= 3 * max(taken, 8000)


def test_each_thing_that_a_fold_holds_counts() -> None:
    empty = SessionState(session_id="ses_0")
    assert fold_bytes(ProjectState(project_id="shop")) <= fold_bytes(empty) < 10_000


# --- the caches -----------------------------------------------------------------------------------------------------


def test_the_least_recently_used_value_goes_first_and_the_last_one_stays() -> None:
    cache: SizedCache[int] = SizedCache(100)
    assert [cache.put(key, 0, 40) for key in KEYS[:2]] == [[], []]
    assert cache.get(KEYS[0]) == 0
    assert cache.put(KEYS[2], 0, 40) == [KEYS[1]]
    assert (list(cache), cache.size_bytes) == ([KEYS[0], KEYS[2]], 80)
    assert cache.put(KEYS[0], 1, 300) == [KEYS[2]]
    assert (list(cache), cache.size_bytes, cache.get(KEYS[0])) == ([KEYS[0]], 300, 1)
    assert (cache.drop(KEYS[0]), cache.drop(KEYS[0]), cache.size_bytes) == (True, False, 0)


async def test_a_projector_keeps_as_many_folds_as_have_room(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    for key in KEYS:
        await (await ledger.session(key.id)).submit("bash", ["ls"])
    of_one = Engine(ledger.store)
    await of_one.catch_up(KEYS[0])
    one = of_one._cache.size_bytes
    monkeypatch.setattr(engine_module, "cache_bytes", lambda _: 3 * one + one // 2)
    engine = Engine(ledger.store)
    for key in KEYS:
        await engine.catch_up(key)
    assert list(engine._cache) == KEYS[-3:]


async def test_a_process_keeps_as_many_unreferenced_streams_as_have_room(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams_module, "cache_bytes", lambda _: 3 * fold_bytes(SessionState(session_id="ses_0")))
    async with Ledger.connect("memory://") as small:
        for key in KEYS:
            small.streams.session(key.id)
        gc.collect()
        assert [key for key in KEYS if key in small.streams._held] == KEYS[-3:]


async def test_a_stream_that_grew_pushes_others_out(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams_module, "cache_bytes", lambda _: 200_000)
    async with Ledger.connect("memory://") as small:
        for key in KEYS:
            small.streams.session(key.id)
        assert all(key in small.streams._recent for key in KEYS)
        session = await small.session(KEYS[0].id, rules=RULES)
        for number in range(150):
            await session.submit("bash", [f"ls {number}"])
            small.streams.session(KEYS[0].id)
        assert KEYS[0] in small.streams._recent
        assert not any(key in small.streams._recent for key in KEYS[1:])


@pytest.mark.slow
async def test_the_pasts_of_a_long_stream_are_thinned_and_read_as_before(ledger: Ledger) -> None:
    session = await ledger.session(KEYS[0].id, rules=RULES)
    for number in range(ASKS):
        await session.submit("bash", [f"ls {number}"])
    room = 150_000
    cache = HistoryCache(ledger.store, room)
    everything = [event async for event in session.events(follow_on=False)]
    for version in (ASKS, 1, FOLD_EVERY_VERSIONS, FOLD_EVERY_VERSIONS + 1, 2 * FOLD_EVERY_VERSIONS - 1, 7):
        assert await cache.state_at(KEYS[0], version=version) == await ledger.state_at(KEYS[0].id, version)
        assert await cache.page(KEYS[0], version, 10) == everything[version : version + 10]
    marks = cache._marks.get(KEYS[0])
    assert marks is not None
    assert marks.every_versions > FOLD_EVERY_VERSIONS
    assert marks.size_bytes <= room

"""The index of packed requests is a map, however many entries it has, and comes back from its bytes."""

from __future__ import annotations

import gc
import random
import tracemalloc

import pytest

from ledger.core.mark_index import BUCKET_COUNT, ENTRY_BYTES, MARK_BITS, MarkIndex

FIRST, LAST = 0, (1 << MARK_BITS) - 1


@pytest.mark.parametrize("bits", [MARK_BITS, 8], ids=["spread", "all in one bucket"])
@pytest.mark.parametrize("seed", range(4))
def test_an_index_is_read_as_a_dictionary_is(seed: int, bits: int) -> None:
    chance = random.Random(seed)
    index, plain, versions = MarkIndex(), dict[int, int](), []
    for number in range(60):
        some = {chance.getrandbits(bits) for _ in range(60)} - plain.keys()
        index = index.added(some, number)
        plain.update(dict.fromkeys(some, number))
        for mark in chance.sample(sorted(plain), 10):
            index = index.removed(mark)
            del plain[mark]
        versions.append((index, dict(plain)))
    for held, wanted in versions[::10]:
        assert len(held) == len(wanted)
        assert all(held.get(mark) == number for mark, number in wanted.items())
        assert all(held.get(chance.getrandbits(bits) | 1 << 63) is None for _ in range(20) if bits < MARK_BITS)
        again = MarkIndex.of_bytes(*held.as_bytes())
        assert again.as_bytes() == held.as_bytes()
        assert all(again.get(mark) == number for mark, number in wanted.items())


def test_the_first_and_the_last_mark_have_places() -> None:
    index = MarkIndex().added([FIRST, LAST], 7).added(range(1, 3 * BUCKET_COUNT), 8)
    assert (index.get(FIRST), index.get(LAST), index.get(1), index.get(LAST - 1)) == (7, 7, 8, None)
    assert len(index.removed(LAST)) == len(index) - 1


def test_an_entry_takes_what_the_estimate_says() -> None:
    chance = random.Random(1)
    marks = [chance.getrandbits(MARK_BITS) for _ in range(20_000)]
    tracemalloc.start()
    try:
        index = MarkIndex()
        for start in range(0, len(marks), 128):
            index = index.added(marks[start : start + 128], start)
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(index) <= ENTRY_BYTES

"""Divided views: an id has one part, and the parts are alike in size, whatever the ids look like."""

from __future__ import annotations

from collections import Counter

import pytest

from ledger.log import divided as of_log
from ledger.log.divided import LATEST_VIEW
from ledger.stores import divided as of_stores
from ledger.stores.divided import CHECKPOINTS_VIEW, DividedView
from ledger.stores.keys import Keys
from ledger.stores.port import StreamKey
from projections.views import FIXED
from tests.support.rows import every

ALL_VIEWS = [one for module in (of_log, of_stores) for one in vars(module).values() if isinstance(one, DividedView)]
IDS_COUNT = 16_000

SPELLINGS = {
    "numbers": "ses_{:08d}",
    "beginning with one time": "018f3c2a-7b00-7000-8000-{:012x}",
    "even numbers": "per_{:x}0",
}


@every("view", ALL_VIEWS, ids=lambda view: view.parts[0])
@every("spelling", SPELLINGS.values())
def test_no_part_is_much_larger_than_the_others(view: DividedView, spelling: str) -> None:
    sizes = Counter(view.of(spelling.format(number)) for number in range(IDS_COUNT))
    assert set(sizes) == set(view.parts)
    assert max(sizes.values()) < 1.3 * IDS_COUNT / len(view.parts)


@pytest.mark.slow
@pytest.mark.parametrize("view", [CHECKPOINTS_VIEW, LATEST_VIEW], ids=["of sixteen", "of four"])
@pytest.mark.parametrize("partitions", [1, 255, 256])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_the_sessions_of_one_partition_are_in_all_parts(view: DividedView, partitions: int, spelling: str) -> None:
    """Partition and part come from a checksum each: one must not follow from the other."""
    keys, count = Keys(partitions), 100 * len(view.parts)
    ids = (spelling.format(number) for number in range(count * partitions))
    own = [one for one in ids if keys.partition_of(StreamKey("session", one)) == 0]
    sizes = Counter(view.of(one) for one in own)
    assert set(sizes) == set(view.parts)
    assert max(sizes.values()) < 1.6 * len(own) / len(view.parts)


def test_every_part_is_a_view_that_is_built_and_dropped_with_the_others() -> None:
    assert len(ALL_VIEWS) > 5
    parts = [part for view in ALL_VIEWS for part in view.parts]
    assert len(parts) == len(set(parts))
    assert set(parts) <= set(FIXED)

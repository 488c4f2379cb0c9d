"""Every spelling of one meaning has one verdict, for commands made from the tables of programs."""

from __future__ import annotations

import random

import pytest

from ledger.policy.check_questions import Checker
from tests.fuzz.fuzz_spellings import check, meaning, spelling

SEEDS_COUNT = 400
BATCH_COUNT = 20


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, SEEDS_COUNT, BATCH_COUNT))
def test_every_spelling_of_one_meaning_has_one_verdict(first: int) -> None:
    checker = Checker()
    for seed in range(first, first + BATCH_COUNT):
        check(seed, checker)


def test_the_spellings_differ() -> None:
    pick = random.Random(1)
    found = [{spelling(pick, one) for _ in range(3)} for one in (meaning(pick) for _ in range(100))]
    assert sum(len(lines) > 1 for lines in found) > 50

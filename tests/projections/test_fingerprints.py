"""Fingerprints: short, told apart, and leading from an id to the streams of its partition."""

from __future__ import annotations

import pytest

from ledger import Ledger
from ledger.log.fingerprints import fingerprint_of, fingerprints_of, number_of, streams_led_to
from ledger.stores.admin import FoundField
from ledger.stores.port import START, Position, StreamKey, ViewAdvance

FIRST, SECOND = "per_40aa2360efaa7bea0ada283b65", "per_fbc8bf7e2beb0175ca8b05649d"
"""Ids that have one fingerprint."""

IDS_COUNT = 20_000


@pytest.mark.parametrize("spelling", ["per_{}", "018f3c2a-7b00-7000-8000-{:012x}", "{:x}0"])
def test_ids_that_are_counted_up_have_fingerprints_of_their_own(spelling: str) -> None:
    found = {fingerprint_of(spelling.format(number)) for number in range(IDS_COUNT)}
    assert len(found) == IDS_COUNT
    assert {len(one) for one in found} == {5}


def test_a_field_begins_with_the_fingerprint_of_its_id_and_has_eight_characters() -> None:
    field = fingerprints_of("per_1", "018f3c2a-7b00-7000-8000-000000000001")
    assert field.startswith(fingerprint_of("per_1"))
    assert (len(field), field.isascii()) == (8, True)
    assert fingerprint_of(FIRST) == fingerprint_of(SECOND)
    assert number_of(FIRST) == number_of(SECOND) != number_of("per_1")
    assert 0 < number_of(FIRST) < 2**30


async def test_each_stream_is_led_to_whatever_its_id_and_kind(ledger: Ledger) -> None:
    store = ledger.store
    keys = [StreamKey("project" if number % 3 == 1 else "session", f"é {number}") for number in range(60)]
    for key in keys:
        assert await store.project_all([ViewAdvance(key, START, Position(1, 1), b"a summary")], [])
    fields = {key: FoundField(fingerprints_of("per_1", key.id), store.partition_of(key)) for key in keys}
    led = await streams_led_to(store, fields.values())
    assert all(key in led[field] for key, field in fields.items())
    assert sum(map(len, led.values())) < 2 * len(keys)


@pytest.mark.parametrize("text", ["", "abc", "abcdeFGH", "abcdeFG", "abcde\n\n\n", "abcdeéüa", "per_1\nses_1"])
async def test_a_field_that_leads_nowhere_is_told_and_no_error(ledger: Ledger, text: str) -> None:
    field = FoundField(text, 0)
    assert await streams_led_to(ledger.store, [field]) == {field: []}

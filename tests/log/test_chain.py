from __future__ import annotations

from hashlib import sha256

import pytest

from ledger.core.commitments import after_entry, follows, genesis, within_append

PAYLOAD = b'{"v":1}'


def test_the_first_entry_follows_the_name_of_its_stream() -> None:
    assert genesis("session", "ses_1") == sha256(b"permission-ledger\nsession:ses_1").hexdigest()
    assert genesis("project", "ses_1") != genesis("session", "ses_1")


def test_an_entry_of_a_later_append_follows_id_and_payload() -> None:
    assert after_entry(1_800_000_000_000, 7, PAYLOAD) == sha256(b'1800000000000-7\n{"v":1}').hexdigest()


def test_an_entry_of_the_same_append_follows_version_and_payload() -> None:
    assert within_append(7, PAYLOAD) == sha256(b'7\n{"v":1}').hexdigest()


@pytest.mark.parametrize(
    ("prev", "ms", "expected"),
    [
        (after_entry(5, 7, PAYLOAD), 5, True),
        (after_entry(5, 7, PAYLOAD), 9, True),
        (within_append(7, PAYLOAD), 5, True),
        (within_append(7, PAYLOAD), 6, False),
        (within_append(7, PAYLOAD), 4, False),
        (after_entry(6, 7, PAYLOAD), 9, False),
        (after_entry(5, 8, PAYLOAD), 9, False),
        (after_entry(5, 7, PAYLOAD + b" "), 9, False),
        (after_entry(5, 7, PAYLOAD).upper(), 9, False),
        ("", 5, False),
    ],
)
def test_the_form_of_one_append_counts_within_one_millisecond_only(prev: str, ms: int, expected: bool) -> None:
    assert follows(prev, ms=ms, before_ms=5, before_version=7, before_payload=PAYLOAD) is expected

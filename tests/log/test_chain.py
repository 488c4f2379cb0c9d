from __future__ import annotations

from hashlib import sha256

import pytest

from ledger.core import chain

PAYLOAD = b'{"v":1}'


def test_the_first_entry_follows_the_name_of_its_stream() -> None:
    assert chain.genesis("session", "ses_1") == sha256(b"permission-ledger\nsession:ses_1").hexdigest()
    assert chain.genesis("project", "ses_1") != chain.genesis("session", "ses_1")


def test_an_entry_of_a_later_append_follows_id_and_payload() -> None:
    assert chain.after_entry(1_800_000_000_000, 7, PAYLOAD) == sha256(b'1800000000000-7\n{"v":1}').hexdigest()


def test_an_entry_of_the_same_append_follows_version_and_payload() -> None:
    assert chain.within_append(7, PAYLOAD) == sha256(b'7\n{"v":1}').hexdigest()


@pytest.mark.parametrize(
    ("prev", "ms", "follows"),
    [
        (chain.after_entry(5, 7, PAYLOAD), 5, True),
        (chain.after_entry(5, 7, PAYLOAD), 9, True),
        (chain.within_append(7, PAYLOAD), 5, True),
        (chain.within_append(7, PAYLOAD), 6, False),
        (chain.within_append(7, PAYLOAD), 4, False),
        (chain.after_entry(6, 7, PAYLOAD), 9, False),
        (chain.after_entry(5, 8, PAYLOAD), 9, False),
        (chain.after_entry(5, 7, PAYLOAD + b" "), 9, False),
        (chain.after_entry(5, 7, PAYLOAD).upper(), 9, False),
        ("", 5, False),
    ],
)
def test_the_form_of_one_append_counts_within_one_millisecond_only(prev: str, ms: int, follows: bool) -> None:
    assert chain.follows(prev, ms=ms, before_ms=5, before_version=7, before_payload=PAYLOAD) is follows

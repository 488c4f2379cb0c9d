"""Narrowing of an offer: only patterns that provably allow no more stay in it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.policy.covers import within
from ledger.policy.dialects import dialect_named
from ledger.policy.matching import compile_normalised


@pytest.mark.parametrize(
    ("dialect", "offered", "entry"),
    [
        ("opencode", "git push *", "git push *"),
        ("opencode", "git push *", "git push"),
        ("opencode", "git push *", "git push origin *"),
        ("brutus", "git *", "git push -n"),
        ("opencode", "*", "https://example.com/*"),
        ("claude", "Bash(git push:*)", "Bash(git push:*)"),
        ("codelia", '{"tool":"bash"}', '{"tool":"bash"}'),
    ],
)
def test_what_is_offered_or_narrower_stays(dialect: str, offered: str, entry: str) -> None:
    assert within(dialect_named(dialect), (offered,), (entry,)) == (entry,)


@pytest.mark.parametrize(
    ("dialect", "offered", "entry"),
    [
        ("opencode", "git push *", "*"),
        ("opencode", "git push *", "git *"),
        ("opencode", "git push *", "git push*"),
        ("opencode", "a?c", "a*c"),
        ("opencode", "a?", "ab"),
        ("opencode", "git:*", "git push"),
        ("brutus", "git *", "git a\nrm *"),
        ("claude", "Bash(git push:*)", "Bash(git push origin)"),
        ("claude", "Bash(git push:*)", "Bash"),
        ("codelia", '{"tool":"bash","command":"git"}', '{"tool":"bash"}'),
    ],
)
def test_what_is_wider_or_cannot_be_told_is_left_out(dialect: str, offered: str, entry: str) -> None:
    assert within(dialect_named(dialect), (offered,), (entry,)) == ()


def test_nothing_is_within_no_offer() -> None:
    assert within(dialect_named("opencode"), (), ("ls",)) == ()


TEXTS = st.text("ab *?", max_size=6)


@given(offered=TEXTS, entry=TEXTS, texts=st.lists(st.text("ab ", max_size=6), max_size=20))
def test_whatever_a_narrower_entry_matches_the_offer_matches(offered: str, entry: str, texts: list[str]) -> None:
    if within(dialect_named("opencode"), (offered,), (entry,)):
        narrow, wide = compile_normalised(entry), compile_normalised(offered)
        assert [text for text in texts if narrow(text) and not wide(text)] == []

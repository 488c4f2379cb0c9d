"""The page of guarantees cites only existing tests."""

from __future__ import annotations

from tests.house.sources import shown_by, written_tests

PAGE = "docs/reference/guarantees.md"


def test_every_test_that_shows_a_guarantee_exists() -> None:
    named = shown_by(PAGE)
    assert named - written_tests() == set()
    assert len(named) > 10

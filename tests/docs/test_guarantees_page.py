"""The page of guarantees, and the pages that promise the same."""

from __future__ import annotations

from tests.house.sources import shown_by, text_of, written_tests

PAGE = "docs/reference/guarantees.md"


def test_every_test_that_shows_a_guarantee_exists() -> None:
    named = shown_by(PAGE)
    assert named - written_tests() == set()
    assert len(named) > 10


def test_each_page_that_promises_durability_names_the_setting_that_loses_events() -> None:
    """With what was measured, or a link to it."""
    lacking = [
        page
        for page in ("README.md", "SECURITY.md", "docs/guides/run-for-a-team.md", "docs/guides/operating.md")
        if "everysec`" not in (text := text_of(page)) or "reference/guarantees.md#with-appendfsync-everysec" not in text
    ]
    assert lacking == []
    promised, _, not_promised = text_of("docs/reference/guarantees.md").partition("## What is not guaranteed")
    assert "6,886 of 26,526" in " ".join(promised.split())
    assert "`appendfsync everysec`" in not_promised

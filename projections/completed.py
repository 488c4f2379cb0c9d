"""Lists in pages of views, completed by what is ahead of the views."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final, NamedTuple

from ledger.log.surveys import StreamProblem

CURSOR_DIGITS: Final = 15
"""Digits of a time (ms) in the order of a list, and the most in a cursor."""


class Listed(NamedTuple):
    """One row of a list; `order` sorts as the list does, `cursor` is the start of what follows the row."""

    order: str
    cursor: str
    row: dict[str, Any]


class ListPage(NamedTuple):
    """Rows in order, and the streams that could not be read for them; `cursor` is the next page, None at the end."""

    rows: list[Listed]
    problems: list[StreamProblem]
    cursor: str | None


class Until(NamedTuple):
    """The last place of a page."""

    order: str
    cursor: str


class ViewPage(NamedTuple):
    """Rows of views, and the place up to which they are all there is; None is the last page."""

    rows: list[Listed]
    problems: list[StreamProblem]
    until: Until | None


async def completed(
    fresh: Iterable[Listed], problems: list[StreamProblem], pages: AsyncIterator[ViewPage]
) -> AsyncIterator[ListPage]:
    """Put the rows that the views lack in their places among the pages."""
    left = sorted(fresh, key=_order)
    async for page in pages:
        due = len(left) if page.until is None else bisect_right(left, page.until.order, key=_order)
        rows = sorted((*page.rows, *left[:due]), key=_order)
        yield ListPage(rows, problems + page.problems, None if page.until is None else page.until.cursor)
        left, problems = left[due:], []


def _order(one: Listed) -> str:
    return one.order

"""Lists in pages of views, completed by what is ahead of the views."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable
from typing import Final, Generic, NamedTuple, TypeVar

from ledger.core.errors import InputError
from ledger.log.surveys import StreamProblem

R = TypeVar("R")

CURSOR_DIGITS: Final = 15
"""Digits of a time (ms) in the order of a list, and the most in a cursor."""


LIST_COUNT: Final = 100
LIST_COUNT_MAX: Final = 10_000
"""Rows of a page of a list, unless a caller says otherwise, and at most."""


class Listed(NamedTuple, Generic[R]):
    """One row of a list; `order` sorts as the list does, `cursor` is the start of what follows the row."""

    order: str
    cursor: str
    row: R


class ListPage(NamedTuple, Generic[R]):
    """Rows in order, and the streams that could not be read for them; `cursor` is the next page, None at the end."""

    rows: list[Listed[R]]
    problems: list[StreamProblem]
    cursor: str | None

    @property
    def items(self) -> list[R]:
        """Return the rows alone."""
        return [one.row for one in self.rows]


class Until(NamedTuple):
    """The last place of a page."""

    order: str
    cursor: str


class ViewPage(NamedTuple, Generic[R]):
    """Rows of views, and the place up to which they are all there is; None is the last page."""

    rows: list[Listed[R]]
    problems: list[StreamProblem]
    until: Until | None


def check_count(count: int) -> int:
    """Return the number of rows of a page. Raises InputError."""
    if not 1 <= count <= LIST_COUNT_MAX:
        raise InputError(f"a page has 1 to {LIST_COUNT_MAX} rows, not {count}")
    return count


async def completed(
    fresh: Iterable[Listed[R]], problems: list[StreamProblem], pages: AsyncIterator[ViewPage[R]]
) -> AsyncIterator[ListPage[R]]:
    """Put the rows that the views lack in their places among the pages."""
    left = sorted(fresh, key=_order)
    async for page in pages:
        due = len(left) if page.until is None else bisect_right(left, page.until.order, key=_order)
        rows = sorted((*page.rows, *left[:due]), key=_order)
        yield ListPage(rows, problems + page.problems, None if page.until is None else page.until.cursor)
        left, problems = left[due:], []


def _order(one: Listed[R]) -> str:
    return one.order

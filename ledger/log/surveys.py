"""Reads across many streams: rows of the readable ones, a problem for each unreadable one, and pages of lists."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from ledger.core.errors import DamageError, InputError
from ledger.stores.port import StreamKey

T = TypeVar("T")

READ_AT_ONCE_COUNT: Final = 500

NAMED_MAX: Final = 5
"""Streams that an error names; the rest are counted."""


class StreamProblem(msgspec.Struct, frozen=True):
    """A stream that cannot be read to its end. `code` is that of the error: `DAMAGED` or `NEWER_SCHEMA`."""

    key: StreamKey
    code: str
    text: str

    def as_json(self) -> dict[str, Any]:
        return {
            "session": self.key.id if self.key.kind == "session" else None,
            "stream": self.key.name,
            "code": self.code,
            "text": self.text,
        }


class Survey(msgspec.Struct, Generic[T], frozen=True):
    """The rows of all streams that can be read, in the order in which they were named."""

    rows: list[T]
    problems: list[StreamProblem]

    @property
    def unread(self) -> str:
        """Return the unread streams as a part of a sentence; empty when there are none."""
        if not self.problems:
            return ""
        names = ", ".join(f"`{one.key.name}`" for one in self.problems[:NAMED_MAX])
        more = f" and {len(self.problems) - NAMED_MAX} more" if len(self.problems) > NAMED_MAX else ""
        return f"; damaged streams, not read: {names}{more}"


async def paged(items: AsyncIterator[T], count: int) -> AsyncIterator[list[T]]:
    """Iterate over items in lists of at most `count`."""
    page: list[T] = []
    async for one in items:
        page.append(one)
        if len(page) == count:
            yield page
            page = []
    if page:
        yield page


async def survey(keys: Iterable[StreamKey], read: Callable[[StreamKey], Awaitable[T]]) -> Survey[T]:
    """Read each stream; damage to one does not affect the others. Raises StoreError."""

    async def outcome(key: StreamKey) -> T | Exception:
        try:
            return await read(key)
        except Exception as error:  # noqa: BLE001 - raised below, once the others are read
            return error

    wanted = list(keys)
    found: Survey[T] = Survey([], [])
    for start in range(0, len(wanted), READ_AT_ONCE_COUNT):
        some = wanted[start : start + READ_AT_ONCE_COUNT]
        results = [await outcome(some[0])] if len(some) == 1 else await asyncio.gather(*map(outcome, some))
        for key, result in zip(some, results, strict=True):
            if isinstance(result, DamageError):
                found.problems.append(problem_of(key, result))
            elif isinstance(result, Exception):
                raise result
            else:
                found.rows.append(result)
    return found


def problem_of(key: StreamKey, error: DamageError) -> StreamProblem:
    """Return the problem of a stream, with the stream's name where the error's text lacks it."""
    text = error.text if key.id in error.text else f"stream `{key.name}`: {error.text}"
    return StreamProblem(key, error.code, text)


R = TypeVar("R")

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

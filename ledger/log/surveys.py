"""Reads across many streams: rows of the readable ones, and a problem for each unreadable one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Generic, TypeVar

import msgspec

from ledger.core.errors import DamageError
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

"""A persistent map of 64-bit marks to block numbers in 12 bytes an entry. Pure.

The entries are sorted arrays in buckets by the first bits of a mark. So a change copies one small bucket, and the whole
is stored, and read again, as two runs of bytes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

MARK_BITS: Final = 64
BUCKET_COUNT: Final = 256
"""Entries of a usual bucket: with twice as many, there are twice as many buckets."""

ENTRY_BYTES: Final = 14
"""The room of an entry, with its share of its bucket."""

_MARK: Final = "Q"
_NUMBER: Final = "I"

_Bucket = tuple["array[int]", "array[int]"]
"""Marks in order, and the number of each."""

_IS_LITTLE: Final = array(_NUMBER, (1,)).tobytes()[0] == 1

_EMPTY: Final[_Bucket] = (array(_MARK), array(_NUMBER))


class MarkIndex:
    """An immutable map: `added` and `removed` return another one. No bucket is changed once it is in a map."""

    __slots__ = ("_buckets", "_length")

    def __init__(self, buckets: tuple[_Bucket, ...] = (_EMPTY,), length: int = 0) -> None:
        self._buckets = buckets
        self._length = length

    def __len__(self) -> int:
        return self._length

    def get(self, mark: int) -> int | None:
        """Return the number of a mark, or None."""
        marks, numbers = self._buckets[self._place(mark)]
        at = bisect_left(marks, mark)
        return numbers[at] if at < len(marks) and marks[at] == mark else None

    def added(self, marks: Iterable[int], number: int) -> MarkIndex:
        """Return the map with more marks, which it must not have, all with one number."""
        buckets, length = list(self._buckets), self._length
        one = array(_NUMBER, (number,))
        for mark in marks:
            place = self._place(mark)
            held, numbers = buckets[place]
            at = bisect_left(held, mark)
            buckets[place] = (
                held[:at] + array(_MARK, (mark,)) + held[at:],
                numbers[:at] + one + numbers[at:],
            )
            length += 1
        if length > 2 * BUCKET_COUNT * len(buckets):
            return MarkIndex(tuple(_halves(buckets)), length)
        return MarkIndex(tuple(buckets), length)

    def removed(self, mark: int) -> MarkIndex:
        """Return the map without a mark, which it must have."""
        place = self._place(mark)
        marks, numbers = self._buckets[place]
        at = bisect_left(marks, mark)
        buckets = list(self._buckets)
        buckets[place] = (marks[:at] + marks[at + 1 :], numbers[:at] + numbers[at + 1 :])
        return MarkIndex(tuple(buckets), self._length - 1)

    def _place(self, mark: int) -> int:
        # The number of buckets is a power of two.
        return mark * len(self._buckets) >> MARK_BITS

    # --- storing ----------------------------------------------------------------------------------------------------

    def as_bytes(self) -> tuple[bytes, bytes]:
        """Return the marks in order and their numbers, each little-endian."""
        return (
            b"".join(_little(marks) for marks, _ in self._buckets),
            b"".join(_little(numbers) for _, numbers in self._buckets),
        )

    @classmethod
    def of_bytes(cls, marks_bytes: bytes, numbers_bytes: bytes) -> MarkIndex:
        """Return the map that was stored. Raises ValueError for bytes that hold none."""
        marks, numbers = _of_little(_MARK, marks_bytes), _of_little(_NUMBER, numbers_bytes)
        if len(marks) != len(numbers):
            raise ValueError(f"{len(marks)} marks with {len(numbers)} numbers")
        buckets: list[_Bucket] = [(marks, numbers)]
        while len(marks) > 2 * BUCKET_COUNT * len(buckets):
            buckets = list(_halves(buckets))
        return cls(tuple(buckets), len(marks))


def _halves(buckets: list[_Bucket]) -> Iterator[_Bucket]:
    """Iterate over twice as many buckets."""
    width = 1 << MARK_BITS
    for place, (marks, numbers) in enumerate(buckets):
        at = bisect_left(marks, (2 * place + 1) * width // (2 * len(buckets)))
        yield marks[:at], numbers[:at]
        yield marks[at:], numbers[at:]


def _little(values: array[int]) -> bytes:
    if _IS_LITTLE:
        return values.tobytes()
    swapped = values[:]
    swapped.byteswap()
    return swapped.tobytes()


def _of_little(kind: str, data: bytes) -> array[int]:
    values = array(kind)
    values.frombytes(data)
    if not _IS_LITTLE:
        values.byteswap()
    return values

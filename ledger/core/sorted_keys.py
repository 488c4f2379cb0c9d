"""A set of keys in order, immutable: each change returns a new set that shares nearly all of the old one.

It is a treap: a search tree of the keys that is a heap of their checksums. So its shape depends only on the keys in it,
and its depth grows with the logarithm of their number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeAlias, TypeVar
from zlib import crc32

K = TypeVar("K", bound=tuple[Any, ...])

_Node: TypeAlias = "tuple[int, Any, Any, Any] | None"
"""A checksum, its key, and the nodes of smaller and of larger keys."""


class SortedKeys(Generic[K]):
    """Keys, which are tuples of numbers and texts."""

    __slots__ = ("_root",)

    def __init__(self, root: _Node = None) -> None:
        self._root = root

    def __bool__(self) -> bool:
        return self._root is not None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SortedKeys) and bool(self._root == other._root)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"SortedKeys({list(self)!r})"

    def __iter__(self) -> Iterator[K]:
        return _from(self._root, ())

    def add(self, key: K) -> SortedKeys[K]:
        """Return the set with a key, which it may have."""
        return SortedKeys(_added(self._root, crc32(repr(key).encode()), key))

    def discard(self, key: K) -> SortedKeys[K]:
        """Return the set without a key, which it may lack."""
        return SortedKeys(_removed(self._root, key))

    def first(self) -> K | None:
        """Return the smallest key."""
        node, key = self._root, None
        while node is not None:
            _, key, node, _ = node
        return key

    def since(self, least: tuple[Any, ...]) -> Iterator[K]:
        """Iterate in order over the keys that are not smaller than this one; a shorter tuple is before its longer ones."""
        return _from(self._root, least)


def _from(node: _Node, least: tuple[Any, ...]) -> Iterator[Any]:
    path: list[Any] = []
    while True:
        while node is not None:
            if node[1] < least:
                node = node[3]
            else:
                path.append(node)
                node = node[2]
        if not path:
            return
        node = path.pop()
        yield node[1]
        node = node[3]


def _added(node: _Node, sum_of_key: int, key: Any) -> _Node:
    if node is None:
        return sum_of_key, key, None, None
    top, own, smaller, larger = node
    if key == own:
        return node
    if (sum_of_key, key) < (top, own):
        before, after = _split(node, key)
        return sum_of_key, key, before, after
    if key < own:
        return top, own, _added(smaller, sum_of_key, key), larger
    return top, own, smaller, _added(larger, sum_of_key, key)


def _split(node: _Node, key: Any) -> tuple[_Node, _Node]:
    """Return the nodes of the keys before and after a key, which is none of them."""
    if node is None:
        return None, None
    top, own, smaller, larger = node
    if key < own:
        before, after = _split(smaller, key)
        return before, (top, own, after, larger)
    before, after = _split(larger, key)
    return (top, own, smaller, before), after


def _removed(node: _Node, key: Any) -> _Node:
    if node is None:
        return None
    top, own, smaller, larger = node
    if key == own:
        return _joined(smaller, larger)
    if key < own:
        return top, own, _removed(smaller, key), larger
    return top, own, smaller, _removed(larger, key)


def _joined(before: _Node, after: _Node) -> _Node:
    """Return one tree of two, all keys of the first of which are smaller."""
    if before is None or after is None:
        return after if before is None else before
    if before[:2] < after[:2]:
        return before[0], before[1], before[2], _joined(before[3], after)
    return after[0], after[1], _joined(before, after[2]), after[3]

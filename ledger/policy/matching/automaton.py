"""Positions reached in a pattern of items and stars, one bit a position. Time is linear in the text."""

from __future__ import annotations

from collections.abc import Iterable


class Automaton:
    """A pattern of `length` places. A star takes any number of items, and its place remains reached.

    A state is the set of places that may be next; bit `length` is the end. `start` is the state before the first item.
    """

    def __init__(self, length: int, stars: Iterable[int]) -> None:
        self.stars = sum(1 << place for place in stars)
        self.end = 1 << length
        self.start = self.skip(1)

    def skip(self, state: int) -> int:
        """Add the places that are reached if stars take nothing."""
        while (more := state | (state & self.stars) << 1) != state:
            state = more
        return state

    def after(self, state: int, taken: int) -> int:
        """Return the state after one item; `taken` are the places that take it. Stars that follow are not skipped."""
        found = state & taken
        return (found & ~self.stars) << 1 | found & self.stars

    def onward(self, state: int) -> int:
        """Return the state after items of any kind and number."""
        return (self.end << 1) - (state & -state) if state else 0

"""Grants as rules of a dialect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from ledger.core.policy import Grant
from ledger.core.standing import IndexedGrants

Read = TypeVar("Read")


class ReadGrants(Generic[Read]):
    """The grants of a call as `read` reads them, where they have an index only those that a text asks for.

    `names` are texts that each question is also about.
    """

    def __init__(
        self, given: Sequence[Grant], read: Callable[[Sequence[Grant]], Sequence[Read]], names: tuple[str, ...] = ()
    ) -> None:
        self.given, self._read, self._names = given, read, names
        # To ask an abstract class costs two calls.
        self._index = given if type(given) is not tuple and isinstance(given, IndexedGrants) else None
        self.all: Sequence[Read] = () if self._index is not None else read(given)
        self.nothing = self._index is None and not self.all
        """There are none, so that no text need be asked about."""
        self._about: dict[tuple[str, ...], Sequence[Read]] = {}

    def about(self, *texts: str) -> Sequence[Read]:
        """Return the grants that may match one of these texts, in order."""
        if self._index is None:
            return self.all
        found = self._about.get(texts)
        if found is None:
            found = self._about[texts] = self._read(self._index.about((*self._names, *texts)))
        return found

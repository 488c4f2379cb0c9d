"""Grants that are found by the texts of a call, so that a judgement does not try each of them.

A dialect that matches a pattern of grants with texts asks them `about` the texts, for those that may match. What it gets is a
superset of the matches, in the order of the grants, so that a judgement is the same with and without an index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, overload

from ledger.core.policy import Grant


class IndexedGrants(Sequence[Grant]):
    """Grants with an index. All of them may be iterated over; that costs by their number."""

    @abstractmethod
    def about(self, texts: Iterable[str]) -> Sequence[Grant]:
        """Return the grants whose pattern may match one of these texts, in order.

        A word of letters and digits in a pattern must be found in one of the texts, ignoring case.
        """

    @property
    @abstractmethod
    def more(self) -> tuple[Grant, ...]:
        """Return the grants that were put behind the others."""

    @abstractmethod
    def plus(self, more: Sequence[Grant]) -> IndexedGrants:
        """Return these grants and some more behind them."""


ANSWERS_COUNT: Final = 64
"""Grants, at most, that are kept as the answers for one call."""

GrantAnswers = dict[tuple[str, ...], Sequence[Grant]]


class ConsultedGrants(IndexedGrants):
    """Grants that know what was asked of them: with the same answers, a judgement is the same."""

    __slots__ = ("_grants", "answers")

    def __init__(self, grants: IndexedGrants) -> None:
        self._grants = grants
        self.answers: GrantAnswers | None = {}
        """The answers by the texts asked about; None once more was asked than is kept."""

    def __bool__(self) -> bool:
        return bool(self._grants)

    def __len__(self) -> int:
        self.answers = None
        return len(self._grants)

    def __iter__(self) -> Iterator[Grant]:
        self.answers = None
        return iter(self._grants)

    @overload
    def __getitem__(self, at: int) -> Grant: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Grant]: ...
    def __getitem__(self, at: Any) -> Any:
        self.answers = None
        return self._grants[at]

    def about(self, texts: Iterable[str]) -> Sequence[Grant]:
        asked = tuple(texts)
        if self.answers is None:
            return self._grants.about(asked)
        if asked not in self.answers:
            self.answers[asked] = self._grants.about(asked)
        found = self.answers[asked]
        if len(self.answers) + sum(map(len, self.answers.values())) > ANSWERS_COUNT:
            self.answers = None
        return found

    @property
    def more(self) -> tuple[Grant, ...]:
        return self._grants.more

    def plus(self, more: Sequence[Grant]) -> IndexedGrants:
        return ConsultedGrants(self._grants.plus(more))


def confirms(grants: IndexedGrants, answers: GrantAnswers) -> bool:
    """Return whether grants give the same answers."""
    return all(grants.about(texts) == found for texts, found in answers.items())


def with_more(grants: Sequence[Grant], more: Sequence[Grant]) -> Sequence[Grant]:
    """Return grants and some more behind them."""
    return grants.plus(more) if isinstance(grants, IndexedGrants) else (*grants, *more)

"""The grants in force at a time, for one call: found by the texts of the call, and walked over only where all count.

A dialect that matches a pattern of grants with texts asks them `about` the texts, for those that may match. What it gets is a
superset of the matches, in the order of the grants, so that a judgement is the same with and without an index.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar, overload

from ledger.core.grants import Grants, StandingGrant, Taker, in_force
from ledger.core.policy import Grant

T = TypeVar("T", Grant, StandingGrant)


class _Listed(Sequence[T]):
    """Base of grants that are listed only where all of them count."""

    __slots__ = ()

    @abstractmethod
    def _every(self) -> Sequence[T]: ...

    def __len__(self) -> int:
        return len(self._every())

    def __iter__(self) -> Iterator[T]:
        return iter(self._every())

    @overload
    def __getitem__(self, at: int) -> T: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[T]: ...
    def __getitem__(self, at: Any) -> Any:
        return self._every()[at]


class IndexedGrants(_Listed[Grant]):
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

    def _every(self) -> Sequence[Grant]:
        self.answers = None
        return self._grants

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


Condition: TypeAlias = Callable[[StandingGrant], bool]


class Standing(_Listed[StandingGrant]):
    """The grants in force of several streams, those of the first one first, that meet all conditions."""

    __slots__ = ("_all", "_conditions", "_now_ms", "_streams", "_taker")

    def __init__(
        self,
        streams: tuple[Grants, ...],
        now_ms: int,
        taker: Taker | None = None,
        conditions: tuple[Condition, ...] = (),
    ) -> None:
        self._streams = tuple(filter(None, streams))
        self._now_ms, self._taker, self._conditions = now_ms, taker, conditions
        self._all: list[StandingGrant] | None = None

    def __bool__(self) -> bool:
        """Return False where there are none for sure; whether one is in force is not asked."""
        return bool(self._streams)

    def _every(self) -> list[StandingGrant]:
        if self._all is None:
            found = (one for grants in self._streams for one in in_force(grants, self._now_ms, self._taker))
            self._all = [grant for grant in found if self._meets(grant)]
        return self._all

    def _meets(self, grant: StandingGrant) -> bool:
        return all(condition(grant) for condition in self._conditions)

    @property
    def has_limited(self) -> bool:
        """Return whether one of them may have a limit of uses."""
        return bool(self._streams) and any(grants.has_limited for grants in self._streams)

    def where(self, condition: Condition) -> Standing:
        """Return those that meet one more condition."""
        return Standing(self._streams, self._now_ms, self._taker, (*self._conditions, condition))

    def about(self, texts: Iterable[str]) -> list[StandingGrant]:
        """Return those whose pattern may match one of these texts, in order."""
        texts = tuple(texts)
        found = (one for grants in self._streams for one in grants.about(texts, self._now_ms, self._taker))
        return [grant for grant in found if self._meets(grant)]

    def named(self, grant_ids: Collection[str]) -> list[StandingGrant]:
        """Return those with these ids, in order."""
        found = []
        for grants in self._streams:
            known = [grant for grant_id in grant_ids if (grant := grants.get(grant_id)) is not None]
            counting = [one for one in known if one.counts(self._now_ms, self._taker) and self._meets(one)]
            found += sorted(counting, key=lambda grant: (grant.version, grant.grant_id))
        return found


def kept(grants: Sequence[StandingGrant], condition: Condition) -> Sequence[StandingGrant]:
    """Return the grants that meet a condition."""
    return grants.where(condition) if isinstance(grants, Standing) else [one for one in grants if condition(one)]


def named(grants: Sequence[StandingGrant], grant_ids: Collection[str]) -> list[StandingGrant]:
    """Return the grants with these ids, in order."""
    if isinstance(grants, Standing):
        return grants.named(grant_ids)
    return [one for one in grants if one.grant_id in grant_ids] if grant_ids else []


def as_policy_grants(grants: Sequence[StandingGrant]) -> Sequence[Grant]:
    """Return grants as a dialect gets them, with their index if they have one."""
    if isinstance(grants, Standing):
        return _PolicyGrants(grants) if grants else ()
    return [one.as_policy_grant() for one in grants]


class _PolicyGrants(IndexedGrants):
    """Grants in force as a dialect gets them, and some more behind them."""

    __slots__ = ("_all", "_more", "_standing")

    def __init__(self, standing: Standing, more: tuple[Grant, ...] = ()) -> None:
        self._standing, self._more = standing, more
        self._all: list[Grant] | None = None

    def __bool__(self) -> bool:
        return bool(self._more or self._standing)

    def _every(self) -> list[Grant]:
        if self._all is None:
            self._all = [*(one.as_policy_grant() for one in self._standing), *self._more]
        return self._all

    @property
    def more(self) -> tuple[Grant, ...]:
        return self._more

    def about(self, texts: Iterable[str]) -> Sequence[Grant]:
        return (*(one.as_policy_grant() for one in self._standing.about(texts)), *self._more)

    def plus(self, more: Sequence[Grant]) -> IndexedGrants:
        return _PolicyGrants(self._standing, (*self._more, *more))

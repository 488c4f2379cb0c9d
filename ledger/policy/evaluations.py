"""Frames that all dialects share: a compiled policy, grants as its rules, and one evaluation of several parts or inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Self, TypeVar

from msgspec.structs import replace

from ledger.core.policy import Evaluation, Grant, Part, PolicySource, Verdict, strictest
from ledger.core.standing import IndexedGrants
from ledger.policy.facts import FileFacts

NO_PATTERN: Final = "the call names no pattern, so there is nothing to judge"
NO_RULE: Final = "no rule matches, and the default is ask"
GRANTED: Final = "allowed by a grant in force"


def evaluated(
    parts: Sequence[Part],
    verdict: Verdict,
    *,
    message: str | None = None,
    reason: str | None = None,
    always: tuple[str, ...] = (),
) -> Evaluation:
    """Return the evaluation of parts with the rules of those that decide, and the usual reason where none is given."""
    deciding = parts if len(parts) == 1 else [part for part in parts if part.verdict is verdict]
    rules = tuple(dict.fromkeys([rule for part in deciding for rule in part.rules]))
    if reason is None and verdict is Verdict.ASK:
        reason = None if all(part.rules for part in deciding) else NO_RULE
    elif reason is None:
        reason = GRANTED if any(part.grants for part in deciding) else None
    return Evaluation(verdict, tuple(parts), rules, message, reason, always)


def joined(found: Sequence[Evaluation]) -> Evaluation:
    """Return the first of the strictest evaluations, with the parts of all and the rules of all that are as strict.

    Needs at least one evaluation.
    """
    verdict = strictest(one.verdict for one in found)
    deciding = [one for one in found if one.verdict is verdict]
    return replace(
        deciding[0],
        parts=tuple(part for one in found for part in one.parts),
        rules=tuple(dict.fromkeys(rule for one in deciding for rule in one.rules)),
    )


def joined_calls(found: Sequence[Evaluation]) -> Evaluation:
    """Join the evaluations of several inputs of one call; `always` grants the offers of each of them."""
    if len(found) == 1:
        return found[0]
    return replace(joined(found), always=tuple(dict.fromkeys(entry for one in found for entry in one.always)))


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


class CompiledPolicy:
    """The frame of a compiled policy: its source, of which it is made again for other facts about files."""

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        self._source = source

    @property
    def source(self) -> PolicySource:
        return self._source

    def with_facts(self, facts: FileFacts) -> Self:
        """Return the same policy with other facts about files; `fs` of the source takes precedence."""
        return type(self)(self._source, facts)

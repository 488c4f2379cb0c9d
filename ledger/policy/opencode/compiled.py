"""Compiled rules and grants: the last rule that matches a permission and a text, found by literal text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Grant, Rule, RuleRef, Verdict
from ledger.policy.evaluations import ReadGrants
from ledger.policy.matching import Matcher, compile_normalised, everything, is_glob, wildcard_meets

PREFIX_CHARS_MAX: Final = 24
SHARED_PREFIX_COUNT_MAX: Final = 8
GRAM_CHARS: Final = 3
INDEXED_TEXT_CHARS_MAX: Final = 1_024
"""Longer texts are not cut into pieces, since that costs more than it saves."""

_WILD: Final = late_pattern(r"[*?]")
_OPTIONAL_TAIL: Final = " *"


class RuleIndex:
    """Positions of patterns by a text that every match contains; patterns and texts are normalised."""

    def __init__(self, patterns: Sequence[str]) -> None:
        runs = [_WILD.split(pattern.removesuffix(_OPTIONAL_TAIL)) for pattern in patterns]
        beginnings = [pieces[0][:PREFIX_CHARS_MAX] for pieces in runs]
        shared = Counter(beginnings)
        grams = [set().union(*map(_grams, pieces)) for pieces in runs]
        common = Counter(gram for found in grams for gram in found)
        self._all = range(len(patterns))
        self._open: list[int] = []
        self._by_beginning: dict[str, list[int]] = {}
        self._by_gram: dict[str, list[int]] = {}
        for position, (beginning, found) in enumerate(zip(beginnings, grams, strict=True)):
            rarest = min(sorted(found), key=common.__getitem__, default=None)
            if beginning and (shared[beginning] <= SHARED_PREFIX_COUNT_MAX or rarest is None):
                self._by_beginning.setdefault(beginning, []).append(position)
            elif rarest is not None:
                self._by_gram.setdefault(rarest, []).append(position)
            else:
                self._open.append(position)
        self._lengths = sorted({len(beginning) for beginning in self._by_beginning})

    def candidates(self, text: str) -> Sequence[int]:
        """Return the positions of all patterns that may match, in order."""
        if self._by_gram and len(text) > INDEXED_TEXT_CHARS_MAX:
            return self._all
        found = self._open.copy()
        by_beginning = self._by_beginning
        for length in self._lengths:
            if positions := by_beginning.get(text[:length]):
                found += positions
        if by_gram := self._by_gram:
            for gram in by_gram.keys() & _grams(text):
                found += by_gram[gram]
        # A text shorter than a length gives the same slice again, and so the same positions.
        return sorted(set(found)) if len(found) > 1 else found


def _grams(text: str) -> set[str]:
    return {text[at : at + GRAM_CHARS] for at in range(len(text) - GRAM_CHARS + 1)}


_SHADOW_TESTS_MAX: Final = 1_000_000
"""Pairs of rules, at most, that are compared; with more, every rule counts as in force, which only asks more."""

_PERMISSIONS_KEPT_MAX: Final = 256
_TEXTS_KEPT_MAX: Final = 32
"""Texts, at most, whose candidates are kept: a call asks several times about the same few."""


Rank = tuple[int, bytes]


class WildcardReading(NamedTuple):
    r"""The reading of wildcards by a program. `slashes`: `\` and `/` are one character; `stop`: what no wildcard matches.

    `rank` is the place of a permission among all: a grant lifts rules up to the rank of its own permission.
    """

    slashes: bool = True
    stop: str = ""
    rank: Callable[[str], Rank] = lambda _permission: (0, b"")

    def normal(self, text: str) -> str:
        return text.replace("\\", "/") if self.slashes else text

    def matcher(self, pattern: str) -> Matcher:
        """Return the matcher of a pattern for normalised texts."""
        return compile_normalised(self.normal(pattern), dot_all=not self.stop)


OPENCODE: Final = WildcardReading()


class CompiledRule(NamedTuple):
    r"""A compiled rule.

    `pattern` and `permission` take normalised text. `narrow` takes text as it is written, with `\` apart from `/`, as
    an allow of the hardened profile requires.
    """

    permission: Matcher
    pattern: Matcher
    narrow: Matcher
    action: Verdict
    refs: tuple[RuleRef, ...]
    spelt: dict[str, str]
    text: str
    catches_all: bool
    rank: Rank


class CompiledGrant(NamedTuple):
    """A compiled grant of the permission at hand; fields as in `CompiledRule`."""

    grant_id: str
    pattern: Matcher
    narrow: Matcher
    text: str
    rank: Rank


class PermissionRules:
    """The rules of one permission, the last one first, indexed by a text that every match contains."""

    def __init__(self, rules: Sequence[CompiledRule], reading: WildcardReading = OPENCODE) -> None:
        self.all = tuple(rules)
        self.reading = reading
        index = RuleIndex([reading.normal(rule.text) for rule in self.all])
        self.candidates = lru_cache(_TEXTS_KEPT_MAX)(index.candidates)

    @cached_property
    def restricting(self) -> tuple[str, ...]:
        """Return the patterns of the rules that deny or ask, without catch-alls."""
        return tuple(rule.text for rule in self.all if rule.action is not Verdict.ALLOW and not rule.catches_all)

    @cached_property
    def in_force(self) -> tuple[CompiledRule, ...]:
        """Return the rules that deny or ask about an option, and that no later rule allows wholly."""
        found = [rule for rule in self.all if rule.action is not Verdict.ALLOW and "-" in rule.text]
        if len(found) * len(self.all) <= _SHADOW_TESTS_MAX:
            lasts = [last_match(rule.text, self) for rule in found]
            found = [
                one for one, last in zip(found, lasts, strict=True) if not last or last.action is not Verdict.ALLOW
            ]
        return tuple([rule for rule in found if rule.text.strip("* ")])

    @cached_property
    def caseless(self) -> PermissionRules:
        """Return the same rules for texts in lower case."""
        return PermissionRules([self._folded(rule) for rule in self.all], self.reading)

    def _folded(self, rule: CompiledRule) -> CompiledRule:
        pattern = rule.text.casefold()
        return rule._replace(pattern=self.reading.matcher(pattern), text=pattern)


class CompiledRules:
    """Rules by permission."""

    def __init__(self, rules: Sequence[Rule], reading: WildcardReading = OPENCODE) -> None:
        self.reading = reading
        self._last_first = tuple(_compile(rule, reading) for rule in reversed(rules))
        self._by_permission: dict[str, PermissionRules] = {}

    @cached_property
    def allow_everything(self) -> bool:
        """Return whether no ask and no deny comes after an allow of every permission and every pattern."""
        for rule in self._last_first:
            if rule.action is not Verdict.ALLOW:
                return False
            if rule.spelt["permission"] == "*" and rule.text == "*":
                return True
        return False

    @cached_property
    def guard_files(self) -> bool:
        """Return whether a rule restricts particular files, or folders outside the project."""
        return any(self.of(permission).restricting for permission in ("read", "edit")) or any(
            rule.action is not Verdict.ALLOW for rule in self.of("external_directory").all
        )

    def of(self, permission: str) -> PermissionRules:
        """Return the rules whose permission matches."""
        found = self._by_permission.get(permission)
        if found is None:
            name = self.reading.normal(permission)
            found = PermissionRules([rule for rule in self._last_first if rule.permission(name)], self.reading)
            if len(self._by_permission) < _PERMISSIONS_KEPT_MAX:
                self._by_permission[permission] = found
        return found


class CompiledGrants(ReadGrants[CompiledGrant]):
    """The grants of a call whose permission matches, in the order given."""

    def __init__(self, grants: Sequence[Grant], permission: str, reading: WildcardReading = OPENCODE) -> None:
        self.rank, name, matcher = reading.rank(permission), reading.normal(permission), reading.matcher

        def compiled(some: Sequence[Grant]) -> tuple[CompiledGrant, ...]:
            return tuple(
                CompiledGrant(one.grant_id, *_matchers(one.pattern, reading), one.pattern, reading.rank(one.permission))
                for one in some
                if one.permission == permission or matcher(one.permission)(name)
            )

        super().__init__(grants, compiled)


def last_match(text: str, rules: PermissionRules) -> CompiledRule | None:
    """Return the rule that decides about a text."""
    value = rules.reading.normal(text) if "\\" in text else text
    known = rules.all
    for at in rules.candidates(value):
        matches = known[at].pattern
        if matches is everything or matches(value):
            return known[at]
    return None


def is_restricted_apart(rule: CompiledRule | None, permission: str) -> bool:
    """Return whether a rule asks or denies, and is not about this permission."""
    return rule is not None and rule.action is not Verdict.ALLOW and not rule.permission(permission)


def last_narrow_match(text: str, shown: str, rules: PermissionRules) -> CompiledRule | None:
    """Return the rule that decides; an allow counts only if it matches `shown`, in which quoted blanks are replaced."""
    value = rules.reading.normal(text) if "\\" in text else text
    for at in rules.candidates(value):
        rule = rules.all[at]
        if rule.narrow(shown) if rule.action is Verdict.ALLOW else rule.pattern(value):
            return rule
    return None


def restricting(text: str, rules: PermissionRules) -> CompiledRule | None:
    """Return the rule, no catch-all, that asks about a text or denies it, in its own case or ignoring case.

    `text` may be a shell glob: then each rule that it may match counts, unless a later one allows everything.
    """
    folded = text.casefold()
    for value, known in ((text, rules), (folded, rules.caseless)):
        rule = last_match(value, known)
        if rule is not None and rule.action is not Verdict.ALLOW and not rule.catches_all:
            return rule
    return next(_meeting(rules.reading.normal(folded), rules.caseless), None) if is_glob(text) else None


def _meeting(value: str, rules: PermissionRules) -> Iterator[CompiledRule]:
    for rule in rules.all:
        if rule.catches_all and rule.action is Verdict.ALLOW:
            return
        if (
            rule.action is not Verdict.ALLOW
            and not rule.catches_all
            and wildcard_meets(rules.reading.normal(rule.text), value)
        ):
            yield rule


def _compile(rule: Rule, reading: WildcardReading) -> CompiledRule:
    text = rule.pattern
    ref = RuleRef(f"{rule.permission} {text} {rule.action.value}", rule.layer, rule.file, rule.line)
    spelt = {"permission": rule.permission, "pattern": text, "action": rule.action.value}
    permission, rank = reading.matcher(rule.permission), reading.rank(rule.permission)
    matchers = _matchers(text, reading)
    return CompiledRule(permission, *matchers, rule.action, (ref,), spelt, text, not text.strip("*"), rank)


def _matchers(pattern: str, reading: WildcardReading) -> tuple[Matcher, Matcher]:
    wide = reading.matcher(pattern)
    return wide, compile_normalised(pattern) if reading.slashes and "\\" in pattern else wide

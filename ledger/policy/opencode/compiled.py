"""Compiled rules and grants: the last rule that matches a permission and a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from ledger.core.indexed_grants import IndexedGrants
from ledger.core.policy import Grant, Rule, RuleRef, Verdict
from ledger.policy.matching.overlap import is_glob, wildcard_meets
from ledger.policy.matching.wildcard import Matcher, compile_normalised, normalise
from ledger.policy.rule_index import RuleIndex

_PERMISSIONS_KEPT_MAX: Final = 256


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

    @property
    def text(self) -> str:
        return self.spelt["pattern"]

    @property
    def catches_all(self) -> bool:
        return not self.text.strip("*")


class CompiledGrant(NamedTuple):
    """A compiled grant of the permission at hand; fields as in `CompiledRule`."""

    grant_id: str
    pattern: Matcher
    narrow: Matcher
    text: str


class PermissionRules:
    """The rules of one permission, the last one first, indexed by a text that every match contains."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.all = tuple(rules)
        self._index = RuleIndex([normalise(rule.text) for rule in self.all])

    @cached_property
    def restricting(self) -> tuple[str, ...]:
        """Return the patterns of the rules that deny or ask, without catch-alls."""
        return tuple(rule.text for rule in self.all if rule.action is not Verdict.ALLOW and not rule.catches_all)

    @cached_property
    def caseless(self) -> PermissionRules:
        """Return the same rules for texts in lower case."""
        return PermissionRules(tuple(map(_folded, self.all)))

    def about(self, value: str) -> Iterator[CompiledRule]:
        """Yield the rules that may match a normalised text, usually few of them."""
        return map(self.all.__getitem__, self._index.candidates(value))


class CompiledRules:
    """Rules by permission."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._last_first = tuple(map(_compile, reversed(rules)))
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

    def of(self, permission: str) -> PermissionRules:
        """Return the rules whose permission matches."""
        found = self._by_permission.get(permission)
        if found is None:
            name = normalise(permission)
            found = PermissionRules([rule for rule in self._last_first if rule.permission(name)])
            if len(self._by_permission) < _PERMISSIONS_KEPT_MAX:
                self._by_permission[permission] = found
        return found


class CompiledGrants:
    """The grants of a call for one permission, compiled where a text asks for them."""

    def __init__(self, grants: Sequence[Grant], permission: str) -> None:
        self._grants, self._permission = grants, permission
        self._all = () if isinstance(grants, IndexedGrants) else compile_grants(grants, permission)
        self._about: dict[tuple[str, ...], tuple[CompiledGrant, ...]] = {}

    def about(self, *texts: str) -> tuple[CompiledGrant, ...]:
        """Return the grants that may match one of these texts, in order."""
        if not isinstance(self._grants, IndexedGrants):
            return self._all
        found = self._about.get(texts)
        if found is None:
            found = self._about[texts] = compile_grants(self._grants.about(texts), self._permission)
        return found


def compile_grants(grants: Iterable[Grant], permission: str) -> tuple[CompiledGrant, ...]:
    """Return the grants whose permission matches, in the order given."""
    name = normalise(permission)
    return tuple(
        CompiledGrant(grant.grant_id, *_matchers(grant.pattern), grant.pattern)
        for grant in grants
        if grant.permission == permission or compile_normalised(normalise(grant.permission))(name)
    )


def last_match(text: str, rules: PermissionRules) -> CompiledRule | None:
    """Return the rule that decides about a text."""
    value = normalise(text)
    for rule in rules.about(value):
        if rule.pattern(value):
            return rule
    return None


def is_restricted_apart(rule: CompiledRule | None, permission: str) -> bool:
    """Return whether a rule asks or denies, and is not about this permission."""
    return rule is not None and rule.action is not Verdict.ALLOW and not rule.permission(permission)


def last_narrow_match(text: str, shown: str, rules: PermissionRules) -> CompiledRule | None:
    """Return the rule that decides; an allow counts only if it matches `shown`, in which quoted blanks are replaced."""
    value = normalise(text)
    for rule in rules.about(value):
        if rule.narrow(shown) if rule.action is Verdict.ALLOW else rule.pattern(value):
            return rule
    return None


def restricting(text: str, rules: PermissionRules) -> CompiledRule | None:
    """Return the rule, no catch-all, that asks about a text or denies it, in its own case or ignoring case.

    `text` may be a shell glob: then each rule that it may match counts, unless a later one allows everything.
    """
    for value, known in ((text, rules), (text.casefold(), rules.caseless)):
        rule = last_match(value, known)
        if rule is not None and rule.action is not Verdict.ALLOW and not rule.catches_all:
            return rule
    return next(_meeting(normalise(text.casefold()), rules.caseless), None) if is_glob(text) else None


def _meeting(value: str, rules: PermissionRules) -> Iterator[CompiledRule]:
    for rule in rules.all:
        if rule.catches_all and rule.action is Verdict.ALLOW:
            return
        if rule.action is not Verdict.ALLOW and not rule.catches_all and wildcard_meets(normalise(rule.text), value):
            yield rule


def _folded(rule: CompiledRule) -> CompiledRule:
    pattern = rule.text.casefold()
    return rule._replace(pattern=compile_normalised(normalise(pattern)), spelt={**rule.spelt, "pattern": pattern})


def _compile(rule: Rule) -> CompiledRule:
    ref = RuleRef(f"{rule.permission} {rule.pattern} {rule.action.value}", rule.layer, rule.file, rule.line)
    spelt = {"permission": rule.permission, "pattern": rule.pattern, "action": rule.action.value}
    permission = compile_normalised(normalise(rule.permission))
    return CompiledRule(permission, *_matchers(rule.pattern), rule.action, (ref,), spelt)


def _matchers(pattern: str) -> tuple[Callable[[str], bool], Callable[[str], bool]]:
    wide = compile_normalised(normalise(pattern))
    return wide, compile_normalised(pattern) if "\\" in pattern else wide

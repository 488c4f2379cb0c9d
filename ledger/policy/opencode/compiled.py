"""Rules and grants, compiled: the last rule that matches, for a permission and a text."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from ledger.core.policy import Grant, Rule, RuleRef, Verdict
from ledger.policy.meeting import is_glob, wildcard_meets
from ledger.policy.rule_index import RuleIndex
from ledger.policy.wildcard import Matcher, compile_normalised, normalise

_PERMISSIONS_KEPT_MAX: Final = 256


class CompiledRule(NamedTuple):
    r"""A rule that is ready to match.

    `pattern` and `permission` take normalised text. `narrow` takes text as it is written, with `\` apart from `/`:
    the reading that an allow of the hardened profile needs.
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
    """A grant of the permission at hand; as `CompiledRule`."""

    grant_id: str
    pattern: Matcher
    narrow: Matcher
    text: str


class PermissionRules:
    """The rules of one permission, the last one first, found by what a text must hold for them to match."""

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self.all = tuple(rules)
        self._index = RuleIndex([normalise(rule.text) for rule in self.all])

    @cached_property
    def restricting(self) -> tuple[str, ...]:
        """The patterns of the rules that deny or ask, and are not for everything."""
        return tuple(rule.text for rule in self.all if rule.action is not Verdict.ALLOW and not rule.catches_all)

    @cached_property
    def caseless(self) -> PermissionRules:
        """The same rules for texts in lower case."""
        return PermissionRules(tuple(map(_folded, self.all)))

    def about(self, value: str) -> Iterator[CompiledRule]:
        """Those that may match a normalised text, which is most often few of them."""
        return map(self.all.__getitem__, self._index.candidates(value))


class CompiledRules:
    """Rules by permission."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._last_first = tuple(map(_compile, reversed(rules)))
        self._by_permission: dict[str, PermissionRules] = {}

    @cached_property
    def allow_everything(self) -> bool:
        """Whether no ask and no deny stands behind an allow of every permission and every pattern."""
        for rule in self._last_first:
            if rule.action is not Verdict.ALLOW:
                return False
            if rule.spelt["permission"] == "*" and rule.text == "*":
                return True
        return False

    def of(self, permission: str) -> PermissionRules:
        """The rules whose permission matches."""
        found = self._by_permission.get(permission)
        if found is None:
            name = normalise(permission)
            found = PermissionRules([rule for rule in self._last_first if rule.permission(name)])
            if len(self._by_permission) < _PERMISSIONS_KEPT_MAX:
                self._by_permission[permission] = found
        return found


def compile_grants(grants: Iterable[Grant], permission: str) -> tuple[CompiledGrant, ...]:
    """The grants whose permission matches, in the order given."""
    name = normalise(permission)
    return tuple(
        CompiledGrant(grant.grant_id, *_matchers(grant.pattern), grant.pattern)
        for grant in grants
        if grant.permission == permission or compile_normalised(normalise(grant.permission))(name)
    )


def last_match(text: str, rules: PermissionRules) -> CompiledRule | None:
    """The rule that decides about a text."""
    value = normalise(text)
    for rule in rules.about(value):
        if rule.pattern(value):
            return rule
    return None


def last_narrow_match(text: str, shown: str, rules: PermissionRules) -> CompiledRule | None:
    """As `last_match`, but an allow counts only if it matches `shown`, in which what a quote hides is hidden."""
    value = normalise(text)
    for rule in rules.about(value):
        if rule.narrow(shown) if rule.action is Verdict.ALLOW else rule.pattern(value):
            return rule
    return None


def restricting(text: str, rules: PermissionRules) -> CompiledRule | None:
    """The rule, not one about everything, that asks about a text or denies it, in its own case or another.

    `text` may be a glob of the shell: then every rule counts that it may meet, unless a later one allows everything.
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

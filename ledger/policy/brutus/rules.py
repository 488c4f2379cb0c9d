"""BRUTUS's rules: sorted by permission, the last match decides (brutus.md, "Wildcard Matching")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from msgspec.structs import replace

from ledger.core.indexed_grants import IndexedGrants
from ledger.core.policy import Grant, Layer, Rule, RuleRef, Verdict
from ledger.policy.checks import RuleOrigin, as_rules, check_action, check_pattern, check_permission, origin_of, shown
from ledger.policy.config import drop_allows
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import JsonKeys
from ledger.policy.limits import LAYER_COUNT, RULE_COUNT
from ledger.policy.matching.wildcard import Matcher, compile_wildcard

_PATTERNS_MAX: Final = 4_096

Key = tuple[int, bytes]


class Compiled(NamedTuple):
    """A compiled rule. `key` is its sort key; of equal keys the later rule counts."""

    rule: Rule
    key: Key
    permission: Matcher
    pattern: Matcher
    refs: tuple[RuleRef, ...]

    @property
    def action(self) -> Verdict:
        return self.rule.action

    @property
    def catch_all(self) -> bool:
        return not self.rule.pattern.strip("*")


def sort_key(permission: str) -> Key:
    """Return the sort key of a permission: shorter ones first, then by bytes. The length is in bytes, as in Go."""
    data = permission.encode("utf-8", "surrogatepass")
    return len(data), data


def matcher(pattern: str) -> Matcher:
    r"""Compile a wildcard that keeps `\` apart from `/`, and that matches no line end, like Go's `.`."""
    return compile_wildcard(pattern, slashes=False, dot_all=False)


@lru_cache(maxsize=_PATTERNS_MAX)
def caseless(pattern: str) -> Matcher:
    """Return the matcher of a pattern for texts in lower case."""
    return matcher(pattern.casefold())


def compile_rule(rule: Rule) -> Compiled:
    ref = RuleRef(f"{rule.permission} {rule.pattern} {rule.action.value}", rule.layer, rule.file, rule.line)
    return Compiled(rule, sort_key(rule.permission), matcher(rule.permission), matcher(rule.pattern), (ref,))


class Approvals:
    """Approvals as allow rules for one permission, placed behind all configured rules before sorting."""

    def __init__(self, grants: Sequence[Grant], permission: str) -> None:
        self._grants, self._permission = grants, permission
        self._all = [] if isinstance(grants, IndexedGrants) else self._compiled(grants)
        self._about: dict[str, list[tuple[str, Compiled]]] = {}

    def about(self, text: str) -> list[tuple[str, Compiled]]:
        """Return the approvals that may match a text, with their ids, in order."""
        if not isinstance(self._grants, IndexedGrants):
            return self._all
        found = self._about.get(text)
        if found is None:
            found = self._about[text] = self._compiled(self._grants.about((text,)))
        return found

    def _compiled(self, grants: Sequence[Grant]) -> list[tuple[str, Compiled]]:
        rules = ((one.grant_id, compile_rule(Rule(one.permission, one.pattern, Verdict.ALLOW))) for one in grants)
        return [(grant_id, rule) for grant_id, rule in rules if rule.permission(self._permission)]


def read_layers(layers: tuple[Layer, ...]) -> tuple[Rule, ...]:
    """Return the rules of all layers, lowest first, each layer's in the order of its file. Raises PolicyError.

    A layer that is not trusted gives no allow rules.
    """
    if len(layers) > LAYER_COUNT:
        raise PolicyError(f"the policy has {len(layers)} layers; at most {LAYER_COUNT} are accepted")
    rules: list[Rule] = []
    for layer in layers:
        origin = origin_of(layer)
        if layer.config is not None and layer.rules:
            raise origin.problem("a layer holds either a configuration or rules, not both", ())
        if layer.config is not None:
            own = _read_config(layer.config, origin)
        else:
            own = tuple(rule if rule.layer else _placed(rule, layer) for rule in as_rules(layer.rules, origin))
        rules += own if layer.trusted else drop_allows(own)
    if len(rules) > RULE_COUNT:
        raise PolicyError(f"the policy has {len(rules)} rules; at most {RULE_COUNT} are accepted")
    return tuple(rules)


def _placed(rule: Rule, layer: Layer) -> Rule:
    return replace(rule, layer=layer.name, file=rule.file or layer.file)


def _read_config(config: object, origin: RuleOrigin) -> tuple[Rule, ...]:
    """Check `{"permission": {name: action or {pattern: action}}}` (brutus.md, "Configuration Loading").

    A `~` in a pattern is literal.
    """
    if not isinstance(config, Mapping):
        raise origin.problem(f"a configuration is an object with `permission`, not {shown(config)}", ())
    section = config.get("permission", {})
    if not isinstance(section, Mapping):
        raise origin.problem(f"`permission` must be an object, not {shown(section)}", ("permission",))
    rules: list[Rule] = []
    for permission, value in section.items():
        keys: JsonKeys = ("permission", permission)
        name = check_permission(permission, origin, keys)
        patterns, nested = (value, True) if isinstance(value, Mapping) else ({"*": value}, False)
        for pattern, action in patterns.items():
            where: JsonKeys = (*keys, pattern) if nested else keys
            what = f"the action of {shown(permission)}" + (f" for {shown(pattern)}" if nested else "")
            text = check_pattern(pattern, origin, where)
            verdict = check_action(action, what, origin, where)
            rules.append(Rule(name, text, verdict, origin.layer, origin.file, origin.line(where)))
    return tuple(rules)

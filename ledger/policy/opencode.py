"""The dialect of OpenCode: permission and pattern rules, the last match decides (opencode.md, opencode-zh.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar

from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.model import Call, Evaluation, Grant, Part, PolicySource, Rule, RuleRef, Verdict, strictest
from ledger.policy.opencode_layers import Order, configured_rules
from ledger.policy.rules import disabled
from ledger.policy.wildcard import Matcher, compile_normalised, normalise

Edition = Literal["current", "opencode.md"]
Compat = Literal["v1", "v2"]

_OPTIONS: Final = ("edition", "order", "compat", "agent", "home")
_EDITIONS: Final[tuple[Edition, ...]] = ("current", "opencode.md")
_ORDERS: Final[tuple[Order, ...]] = ("insertion", "key-length")
_COMPATS: Final[tuple[Compat, ...]] = ("v1", "v2")

_DENIED: Final[dict[Edition, str]] = {
    "current": (
        "The user has specified a rule which prevents you from using this specific tool call. "
        "Here are some of the relevant rules {}"
    ),
    "opencode.md": "Rule prevents this tool call: {}",
}

_stringify: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
"""JSON exactly as JavaScript's JSON.stringify writes it."""


class _Options(NamedTuple):
    edition: Edition
    order: Order
    compat: Compat
    agent: str | None
    home: str | None


class _Compiled(NamedTuple):
    permission: Matcher
    pattern: Matcher
    action: Verdict
    refs: tuple[RuleRef, ...]
    spelt: dict[str, str]


class OpenCodePolicy:
    """Rules of OpenCode, compiled.

    Options: `edition` (`current`, or `opencode.md` with that page's order and texts), `order` (`insertion` or
    `key-length`; the edition's own unless given), `compat` (`v2`: a configured deny is final, a grant lifts an ask;
    `v1`: grants are the last rules of all and lift a deny too), `agent` (whose section counts), `home`. Raises
    PolicyError for any other option and for anything misshapen.
    """

    def __init__(self, source: PolicySource) -> None:
        options = _read_options(source.options)
        self._source = source
        self._denied_text = _DENIED[options.edition]
        self._grants_lift_denies = options.compat == "v1"
        self._rules = configured_rules(source.layers, agent=options.agent, home=options.home, order=options.order)
        self._last_first = tuple(map(_compile, reversed(self._rules)))

    @property
    def source(self) -> PolicySource:
        return self._source

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The configured rules in force, in the order in which the last match is sought."""
        return self._rules

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Judge every pattern by itself; the strictest verdict counts (opencode.md "Rule Evaluation Algorithm").

        Unlike opencode-zh.md 5.1, a pattern that asks does not keep a later one from denying.
        """
        if not call.patterns:
            return _without_patterns(call)
        permission = normalise(call.permission)
        candidates = [rule for rule in self._last_first if rule.permission(permission)]
        found = [(text, _last_match(text, candidates)) for text in call.patterns]
        asked = any(self._liftable(rule) and (rule is None or rule.action is not Verdict.ALLOW) for _, rule in found)
        lifting = _compile_grants(grants, permission) if asked else ()
        parts = tuple(self._part(text, rule, lifting) for text, rule in found)
        verdict = strictest(part.verdict for part in parts)
        return Evaluation(
            verdict,
            parts,
            tuple(dict.fromkeys(ref for part in parts if part.verdict is verdict for ref in part.rules)),
            self._denial(candidates) if verdict is Verdict.DENY else None,
            _reason(verdict, parts),
        )

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        """Whether a grant turns a part that was recorded as ask into an allow."""
        return (
            part.liftable
            and _matches(grant.permission, normalise(permission))
            and _matches(grant.pattern, normalise(part.text))
        )

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """The tools that are wholly denied by the configured rules (opencode-zh.md 9.4)."""
        return disabled(tools, self._rules)

    def _liftable(self, rule: _Compiled | None) -> bool:
        return self._grants_lift_denies or rule is None or rule.action is not Verdict.DENY

    def _part(self, text: str, rule: _Compiled | None, lifting: Sequence[tuple[str, Matcher]]) -> Part:
        liftable = self._liftable(rule)
        if rule is not None and (rule.action is Verdict.ALLOW or not liftable):
            return Part(text, rule.action, rule.refs, liftable)
        if lifting:
            value = normalise(text)
            if lifted := tuple(grant_id for grant_id, matches in lifting if matches(value)):
                return Part(text, Verdict.ALLOW, (), liftable, lifted)
        return Part(text, rule.action, rule.refs, liftable) if rule else Part(text, Verdict.ASK)

    def _denial(self, candidates: list[_Compiled]) -> str:
        """What OpenCode tells the agent: the configured rules of this permission, in order."""
        return self._denied_text.format(_stringify([compiled.spelt for compiled in reversed(candidates)]))


def _compile(rule: Rule) -> _Compiled:
    ref = RuleRef(f"{rule.permission} {rule.pattern} {rule.action.value}", rule.layer, rule.file, rule.line)
    permission, pattern = (compile_normalised(normalise(side)) for side in (rule.permission, rule.pattern))
    spelt = {"permission": rule.permission, "pattern": rule.pattern, "action": rule.action.value}
    return _Compiled(permission, pattern, rule.action, (ref,), spelt)


def _compile_grants(grants: Sequence[Grant], permission: str) -> list[tuple[str, Matcher]]:
    return [
        (grant.grant_id, compile_normalised(normalise(grant.pattern)))
        for grant in grants
        if grant.permission == permission or _matches(grant.permission, permission)
    ]


def _last_match(text: str, candidates: list[_Compiled]) -> _Compiled | None:
    value = normalise(text)
    for rule in candidates:
        if rule.pattern(value):
            return rule
    return None


def _matches(pattern: str, value: str) -> bool:
    return compile_normalised(normalise(pattern))(value)


def _without_patterns(call: Call) -> Evaluation:
    if call.tool_name is None:
        return Evaluation(Verdict.ALLOW, reason="the call names no pattern, so there is nothing to judge")
    # Fail closed: what a tool's input does is not known as long as nobody derives patterns from it.
    reason = f"no patterns were derived from the input of {shown(call.tool_name)}, so a person must look at it"
    part = Part(call.tool_name, Verdict.ASK, liftable=False)
    return Evaluation(Verdict.ASK, (part,), reason=reason)


def _reason(verdict: Verdict, parts: tuple[Part, ...]) -> str | None:
    deciding = [part for part in parts if part.verdict is verdict]
    if any(part.grants for part in deciding):
        return "allowed by a grant in force"
    if any(not part.rules for part in deciding):
        return "no rule matches, and the default is ask"
    return None


_Choice = TypeVar("_Choice", bound=str)


def _read_options(options: Mapping[str, Any]) -> _Options:
    for name in options:
        if name not in _OPTIONS:
            known = ", ".join(_OPTIONS)
            raise PolicyError(f"the opencode dialect has no option {shown(name)}; it has {known}", key=name)
    edition = _choice(options, "edition", _EDITIONS, "current")
    return _Options(
        edition=edition,
        order=_choice(options, "order", _ORDERS, "insertion" if edition == "current" else "key-length"),
        compat=_choice(options, "compat", _COMPATS, "v2"),
        agent=_text(options, "agent"),
        home=_text(options, "home"),
    )


def _choice(options: Mapping[str, Any], name: str, known: tuple[_Choice, ...], default: _Choice) -> _Choice:
    value = options.get(name)
    if value is None:
        return default
    for choice in known:
        if choice == value:
            return choice
    wanted = " or ".join(f"`{choice}`" for choice in known)
    raise PolicyError(f"the option `{name}` must be {wanted}, not {shown(value)}", key=name)


def _text(options: Mapping[str, Any], name: str) -> str | None:
    value = options.get(name)
    if value is None or (isinstance(value, str) and value):
        return value
    raise PolicyError(f"the option `{name}` must be a string that is not empty, not {shown(value)}", key=name)

"""Advice on changing the verdict on one call: a rule for exactly that call, which never lifts a deny. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import msgspec

from ledger.core.policy import Call, Layer, Policy, PolicySource, Rule, RuleRef, Verdict, strictest
from ledger.policy.check_questions import JudgedCall
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import dialect_of, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.exactly import named_call, named_whole
from ledger.policy.matching.overlap import wildcards_meet
from ledger.policy.named_entries import NamedEntry
from ledger.policy.offers import offers
from ledger.policy.rule_list import WHOLE, ListedRule
from ledger.policy.rule_reach import also_allowed

Compile = Callable[[PolicySource], Policy]
"""A function that compiles a policy with the same facts about files."""

PROBED_COUNT: Final = 200
"""Configured rules, at most, whose example calls are judged again before a rule is suggested."""

_ONCE: Final = "a person may answer `once`"


class Fix(msgspec.Struct, frozen=True):
    """One way to get another verdict. `config` is to be added above all other layers; None where only `text` tells it.

    `lets_through` are other commands that the advised allow also allows, as far as they were tried.
    """

    verdict: Verdict
    text: str
    config: dict[str, Any] | None = None
    lets_through: tuple[str, ...] = ()


def advise(policy: Policy, call: Call, judged: JudgedCall, compile_again: Compile) -> Iterator[Fix]:
    """Yield the ways to another verdict. Every fix with a configuration was tried and leads to its verdict."""
    if judged.verdict is Verdict.DENY:
        yield Fix(Verdict.ASK, f"{_denied(judged)}; no rule is suggested that would lift a deny")
        return
    adviser = _Adviser(policy, call, judged, compile_again)
    if judged.verdict is Verdict.ASK:
        yield adviser.allowing()
    yield from adviser.denying()


def _denied(judged: JudgedCall) -> str:
    if not judged.rules:
        return f"it is denied because {judged.reason}" if judged.reason else "it is denied"
    return f"it is denied by {' and '.join(map(placed, judged.rules))}"


def placed(rule: RuleRef) -> str:
    """Return a rule with its file and line, or its layer, as far as they are known."""
    where = (
        f"{rule.file}:{rule.line}" if rule.file and rule.line else rule.file or (rule.layer and f"layer {rule.layer}")
    )
    return f"`{rule.text}` ({where})" if where else f"`{rule.text}`"


class _Adviser:
    """The search for a rule about one call."""

    def __init__(self, policy: Policy, call: Call, judged: JudgedCall, compile_again: Compile) -> None:
        self.policy, self.source, self.call, self.judged = policy, policy.source, call, judged
        self.dialect = dialect_of(policy.source)
        self.compile_again = compile_again
        self.rules = listed_rules(policy)
        self.own = {(part.text,) for found in judged.all for part in found.parts} | {call.patterns}
        alone = (Call(call.permission, texts) for texts in self.own if texts)
        probes = (*_probes(self.dialect, self.rules), *alone)
        self.probes = [(one, JudgedCall(policy, one).verdict) for one in probes]

    # --- to allow

    def allowing(self) -> Fix:
        named = named_call(self.dialect, self.call, self.judged)
        after, config = self._tried(named, Verdict.ALLOW)
        wider = next((one.because for one in named if one.because), None)
        if wider is not None:
            return self._kind() or self._refusal(wider if after is Verdict.ALLOW else self._why_not(named))
        if after is Verdict.ALLOW:
            return self._allow(f"to allow it, add{self._below()}", config)
        return self._last(named) or self._refusal(self._why_not(named))

    def _allow(self, text: str, config: dict[str, Any]) -> Fix:
        """Return the fix, with the other commands that it allows."""
        policy = self._with(self._layer(config))
        more = () if policy is None else also_allowed(self.policy, policy, self.call)
        return Fix(Verdict.ALLOW, text, config, more)

    def _kind(self) -> Fix | None:
        """Return a fix for the family of a command that no rule names alone; None if it loosens a deny or an ask."""
        if self.judged.first or self.call.permission != self.dialect.language.shell:
            return None
        kinds = [one for one in offers(self.policy, self.call, self.judged.own) if one.reach == "kind" and not one.wide]
        named = [
            NamedEntry(self.call.permission, entry) for one in kinds[:1] if not one.still_asked for entry in one.entries
        ]
        if not named or (self.dialect.language.last_match and any(self._meets(one.entry) for one in named)):
            return None
        after, config = self._tried(named, Verdict.ALLOW)
        if after is not Verdict.ALLOW:
            return None
        return self._allow(f"to allow it and others of its kind, add{self._below()}", config)

    def _meets(self, entry: str) -> bool:
        """Return whether a later allow might lift a rule that restricts commands."""
        return any(
            rule.action is not Verdict.ALLOW
            and rule.pattern != WHOLE
            and rule.permission in (self.call.permission, WHOLE)
            and wildcards_meet(entry, rule.pattern)
            for rule in self.rules
        )

    def _below(self) -> str:
        """Return the position of the new rule in a file whose order decides."""
        rules = self.judged.rules
        if not self.dialect.language.last_match or not rules or self.source.options.get("order") == "key-length":
            return ""
        own = {self.call.permission, *(call.permission for call, _ in self.judged.first)}
        above = [
            rule for rule in rules if not self.dialect.language.sorts_permissions or rule.text.split(" ")[0] in own
        ]
        return f" below {placed(above[-1])}" if above else ""

    def _last(self, named: Sequence[NamedEntry]) -> Fix | None:
        """Return a fix that writes the same rules behind all others.

        Needed because a known key of a file keeps its position, and the section of an agent is read later.
        """
        if not self.dialect.language.last_match:
            return None
        written = {(rule.permission, rule.pattern) for rule in self.rules if rule.action is Verdict.DENY}
        rules = tuple(Rule(one.permission, one.entry, Verdict.ALLOW) for one in named)
        policy = self._with(Layer("suggested", rules=rules))
        if policy is None or any((one.permission, one.pattern) in written for one in rules):
            return None
        if not self._loosens_nothing(policy) or JudgedCall(policy, self.call).verdict is not Verdict.ALLOW:
            return None
        texts = " and ".join(f'`{json.dumps(one.entry)}: "allow"` under `{one.permission}`' for one in named)
        where = placed(self.judged.rules[-1]) if self.judged.rules else "all other rules"
        return Fix(Verdict.ALLOW, f"to allow it, write {texts} below {where}, and nowhere above: the last match wins")

    def _why_not(self, named: Sequence[NamedEntry]) -> str:
        """Return the obstacle that remains with the narrowest rules, or their side effect."""
        policy = self._with(self._layer(self._config(named, Verdict.ALLOW)))
        after = self.judged if policy is None else JudgedCall(policy, self.call)
        if after.rules:
            return f"{placed(after.rules[0])} comes before it"
        return after.reason or self.judged.reason or "no rule for exactly this call is honoured"

    def _refusal(self, because: str) -> Fix:
        return Fix(Verdict.ALLOW, f"no rule allows it, because {because}; {_ONCE}")

    # --- to deny

    def denying(self) -> Iterator[Fix]:
        named = named_whole(self.dialect, self.call, self.judged)
        after, config = self._tried(named, Verdict.DENY)
        if after is Verdict.DENY:
            wider = next((one.because for one in named if one.because), None)
            yield Fix(Verdict.DENY, "to deny it, add" if wider is None else f"to deny it ({wider}), add", config)

    # --- both

    def _tried(self, named: Sequence[NamedEntry], action: Verdict) -> tuple[Verdict | None, dict[str, Any]]:
        """Return the verdict with these entries; None if they cannot be written or loosen another verdict."""
        config = self._config(named, action)
        policy = self._with(self._layer(config))
        if policy is None or not named or not self._loosens_nothing(policy):
            return None, config
        return JudgedCall(policy, self.call).verdict, config

    def _config(self, named: Sequence[NamedEntry], action: Verdict) -> dict[str, Any]:
        return self.dialect.notation.config([(one.permission, one.entry) for one in named], action, self.source.layers)

    def _layer(self, config: dict[str, Any]) -> Layer:
        return Layer(self.dialect.language.suggested_layer, config=config)

    def _with(self, layer: Layer) -> Policy | None:
        try:
            return self.compile_again(msgspec.structs.replace(self.source, layers=(*self.source.layers, layer)))
        except PolicyError:
            return None

    def _loosens_nothing(self, policy: Policy) -> bool:
        """Return whether the example calls of all configured rules are judged at least as strictly as before.

        The call's own parts are excepted unless one is denied by itself: BRUTUS asks about a line before it reaches a
        later part that it denies.
        """
        return all(
            strictest((before, after)) is after
            for probe, before in self.probes
            if before is Verdict.DENY or probe.patterns not in self.own
            for after in (JudgedCall(policy, probe).verdict,)
        )


def _probes(dialect: Dialect, rules: Sequence[ListedRule]) -> Iterator[Call]:
    """Yield example calls for each configured rule."""
    for rule in rules[:PROBED_COUNT]:
        name = dialect.language.shell if rule.permission == "*" else rule.permission.replace("*", "x").replace("?", "x")
        plain = rule.pattern.removesuffix(":*").replace("*", "x").replace("?", "x")
        yield from (Call(name, (text,)) for text in (plain, f"{plain} x"))

"""Demands on the answer to a call, stated by the rules that judge it, and the same as sentences for people. Pure.

A file of any dialect may hold them beside its rules, in the member `demands`: a list of
`{"permission", "pattern", "not_by", "answer_by", …}`. They match widely, like a deny: one matching text of the call is
enough. A demand never loosens anything, and no later rule, grant or decider lifts it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, get_args

import msgspec
from msgspec.structs import replace

from ledger.core.limits import NAME_LENGTH_CHARS
from ledger.core.policy import EFFECTS, Call, Demand, DemandRule, Layer, Policy, PolicySource, ReplyKind, demand_rules
from ledger.policy.checks import NOWHERE, RULE_COUNT, RuleOrigin, check_pattern, check_permission, shown
from ledger.policy.jsonc import JsonKeys
from ledger.policy.matching import match

MEMBER: Final = "demands"
PASSKEY: Final = "passkey"

GRANT_MAKING: Final = frozenset({"session", "always"})
"""The replies that make grants. A demand that names one of them binds both; else the other would be a way around it."""

_ON_ANSWERS: Final = ("not_by", "answer_by", "approvers")
_CONDITIONS: Final = (*_ON_ANSWERS, "action")

AMONG_COUNT: Final = 100
"""The most names in `among`."""

_DEMAND_MEMBERS: Final = Demand.__struct_fields__
_LINES: Final = ("command", "cmd")
_SHELLS: Final = ("bash", "shell")
_MEMBERS: Final = DemandRule.__struct_fields__


def demands_on(policy: Policy, call: Call) -> tuple[Demand, ...]:
    """Return the demands on an answer to this call, each once."""
    made_out: tuple[DemandRule, ...] | None = getattr(policy, "demands", None)
    return demands_met(demand_rules(policy.source) if made_out is None else made_out, call)


def demands_met(rules: Collection[DemandRule], call: Call) -> tuple[Demand, ...]:
    """Return those of these demands that a call meets, each once."""
    if not rules:
        return ()
    answers = [rule for rule in rules if any(getattr(rule, name) is not None for name in _ON_ANSWERS)]
    return tuple(dict.fromkeys(_bare(rule) for rule in rules_about(answers, call)))


def rules_about(rules: Collection[DemandRule], call: Call) -> list[DemandRule]:
    """Return those of these demands that concern a call."""
    names = [name.casefold() for name in (call.permission, call.tool_name) if name is not None]
    named = [rule for rule in rules if any(match(name, rule.permission.casefold()) for name in names)]
    if any(rule.pattern != "*" for rule in named):
        about = _About(call)
        named = [rule for rule in named if about.fits(rule.pattern)]
    if any(rule.dangerous for rule in named):
        # With the analysis of shell lines it takes long to import, and few rules demand this.
        from ledger.policy.danger import is_dangerous  # noqa: PLC0415

        named = [rule for rule in named if not rule.dangerous or is_dangerous(call)]
    if any(rule.effect is not None for rule in named):
        from ledger.policy.effects import effect_of  # noqa: PLC0415 - as above

        worst = EFFECTS.index(effect_of(call))
        named = [rule for rule in named if rule.effect is None or EFFECTS.index(rule.effect) <= worst]
    return named


def with_demands(source: PolicySource, demands: Iterable[DemandRule | Mapping[str, Any]]) -> PolicySource:
    """Return a policy with these demands added to its own. Raises PolicyError."""
    if isinstance(demands, Mapping | str):
        raise NOWHERE.problem(f"`{MEMBER}` must be a list of demands, not {shown(demands)}", (MEMBER,))
    given = [
        _checked(one) if isinstance(one, DemandRule) else _read(one, NOWHERE, (MEMBER, at))
        for at, one in enumerate(demands)
    ]
    known = demand_rules(source)
    lacking = tuple(demand for demand in dict.fromkeys(given) if demand not in known)
    return replace(source, layers=(*source.layers, Layer(MEMBER, demands=lacking))) if lacking else source


def _checked(rule: DemandRule) -> DemandRule:
    _check_approvers(rule, NOWHERE, (MEMBER,))
    return rule


def concerns(demand: Demand, reply: str, role: str | None = None) -> bool:
    """Return whether a demand binds this reply by a person of this role; an unknown role counts as every role."""
    if demand.roles and role is not None and role not in demand.roles:
        return False
    if not demand.replies or reply in demand.replies:
        return True
    return reply in GRANT_MAKING and not GRANT_MAKING.isdisjoint(demand.replies)


def asks_passkey(demands: Iterable[Demand], reply: str, role: str | None = None) -> bool:
    """Return whether this reply must be signed with a passkey."""
    return any(demand.answer_by == PASSKEY and concerns(demand, reply, role) for demand in demands)


def asks_signed_grants(demands: Iterable[Demand], role: str | None = None) -> bool:
    """Return whether only grants that a passkey signed count for a call."""
    return asks_passkey(demands, "always", role)


def asks_several(demands: Iterable[Demand]) -> bool:
    """Return whether one of the demands is for several approvers, whom no grant, decider or told answer replaces."""
    return any(demand.approvers for demand in demands)


def read_demands(value: object, origin: RuleOrigin = NOWHERE) -> tuple[DemandRule, ...]:
    """Check the member `demands` of a configuration. Raises PolicyError with file and line."""
    if not isinstance(value, list):
        raise origin.problem(f"`{MEMBER}` must be a list of demands, not {shown(value)}", (MEMBER,))
    if len(value) > RULE_COUNT:
        raise origin.problem(f"`{MEMBER}` has {len(value)} entries; at most {RULE_COUNT} are accepted", (MEMBER,))
    return tuple(_read(one, origin, (MEMBER, index)) for index, one in enumerate(value))


def demands_in(config: object, origin: RuleOrigin = NOWHERE) -> tuple[DemandRule, ...]:
    """Return the demands of a configuration; none if it has no such member. Raises PolicyError."""
    if not isinstance(config, Mapping) or MEMBER not in config:
        return ()
    return read_demands(config[MEMBER], origin)


def _read(value: Any, origin: RuleOrigin, keys: JsonKeys) -> DemandRule:
    if not isinstance(value, Mapping):
        raise origin.problem(f"a demand is an object with `permission` and `pattern`, not {shown(value)}", keys)
    for name in value:
        if name not in _MEMBERS:
            known = ", ".join(f"`{one}`" for one in _MEMBERS)
            raise origin.problem(f"a demand has no member {shown(name)}; there are {known}", keys)
    if not any(value.get(name) is not None for name in _CONDITIONS):
        known = " or ".join(f"`{one}`" for one in _CONDITIONS)
        raise origin.problem(f"the demand is empty; give {known}", keys)
    if value.get("effect") not in (None, *EFFECTS):
        known = ", ".join(f"`{one}`" for one in EFFECTS)
        raise origin.problem(f"`effect` is one of {known}, not {shown(value['effect'])}", (*keys, "effect"))
    check_permission(value.get("permission", "*"), origin, (*keys, "permission"))
    check_pattern(value.get("pattern", "*"), origin, (*keys, "pattern"))
    try:
        rule = msgspec.convert(value, DemandRule)
    except msgspec.ValidationError as error:
        raise origin.problem(f"the demand cannot be read: {error}", keys) from error
    _check_approvers(rule, origin, keys)
    return rule


def _check_approvers(rule: DemandRule, origin: RuleOrigin, keys: JsonKeys) -> None:
    """Raise PolicyError for members that do not go together with `approvers`, or without it."""
    if rule.approvers is None:
        if rule.among:
            raise origin.problem("`among` goes with `approvers`, the number of people; give both", (*keys, "among"))
        return
    for name in ("replies", "roles"):
        if getattr(rule, name):
            raise origin.problem(
                f"`approvers` concerns every yes, so a demand has no `{name}` beside it; write another demand for that",
                (*keys, name),
            )
    if len(rule.among) > AMONG_COUNT:
        raise origin.problem(f"`among` names {len(rule.among)} people; at most {AMONG_COUNT} are accepted", keys)
    for name in rule.among:
        if not name or len(name) > NAME_LENGTH_CHARS or not name.isprintable():
            raise origin.problem(f"`among` has {shown(name)}, which is no name of a person", (*keys, "among"))


class _About:
    """The texts of a call: its patterns, the texts of its input, and every command that it would run, in each spelling.

    A command that cannot be known before it runs matches every pattern.
    """

    def __init__(self, call: Call) -> None:
        given = call.input if isinstance(call.input, Mapping) else {}
        lines = [given[name] for name in _LINES if isinstance(given.get(name), str)]
        if call.permission.casefold() in _SHELLS:
            lines += call.patterns
        self._texts = [*call.patterns, *(text for text in given.values() if isinstance(text, str))]
        self._is_unknown = False
        for line in dict.fromkeys(lines):
            self._read(line)

    def _read(self, line: str) -> None:
        from ledger.policy.shell.analyse import analyse  # noqa: PLC0415 - as above
        from ledger.policy.shell.hardened import spellings  # noqa: PLC0415 - as above

        found = analyse(line)
        self._is_unknown |= found.cut or not found.commands or any(one.name is None for one in found.commands)
        self._texts += [spelling.text for command in found.commands for spelling in spellings(command)]

    def fits(self, pattern: str) -> bool:
        return self._is_unknown or any(match(text, pattern) for text in self._texts)


def _bare(rule: DemandRule) -> Demand:
    return Demand(**{name: getattr(rule, name) for name in _DEMAND_MEMBERS})


def demand_sentences(demands: Iterable[Demand], asking: str) -> tuple[str, ...]:
    """Return demands on an answer, a sentence each; `asking` is in words who asks."""
    return tuple(dict.fromkeys(_sentences(demands, asking)))


def _sentences(demands: Iterable[Demand], asking: str) -> Iterator[str]:
    for demand in demands:
        if demand.answer_by == PASSKEY:
            yield f"{_answers(demand)} must be signed with a passkey, in the inbox"
        if demand.approvers:
            people = f", counting only {_listed(demand.among)}" if demand.among else ""
            yield f"{demand.approvers} people must approve it, none of them {asking}{people}"
        if demand.not_by == "asker":
            yield f"{_answers(demand)} must come from somebody else than {asking}"


def _answers(demand: Demand) -> str:
    replies = [one for one in get_args(ReplyKind) if demand.replies and concerns(demand, one)]
    of = f" of the role {_listed(demand.roles)}" if demand.roles else ""
    what = f"the answer {_listed(replies)}" if replies else "the answer"
    return f"{what} of somebody{of}" if of else what


def _listed(names: Iterable[str]) -> str:
    return " or ".join(f"`{name}`" for name in names)

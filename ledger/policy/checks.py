"""Checks of rules as they are read, and the errors for malformed ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from ledger.core.limits import NAME_LENGTH_CHARS, PATTERN_LENGTH_BYTES
from ledger.core.policy import AnswerBy, Layer, Rule, Verdict
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import JsonKeys, pointer
from ledger.policy.limits import RULE_COUNT

RuleLike = Rule | Mapping[str, Any]
"""A rule, or an object `{permission, pattern, action}` as JSON has it."""

_RULE_KEYS: Final = ("permission", "pattern", "action")
_RULE_DEMANDS: Final = ("answer_by",)
_SHOWN_CHARS: Final = 60


@dataclass(frozen=True)
class RuleOrigin:
    """The source of a configuration: its layer, its file, and the line of each member by JSON pointer."""

    layer: str | None = None
    file: str | None = None
    lines: Mapping[str, int] = field(default_factory=dict)

    def line(self, keys: JsonKeys) -> int | None:
        return self.lines.get(pointer(*keys))

    def problem(self, text: str, keys: JsonKeys) -> PolicyError:
        """Return an error with the file and line, as far as they are known."""
        line = self.line(keys)
        where = f"{shown(self.file)}" if self.file else f"layer {shown(self.layer)}" if self.layer else ""
        if line:
            where += f" line {line}" if where else f"line {line}"
        key = ".".join(map(str, keys)) or None
        known = {"key": key, "layer": self.layer, "file": self.file, "line": line}
        return PolicyError(f"{where}: {text}" if where else text, **{k: v for k, v in known.items() if v is not None})


NOWHERE: Final = RuleOrigin()


def origin_of(layer: Layer) -> RuleOrigin:
    return RuleOrigin(layer.name, layer.file, layer.lines)


def shown(text: object) -> str:
    """Return user text as an error message quotes it: shortened, in backticks."""
    whole = text if isinstance(text, str) else repr(text)
    short = whole if len(whole) <= _SHOWN_CHARS else whole[:_SHOWN_CHARS] + "…"
    return f"`{short if short.isprintable() else ascii(short)[1:-1]}`"


def check_action(value: object, what: str, origin: RuleOrigin, keys: JsonKeys) -> Verdict:
    """Return an action by its name. Raises PolicyError."""
    if not isinstance(value, str) or value not in Verdict.__members__.values():
        raise origin.problem(f"{what} must be `allow`, `ask` or `deny`, not {shown(value)}", keys)
    return Verdict(value)


def check_filled(value: object, key: str) -> str:
    """Check a text that must not be empty, the member `key` of a question. Raises PolicyError."""
    if not isinstance(value, str) or not value:
        raise PolicyError(f"`{key}` must be a string that is not empty, not {shown(value)}", key=key)
    return value


def check_permission(value: object, origin: RuleOrigin, keys: JsonKeys) -> str:
    """Check the permission side of a rule. Raises PolicyError."""
    text = _check_text(value, "a permission", origin, keys)
    if len(text) > NAME_LENGTH_CHARS:
        raise origin.problem(f"the permission {shown(text)} has more than {NAME_LENGTH_CHARS} characters", keys)
    return text


def check_pattern(value: object, origin: RuleOrigin, keys: JsonKeys) -> str:
    """Check the pattern side of a rule. Raises PolicyError."""
    text = _check_text(value, "a pattern", origin, keys)
    if len(text.encode()) > PATTERN_LENGTH_BYTES:
        raise origin.problem(f"the pattern {shown(text)} has more than {PATTERN_LENGTH_BYTES} bytes", keys)
    return text


def _check_text(value: object, what: str, origin: RuleOrigin, keys: JsonKeys) -> str:
    if not isinstance(value, str):
        raise origin.problem(f"{what} must be a string, not {shown(value)}", keys)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise origin.problem(f"{what} {shown(value)} is not valid Unicode", keys) from None
    return value


def as_rules(ruleset: object, origin: RuleOrigin = NOWHERE) -> tuple[Rule, ...]:
    """Check a list of rules. Raises PolicyError with the number of the rule, counted from 1."""
    if not isinstance(ruleset, Collection) or isinstance(ruleset, str | bytes | Mapping):
        kind = type(ruleset).__name__
        raise origin.problem(f"a ruleset must be a list of rules, not {kind}; from_config takes a configuration", ())
    if len(ruleset) > RULE_COUNT:
        raise origin.problem(f"the ruleset has {len(ruleset)} rules; at most {RULE_COUNT} are accepted", ())
    return tuple(_as_rule(rule, index, origin) for index, rule in enumerate(ruleset))


def _as_rule(value: object, index: int, origin: RuleOrigin) -> Rule:
    known = value if isinstance(value, Rule) else None
    members = msgspec.structs.asdict(known) if known else value
    if not isinstance(members, Mapping):
        raise origin.problem(f"rule {index + 1} must be an object with permission, pattern and action", (index,))
    for name in _RULE_KEYS:
        if name not in members:
            raise origin.problem(f"rule {index + 1} has no `{name}`", (index,))
    if known is None and (unknown := [name for name in members if name not in (*_RULE_KEYS, *_RULE_DEMANDS)]):
        raise origin.problem(f"rule {index + 1} has an unknown member {shown(unknown[0])}", (index,))
    permission = check_permission(members["permission"], origin, (index,))
    pattern = check_pattern(members["pattern"], origin, (index,))
    action = check_action(members["action"], f"the action of rule {index + 1}", origin, (index,))
    answer_by = _check_answer_by(members.get("answer_by"), action, index, origin)
    if known is not None:
        return known if known.action is action else msgspec.structs.replace(known, action=action)
    return Rule(permission, pattern, action, origin.layer, origin.file, origin.line((index,)), answer_by)


def _check_answer_by(value: object, action: Verdict, index: int, origin: RuleOrigin) -> AnswerBy | None:
    if value is None:
        return None
    if value != "passkey":
        raise origin.problem(f"`answer_by` of rule {index + 1} must be `passkey`, not {shown(value)}", (index,))
    if action is not Verdict.ASK:
        raise origin.problem(
            f"rule {index + 1} says `{action}`, so nobody answers; `answer_by` goes with `ask`", (index,)
        )
    return "passkey"

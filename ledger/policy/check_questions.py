"""`policy check` questions: their members, parsed and checked, and the answers. Pure; facts about files are passed in."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from ledger.core.policy import Call, Evaluation, Grant, Layer, Part, Policy, PolicySource, RuleRef, Verdict, strictest
from ledger.policy.checks import check_filled, shown
from ledger.policy.demands import demands_in
from ledger.policy.dialect import Dialect
from ledger.policy.dialects import DIALECTS, compile_policy, dialect_of
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts
from ledger.policy.own import guarded

PolicyOptions = Mapping[str, Any]
"""Members of a question by name."""

ASKED: Final = ("id", "tool", "input", "permission", "patterns")
CONFIGURED: Final = ("dialect", "config", "layers", "grants")

_LAYER_MEMBERS: Final = ("name", "config", "trusted")
INLINE: Final = "config"
"""The name of the layer made from a question's `config`."""


@cache
def option_names() -> frozenset[str]:
    """Return the names of the options of all dialects, each of which is imported for that."""
    return frozenset(name for dialect in DIALECTS.values() for name in dialect.language.options)


def source_of(asked: PolicyOptions) -> PolicySource:
    """Return the configuration of a question. Raises PolicyError, also for an unknown member."""
    known = {*ASKED, *CONFIGURED, *option_names()}
    unknown = next((name for name in asked if name not in known), None)
    if unknown is not None:
        raise PolicyError(f"a line has no member {shown(unknown)}", key=str(unknown))
    named = asked.get("dialect")
    dialect = DIALECTS.get(named) if isinstance(named, str) else None
    if dialect is None:
        names = ", ".join(f"`{name}`" for name in sorted(DIALECTS))
        said = "no dialect" if named is None else f"the unknown dialect {shown(named)}"
        raise PolicyError(f"the line has {said}; known are {names}", key="dialect")
    layers = [*_layers(asked.get("layers"))]
    config = asked.get("config")
    if config is not None:
        layers.append(config if isinstance(config, Layer) else Layer(INLINE, config=config, demands=demands_in(config)))
    if denying := dialect.denials(_listed_grants(asked)):
        layers.append(Layer("grants", rules=denying))
    options = {name: asked[name] for name in dialect.language.options if asked.get(name) is not None}
    return PolicySource(dialect.name, tuple(layers), options)


def _layers(value: object) -> Iterable[Layer]:
    if value is None:
        return
    if not isinstance(value, list | tuple):
        raise PolicyError(f"`layers` must be a list, not {shown(value)}", key="layers")
    for index, layer in enumerate(value):
        yield layer if isinstance(layer, Layer) else _layer(layer, index)


def _layer(value: object, index: int) -> Layer:
    if not isinstance(value, Mapping):
        raise PolicyError(f"layer {index + 1} must be an object with `name` and `config`", key="layers")
    unknown = next((name for name in value if name not in _LAYER_MEMBERS), None)
    if unknown is not None:
        raise PolicyError(f"layer {index + 1} has an unknown member {shown(unknown)}", key="layers")
    name, trusted = value.get("name"), value.get("trusted", True)
    if not isinstance(name, str) or not name:
        raise PolicyError(f"layer {index + 1} needs a `name`, not {shown(name)}", key="layers")
    if not isinstance(trusted, bool):
        raise PolicyError(f"`trusted` of layer {shown(name)} must be true or false", key="layers")
    if value.get("config") is None:
        raise PolicyError(f"layer {shown(name)} needs a `config`", key="layers")
    return Layer(name, config=value["config"], trusted=trusted, demands=demands_in(value["config"]))


def call_of(asked: PolicyOptions) -> Call:
    """Return the call of a question: a tool with its input, or a permission with patterns. Raises PolicyError."""
    tool, permission = asked.get("tool"), asked.get("permission")
    if (tool is None) == (permission is None):
        raise PolicyError("a line asks about a `tool` with `input`, or about a `permission` with `patterns`")
    if tool is not None:
        dialect = _dialect(asked)
        name = dialect.known_tool(check_filled(tool, "tool"))
        given = asked.get("input")
        return Call(dialect.permission_of(name), (), name, {} if given is None else given)
    patterns = asked.get("patterns", [])
    if not isinstance(patterns, list | tuple) or not all(isinstance(text, str) for text in patterns):
        raise PolicyError(f"`patterns` must be a list of strings, not {shown(patterns)}", key="patterns")
    return Call(check_filled(permission, "permission"), tuple(patterns))


def _dialect(asked: PolicyOptions) -> Dialect:
    """Return the dialect of a question whose `source_of` succeeded; OpenCode's for one without configuration."""
    name = asked.get("dialect")
    return dialect_of(PolicySource(name) if isinstance(name, str) else None)


def grants_of(asked: PolicyOptions) -> tuple[Grant, ...]:
    """Return the grants of a question in its dialect's shape. Raises PolicyError."""
    dialect = _dialect(asked)
    return tuple(
        grant
        for index, value in enumerate(_listed_grants(asked))
        if (grant := dialect.read_grant(value, f"grant {index + 1}")) is not None
    )


def _listed_grants(asked: PolicyOptions) -> Sequence[Mapping[str, Any]]:
    grants = asked.get("grants")
    if grants is None:
        return ()
    if not isinstance(grants, list | tuple) or not all(isinstance(one, Mapping) for one in grants):
        raise PolicyError(f"`grants` must be a list of objects, not {shown(grants)}", key="grants")
    return grants


COMPILED_COUNT: Final = 256
"""Compiled configurations that one checker keeps; the least recently used is dropped first."""

EXTERNAL: Final = "external_directory"


class Checker:
    """Answers questions in turn; each distinct configuration is compiled once.

    `options` are defaults for the members of a question with the same names.
    """

    def __init__(self, options: PolicyOptions | None = None, facts: FileFacts | None = None) -> None:
        self._options = dict(options or {})
        self._facts = facts
        self._compiled: OrderedDict[str, Policy | PolicyError] = OrderedDict()

    def answer(self, question: object) -> dict[str, Any]:
        """Return the answer, or `{"id", "error"}` for a question that cannot be judged. Never raises."""
        if not isinstance(question, Mapping):
            return {"id": None, "error": f"a line must be an object, not {shown(question)}"}
        asked = {**self._options, **question}
        identity = question.get("id")
        try:
            policy = self.policy(source_of(asked))
            verdict = judge(policy, call_of(asked), grants_of(asked))
        except PolicyError as problem:
            return {"id": identity, "error": str(problem)}
        return {"id": identity, **verdict}

    def policy(self, source: PolicySource) -> Policy:
        """Return the compiled policy. Raises PolicyError, again at each later call with the same source."""
        key = _key(source)
        known = self._compiled.get(key)
        if known is None:
            known = self._compiled[key] = self._compile(source)
            if len(self._compiled) > COMPILED_COUNT:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        if isinstance(known, PolicyError):
            raise known
        return known

    def _compile(self, source: PolicySource) -> Policy | PolicyError:
        try:
            return with_facts(compile_policy(source), self._facts)
        except PolicyError as problem:
            return problem


def _key(source: PolicySource) -> str:
    """Return a cache key. The order of members is part of it, because the order of rules decides."""
    layers = [[one.name, one.config, one.trusted, one.file, repr((one.rules, one.demands))] for one in source.layers]
    return json.dumps([source.dialect, layers, source.options])


def with_facts(policy: Policy, facts: FileFacts | None) -> Policy:
    """Return the policy with these facts about files; in the hardened profile it also guards the ledger's own files."""
    if facts is None:
        return policy
    give = getattr(policy, "with_facts", None)
    given: Policy = policy if give is None else give(facts)
    return guarded(given, facts)


class JudgedCall:
    """A call's own evaluation and those of the calls that must be allowed before it."""

    def __init__(self, policy: Policy, call: Call, grants: tuple[Grant, ...] = ()) -> None:
        self._dialect = dialect_of(policy.source)
        self.own = policy.evaluate(call, grants)
        self.first = tuple((one, policy.evaluate(one, grants)) for one in self.own.ask_first)

    @property
    def all(self) -> tuple[Evaluation, ...]:
        """Return the evaluations in the order in which they are asked."""
        return (*(found for _, found in self.first), self.own)

    @property
    def verdict(self) -> Verdict:
        return strictest(found.verdict for found in self.all)

    @property
    def deciding(self) -> list[Evaluation]:
        return [found for found in self.all if found.verdict is self.verdict]

    @property
    def rules(self) -> tuple[RuleRef, ...]:
        """Return the rules that decided, without repeats."""
        return tuple(dict.fromkeys(rule for found in self.deciding for rule in found.rules))

    @property
    def message(self) -> str | None:
        """Return the message that the source system would give the agent for a deny."""
        return next((found.message for found in self.deciding if found.message), None)

    @property
    def reason(self) -> str | None:
        return next((found.reason for found in self.deciding if found.reason), None)

    @property
    def external_directories(self) -> list[str]:
        """Return the patterns that must be allowed first, as the dialect writes them, without repeats."""
        texts = (text for call, _ in self.first if call.permission == EXTERNAL for text in call.patterns)
        return list(dict.fromkeys(texts))

    @property
    def always(self) -> list[Any]:
        """Return the entries that an `always` would grant, in the dialect's JSON shape."""
        return [self._dialect.notation.entry_object(entry) for entry in self.own.always]


def judge(policy: Policy, call: Call, grants: tuple[Grant, ...] = ()) -> dict[str, Any]:
    """Return the answer without its id."""
    judged = JudgedCall(policy, call, grants)
    return {
        "verdict": judged.verdict.value,
        "rules": [rule_json(rule) for rule in judged.rules],
        "parts": [part_json(part) for part in judged.own.parts],
        "always": judged.always,
        "external_directories": judged.external_directories,
        "message": judged.message if judged.verdict is Verdict.DENY else None,
        "reason": judged.reason,
    }


def part_json(part: Part) -> dict[str, Any]:
    """Return a part as JSON; `in` names the outer part of a command that the hardened profile found inside it."""
    shown_part: dict[str, Any] = {"text": part.text, "verdict": part.verdict.value}
    shown_part["rules"] = [rule_json(rule) for rule in part.rules]
    inside = getattr(part, "inside", None)
    return shown_part if inside is None else {**shown_part, "in": inside}


def rule_json(rule: RuleRef) -> dict[str, Any]:
    return {"text": rule.text, "layer": rule.layer, "file": rule.file, "line": rule.line}

"""Checks of rules and options as they are read, limits of a policy, and the errors for malformed ones."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeVar

import msgspec

from ledger.core.limits import NAME_LENGTH_CHARS, PATTERN_LENGTH_BYTES
from ledger.core.policy import AnswerBy, Layer, Rule, Verdict
from ledger.policy.errors import PolicyError
from ledger.policy.facts import FileFacts, FileKind, NoFacts
from ledger.policy.jsonc import JsonKeys, pointer

RULE_COUNT: Final = 10_000
"""Rules of one ruleset, and of one policy with all its layers."""

LAYER_COUNT: Final = 64
"""Layers of one policy."""

QUESTION_BYTES: Final = 16 * 1024 * 1024
"""One line of `policy check`. A command line in it that is too long for the analysis is asked about, not refused."""

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


Profile = Literal["hardened", "faithful"]

PROFILES: Final[tuple[Profile, ...]] = ("hardened", "faithful")

_Choice = TypeVar("_Choice", bound=str)


_LINKS_MAX: Final = 40
_LINK: Final = "-> "


class MappedFacts:
    """Facts that a caller wrote: `{"path": "file" | "dir" | "-> target"}`, paths relative to `base`.

    Raises PolicyError for any other value.
    """

    def __init__(self, entries: Mapping[str, Any], base: str) -> None:
        self._kinds: dict[str, FileKind] = {}
        self._links: dict[str, str] = {}
        for path, what in entries.items():
            place = posixpath.normpath(posixpath.join(base, path))
            if isinstance(what, str) and what.startswith(_LINK):
                self._links[place] = posixpath.join(posixpath.dirname(place), what.removeprefix(_LINK))
            elif what in FileKind.__members__.values():
                self._kinds[place] = FileKind(what)
            else:
                text = f"the fact about {shown(path)} must be `file`, `dir` or `-> target`, not {shown(what)}"
                raise PolicyError(text, key="fs")

    def resolve(self, path: str) -> str:
        done, todo, links = "/", list(reversed(path.split("/"))), 0
        while todo:
            name = todo.pop()
            if name in ("", "."):
                continue
            if name == "..":
                done = posixpath.dirname(done)
                continue
            done = posixpath.join(done, name)
            target = self._links.get(done)
            if target is not None and links < _LINKS_MAX:
                links += 1
                todo += reversed(target.split("/"))
                done = "/"
        return done

    def kind(self, path: str) -> FileKind | None:
        place = self.resolve(path)
        if place in self._kinds:
            return self._kinds[place]
        inside = place.rstrip("/") + "/"
        if any(other.startswith(inside) for other in (*self._kinds, *self._links)):
            return FileKind.DIRECTORY
        return None


class GivenOptions:
    """Options by name. Raises PolicyError for one that the dialect does not have."""

    def __init__(self, dialect: str, options: Mapping[str, Any], names: Collection[str]) -> None:
        for name in options:
            if name not in names:
                known = ", ".join(names)
                raise PolicyError(f"the {dialect} dialect has no option {shown(name)}; it has {known}", key=name)
        self._options = options

    def _wrong(self, name: str, wanted: str) -> PolicyError:
        return PolicyError(f"the option `{name}` must be {wanted}, not {shown(self._options[name])}", key=name)

    def choice(self, name: str, known: Sequence[_Choice], default: _Choice | None = None) -> _Choice:
        """Return an option with a closed list of values; the default is the first one."""
        value = self._options.get(name)
        if value is None:
            return known[0] if default is None else default
        for one in known:
            if one == value:
                return one
        raise self._wrong(name, " or ".join(f"`{one}`" for one in known))

    def flag(self, name: str, *, default: bool = False) -> bool:
        value = self._options.get(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return default if value is None else value

    def text(self, name: str) -> str | None:
        value = self._options.get(name)
        if value is None or (isinstance(value, str) and value):
            return value
        raise self._wrong(name, "a string that is not empty")

    def folder(self, name: str) -> str | None:
        """Return an absolute path, without a slash at its end."""
        value = self._options.get(name)
        if value is None:
            return None
        if not isinstance(value, str) or not value.startswith("/"):
            raise self._wrong(name, "an absolute path")
        return value.rstrip("/") or "/"

    def facts(self, base: str, known: FileFacts | None) -> FileFacts:
        """Return the facts of the option `fs`, relative to `base`; else the known ones."""
        entries = self._options.get("fs")
        if entries is None:
            return known or NoFacts()
        if not isinstance(entries, Mapping):
            raise self._wrong("fs", "an object from path to fact")
        return MappedFacts(entries, base)


def check_layers(layers: Sequence[Layer]) -> None:
    """Raise PolicyError for more layers than a policy may have, and for one with a configuration and rules."""
    if len(layers) > LAYER_COUNT:
        raise PolicyError(f"the policy has {len(layers)} layers; at most {LAYER_COUNT} are accepted")
    for layer in layers:
        if layer.config is not None and layer.rules:
            raise origin_of(layer).problem("a layer holds either a configuration or rules, not both", ())


def check_count(count: int) -> None:
    """Raise PolicyError for more rules than a policy may have."""
    if count > RULE_COUNT:
        raise PolicyError(f"the policy has {count} rules; at most {RULE_COUNT} are accepted")

"""Rules in the notation of OpenCode and BRUTUS: by permission and pattern; the last matching rule decides."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from ledger.core.policy import STRICTNESS, Verdict
from ledger.policy.conversion.paths import flat_of_ignore, flat_of_rooted
from ledger.policy.matching.wildcard import match
from ledger.policy.neutral import (
    ANY,
    SUBJECTS,
    ChangeReporter,
    ConversionChange,
    Neutral,
    Notation,
    PatternForm,
    command_form,
)
from ledger.policy.rule_list import ListedRule

_WILD: Final = frozenset("*?")
_EXTERNAL: Final = "external_directory"
PATTERNED: Final = frozenset({"bash", "read", "edit", "webfetch", "glob", "grep", "list"})
"""Permissions of tools whose input BRUTUS inspects; for all others it evaluates `*`."""

_LEFT_OUT: Final = "{} has no such rule; the allow is left out, so it asks"
_WHOLE: Final = "{} has no such rule; it now covers the whole tool"
_WIDER: Final = "it now covers more than before"


_PATHS: Final = ("read", "edit")


class Flat(NamedTuple):
    """A rule to write, and the rule that it was made from."""

    permission: str
    pattern: str
    action: Verdict
    source: ListedRule


class FlatNotation(Notation):
    """The notation of OpenCode and BRUTUS."""

    action_only: ClassVar[frozenset[str]] = frozenset()
    """Permissions that take an action and no patterns."""

    expands_home: ClassVar[bool] = False
    """A `~` or `$HOME` at the start of a pattern is the home directory."""

    reads_names: ClassVar[bool] = True
    """A rule names a sub-agent or a skill; else a request about one asks about `*`."""

    @abstractmethod
    def takes_patterns(self, permission: str) -> bool:
        """Return whether a call of this permission is matched by more than `*`."""

    @abstractmethod
    def loosened(self, pattern: str) -> str | None:
        """Return a wider pattern for one that means something else in this dialect; None for any other."""

    @abstractmethod
    def in_order(self, permissions: Iterable[str]) -> list[str]:
        """Return permissions in the order in which one object holds them; the last match decides."""

    def read(self, rules: Any, listed: Sequence[ListedRule]) -> list[Neutral]:
        return [one for rule in listed for one in _read(self, rule)]

    def write(self, rules: Sequence[Neutral], changes: list[ConversionChange]) -> dict[str, Any]:
        return flat_config(flat_rules(rules, self, changes), self, changes)

    def rewrite(
        self, listed: Sequence[ListedRule], origin: Notation, changes: list[ConversionChange]
    ) -> dict[str, Any] | None:
        if not isinstance(origin, FlatNotation):
            return None
        return flat_config(same_rules(listed, self, changes), self, changes)


def _read(notation: FlatNotation, rule: ListedRule) -> Iterator[Neutral]:
    """Yield a rule for each tool that the permission matches."""
    name = rule.permission
    if not _WILD & set(name):
        subject = notation.tool_names.subject(name)
        yield Neutral(subject, *_form(notation, subject, rule.pattern), rule.action, rule)
        return
    note = None if name == ANY else f"`{name}` now covers only the tools that are known by name"
    for subject, tool in notation.tool_names.names.items():
        if match(tool, name):
            yield Neutral(subject, *_form(notation, subject, rule.pattern), rule.action, rule, note=note)
    if not rule.pattern.strip("*"):
        yield Neutral(ANY if name == ANY else name, PatternForm.ALL, "", rule.action, rule, note=note)


def _form(notation: FlatNotation, subject: str, pattern: str) -> tuple[PatternForm, str]:
    if not pattern.strip("*"):
        return PatternForm.ALL, ""
    if subject == "shell":
        return command_form(pattern)
    if subject in _PATHS:
        return PatternForm.FLAT_PATH, pattern
    if not notation.reads_names and subject in ("task", "skill"):
        return PatternForm.OTHER, pattern
    return (PatternForm.GLOB if set("*?") & set(pattern) else PatternForm.NAME), pattern


def same_rules(listed: Sequence[ListedRule], notation: FlatNotation, changes: list[ConversionChange]) -> list[Flat]:
    """Return the rules for the other last-match dialect; all but a few patterns mean the same in both."""
    found: list[Flat] = []
    for rule in listed:
        pattern, text = _kept(rule, notation)
        if text is not None:
            changes.append(ConversionChange(rule, text))
        if pattern is not None:
            one = Flat(rule.permission, pattern, rule.action, rule)
            found.append(one if text is None else _not_lifting(one, found, changes))
    return found


def _not_lifting(rule: Flat, before: Sequence[Flat], changes: list[ConversionChange]) -> Flat:
    """Return a widened rule; an ask that would lift an earlier deny becomes a deny."""
    if rule.action is not Verdict.ASK:
        return rule
    denied = next(
        (one for one in before if one.action is Verdict.DENY and _meet(rule.permission, one.permission)), None
    )
    if denied is None:
        return rule
    changes.append(ConversionChange(rule.source, f"it is a deny now, so as not to lift `{denied.source.ref.text}`"))
    return rule._replace(action=Verdict.DENY)


def _kept(rule: ListedRule, notation: FlatNotation) -> tuple[str | None, str | None]:
    allows, pattern = rule.action is Verdict.ALLOW, rule.pattern
    whole = pattern == "*"
    if (rule.permission == _EXTERNAL or rule.permission in notation.action_only) and not whole:
        return (None, _LEFT_OUT.format(notation.name)) if allows else ("*", _WHOLE.format(notation.name))
    if not whole and rule.permission in {*notation.tool_names.names.values()} - PATTERNED:
        if allows:
            return None, _LEFT_OUT.format(notation.name)
        return (pattern, _WIDER) if notation.takes_patterns(rule.permission) else ("*", _WHOLE.format(notation.name))
    loose = notation.loosened(pattern)
    if loose is None:
        return pattern, None
    return (None, _LEFT_OUT.format(notation.name)) if allows else (loose, _WIDER)


def flat_rules(rules: Iterable[Neutral], notation: FlatNotation, changes: list[ConversionChange]) -> list[Flat]:
    """Return the rules as permissions and patterns; one rule may yield several."""
    found: list[Flat] = []
    for rule in rules:
        told: list[str] = []
        pairs = _spelt(rule, notation, told.append)
        changes += [ConversionChange(rule.source, text) for text in told]
        written = [Flat(*pair, rule.action, rule.source) for pair in pairs]
        found += [_not_lifting(one, found, changes) for one in written] if told else written
    return found


def _spelt(rule: Neutral, notation: FlatNotation, told: ChangeReporter) -> list[tuple[str, str]]:
    allows = rule.action is Verdict.ALLOW
    if rule.subject == ANY:
        return [(ANY, "*")]
    name = notation.tool_names.tool(rule.subject)
    if rule.subject not in SUBJECTS or name is None:
        return _foreign(rule, allows=allows, told=told)
    if allows and rule.partial:
        told(f"{notation.name} knows `{rule.tool}` and others as one tool; the allow is left out")
        return []
    patterns, exactly = _patterns(rule, allows=allows)
    if not notation.takes_patterns(name) and patterns not in (None, ["*"]):
        patterns = None
    if patterns is None and allows:
        told(_LEFT_OUT.format(notation.name))
        return []
    if rule.note:
        told(rule.note)
    if patterns is None:
        told(_WHOLE.format(notation.name))
        return [(name, "*")]
    if not exactly or rule.partial:
        told("it now covers `https` only" if allows else _WIDER)
    if notation.expands_home and any(one.startswith(("~", "$HOME")) for one in patterns):
        told(_LEFT_OUT.format(notation.name) if allows else _WIDER)
        patterns = [] if allows else [f"?{one[1:]}" if one.startswith(("~", "$HOME")) else one for one in patterns]
    return [(name, one) for one in patterns]


def _patterns(rule: Neutral, *, allows: bool) -> tuple[list[str] | None, bool]:
    """Return the patterns, and whether they match exactly the same calls; None where the dialect has no equivalent."""
    text = rule.text
    if rule.form is PatternForm.ALL:
        return ["*"], True
    if rule.form is PatternForm.PREFIX:
        return [f"{text} *"], True
    if rule.form is PatternForm.IGNORE_PATH:
        return flat_of_ignore(rule.source, allows=allows)
    if rule.form is PatternForm.ROOTED_PATH:
        return flat_of_rooted(text), True
    if rule.form is PatternForm.DOMAIN:
        if not allows:
            return [f"*{max(text.split('*'), key=len)}*"], False
        return (None, False) if "*" in text else ([f"https://{text}/*", f"https://{text}"], False)
    return (None, False) if rule.form is PatternForm.OTHER else ([text], True)


def _foreign(rule: Neutral, *, allows: bool, told: ChangeReporter) -> list[tuple[str, str]]:
    """Return the rules for a tool that is specific to one program.

    A deny or an ask keeps the name, which is harmless. An allow is left out.
    """
    name = rule.subject
    if name.startswith("mcp__") and rule.form is PatternForm.ALL:
        bare = name.removeprefix("mcp__").replace("__", "_", 1)
        return [(bare if "_" in bare else f"{bare}_*", "*")]
    if allows:
        told(f"the other program does not know `{name}`; it asks")
        return []
    told(f"`{name}` may have another name in the other program; check that it is denied there too")
    return [(name, "*")]


# --- in one object


def flat_config(rules: Sequence[Flat], notation: FlatNotation, changes: list[ConversionChange]) -> dict[str, Any]:
    """Return the configuration; calls that no rule matches ask, although OpenCode's own defaults would allow them.

    An object holds each permission once, so all rules of one permission stand together. A rule for a permission with a
    wildcard is therefore repeated for each permission that has earlier rules.
    """
    places: dict[str, list[Flat]] = {}
    for rule in rules:
        wild = bool(set(rule.permission) & _WILD)
        for name, known in places.items():
            if wild and name != rule.permission and not set(name) & _WILD and match(name, rule.permission):
                known.append(rule)
        places.setdefault(rule.permission, []).append(rule)
    order = notation.in_order(places)
    kept = {name: _undisplaced(name, places, order, rules, changes) for name in order}
    section: dict[str, Any] = {ANY: {"*": Verdict.ASK.value}}
    for name, found in kept.items():
        patterns = section.setdefault(name, {})
        for rule in found:
            pattern = "*" if name in notation.action_only else rule.pattern
            if pattern != rule.pattern:
                allows = rule.action is Verdict.ALLOW
                changes.append(ConversionChange(rule.source, (_LEFT_OUT if allows else _WHOLE).format(notation.name)))
                if allows:
                    continue
                if Verdict.DENY.value in patterns.values():
                    rule = rule._replace(action=Verdict.DENY)  # noqa: PLW2901 - a wider ask must not lift a deny
            patterns.pop(pattern, None)
            patterns[pattern] = rule.action.value
    return {"permission": {name: _short(patterns) for name, patterns in section.items() if patterns}}


def _undisplaced(
    name: str,
    places: dict[str, list[Flat]],
    order: Sequence[str],
    rules: Sequence[Flat],
    changes: list[ConversionChange],
) -> list[Flat]:
    """Return the rules of a permission without those that would now override a stricter later rule."""
    if not set(name) & _WILD:
        return places[name]
    before = {other for other in order[: order.index(name)] if _meet(name, other)}
    kept = []
    for rule in places[name]:
        later = rules[rules.index(rule) + 1 :]
        stricter = [
            one for one in later if one.permission in before and STRICTNESS[one.action] > STRICTNESS[rule.action]
        ]
        softer = [one for one in later if one.permission in before and STRICTNESS[one.action] < STRICTNESS[rule.action]]
        if softer:
            changes.append(ConversionChange(rule.source, f"it now comes before `{softer[0].source.ref.text}` too"))
        if not stricter:
            kept.append(rule)
        elif rule.action is Verdict.ALLOW:
            changes.append(
                ConversionChange(
                    rule.source, f"the allow is left out: it would come before `{stricter[0].source.ref.text}`"
                )
            )
        else:
            changes.append(ConversionChange(rule.source, "it is a deny now, because of a deny that came after it"))
            kept.append(rule._replace(action=Verdict.DENY))
    return kept


def _meet(one: str, other: str) -> bool:
    """Return whether two permissions could be the same; true when uncertain."""
    if not set(other) & _WILD:
        return match(other, one)
    first, second = (name.partition("*")[0].partition("?")[0] for name in (one, other))
    return first.startswith(second) or second.startswith(first)


def _short(patterns: dict[str, str]) -> Any:
    return patterns["*"] if list(patterns) == ["*"] else patterns

"""Rules of Codelia's `config.json`: objects with `tool` and at most `command`, `command_glob` and `skill_name`."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import NAME_LENGTH_CHARS
from ledger.core.policy import Grant, Layer, Rule, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, RuleOrigin, check_pattern, origin_of, shown
from ledger.policy.codelia.text import normalise
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import JsonKeys
from ledger.policy.matching.wildcard import Matcher, compile_marks
from ledger.policy.options import check_count, check_layers
from ledger.policy.read_grants import ReadGrants

SHELL: Final = "bash"
SKILL: Final = "skill_load"
VERSION: Final = 1

_SHELLS: Final = frozenset({"bash", "shell"})
_NAMES: Final = " ".join((*sorted(_SHELLS), SKILL))
"""The names of tools in rules that need not be in the call that such a rule matches."""
_LISTS: Final = ("allow", "deny")
_MEMBERS: Final = ("tool", "command", "command_glob", "skill_name")
_SKILL_NAME = late_pattern(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_GRANTS_MAX: Final = 1_024


class CodeliaRule(NamedTuple):
    """One parsed rule. A command must begin with `words` and match `glob`; each is None if it is no condition.

    Empty `words`, and a rule that is `inert`, match nothing. `skill` is normalised.
    """

    tool: str
    words: tuple[str, ...] | None
    glob: str | None
    matches: Matcher | None
    skill: str | None
    ref: RuleRef
    inert: bool = False

    @property
    def whole(self) -> bool:
        """Return whether the rule matches every input of its tool."""
        return self.words is None and self.glob is None and self.skill is None and not self.inert


class Ruleset(NamedTuple):
    """The rules of all layers, lowest first; each of the two lists is concatenated separately (codelia.md 4)."""

    allow: tuple[CodeliaRule, ...] = ()
    deny: tuple[CodeliaRule, ...] = ()


def canonical(tool: str) -> str:
    """Return one name for a tool: `shell` is `bash` (both names occur in configurations and in calls)."""
    return SHELL if tool in _SHELLS else tool


def skill_name(value: object) -> str | None:
    """Return a skill's name as Codelia compares it, trimmed and in lower case; None for an invalid one."""
    if not isinstance(value, str):
        return None
    name = normalise(value).lower()
    return name if _SKILL_NAME.fullmatch(name) else None


def rule_text(members: Mapping[str, Any]) -> str:
    """Return a rule object as one line of JSON, members in written order."""
    return json.dumps(members, ensure_ascii=False)


def read_layers(layers: tuple[Layer, ...], *, strict: bool) -> Ruleset:
    """Return the rules of all layers. A layer that is not trusted gives no allow rules.

    `strict` refuses every rule that Codelia would read differently than it is written; otherwise such a rule is inert
    or wider than written, as in Codelia. Raises PolicyError, which names file and line.
    """
    check_layers(layers)
    allow: list[CodeliaRule] = []
    deny: list[CodeliaRule] = []
    for layer in layers:
        rules = _layer_rules(layer, strict=strict)
        allow += rules.allow if layer.trusted else ()
        deny += rules.deny
    check_count(len(allow) + len(deny))
    return Ruleset(tuple(allow), tuple(deny))


def _layer_rules(layer: Layer, *, strict: bool) -> Ruleset:
    origin = origin_of(layer)
    if layer.config is None:
        return _of_program(layer.rules, origin, strict=strict)
    return read_config(layer.config, origin, strict=strict)


def _of_program(rules: tuple[Rule, ...], origin: RuleOrigin, *, strict: bool) -> Ruleset:
    """Return rules given by a program: the pattern is a `command_glob` or a skill's name, `*` the whole tool."""
    lists: dict[str, list[CodeliaRule]] = {name: [] for name in _LISTS}
    for index, rule in enumerate(rules):
        if rule.action is Verdict.ASK:
            raise origin.problem("codelia has no ask rules: what no rule allows is asked", (index,))
        member = {SHELL: "command_glob", SKILL: "skill_name"}.get(canonical(rule.permission))
        if rule.pattern != "*" and member is None:
            raise origin.problem(
                f"a rule for {shown(rule.permission)} is for the whole tool: its pattern is `*`", (index,)
            )
        members = {"tool": rule.permission} | ({} if member is None or rule.pattern == "*" else {member: rule.pattern})
        lists[rule.action.value].append(
            _read_rule(members, origin, (index,), deny=rule.action is Verdict.DENY, strict=strict)
        )
    return Ruleset(tuple(lists["allow"]), tuple(lists["deny"]))


def read_config(config: object, origin: RuleOrigin = NOWHERE, *, strict: bool = True) -> Ruleset:
    """Check a configuration (codelia.md 3). Members other than `version` and `permissions` are ignored."""
    if not isinstance(config, Mapping):
        raise origin.problem(f"a configuration is an object with `permissions`, not {shown(config)}", ())
    version = config.get("version", VERSION)
    if type(version) is not int or version != VERSION:
        raise origin.problem(
            f"the version {shown(version)} of a configuration is unknown; write {VERSION}", ("version",)
        )
    section = config.get("permissions", {})
    if not isinstance(section, Mapping):
        raise origin.problem("`permissions` must be an object with `allow` and `deny`", ("permissions",))
    unknown = next((name for name in section if name not in _LISTS), None)
    if strict and unknown is not None:
        raise origin.problem(f"`permissions` holds `allow` and `deny`, not {shown(unknown)}", ("permissions", unknown))
    return Ruleset(*(_read_list(section, name, origin, strict=strict) for name in _LISTS))


def _read_list(section: Mapping[str, Any], name: str, origin: RuleOrigin, *, strict: bool) -> tuple[CodeliaRule, ...]:
    rules = section.get(name, [])
    if not isinstance(rules, list | tuple):
        raise origin.problem(f"`{name}` must be a list of rules, not {shown(rules)}", ("permissions", name))
    deny = name == "deny"
    return tuple(
        _read_rule(members, origin, ("permissions", name, index), deny=deny, strict=strict)
        for index, members in enumerate(rules)
    )


def _read_rule(members: object, origin: RuleOrigin, keys: JsonKeys, *, deny: bool, strict: bool) -> CodeliaRule:
    tool = members.get("tool") if isinstance(members, Mapping) else None
    if not isinstance(members, Mapping) or not isinstance(tool, str) or not tool:
        raise origin.problem(f"a rule is an object that names its `tool`, not {shown(members)}", keys)
    if len(tool) > NAME_LENGTH_CHARS:
        raise origin.problem(f"the tool {shown(tool)} has more than {NAME_LENGTH_CHARS} characters", keys)
    if strict:
        _check_members(members, canonical(tool), origin, keys)
    command, pattern, skill = (_text(members, name, origin, keys) for name in _MEMBERS[1:])
    name = skill_name(skill)
    # Codelia's file reader drops an invalid skill name, so the rule becomes one for every skill. For a deny that is the
    # safe side. For an allow the behaviour of its matcher is kept: such a name matches nothing.
    inert = skill is not None and name is None and not deny
    return CodeliaRule(
        canonical(tool),
        None if command is None else tuple(word for word in normalise(command).split(" ") if word),
        pattern,
        None if pattern is None else compile_marks(pattern),  # a final ` *` is not optional (codelia.md 6.3)
        name,
        RuleRef(rule_text(members), origin.layer, origin.file, origin.line(keys)),
        inert,
    )


def _check_members(members: Mapping[str, Any], tool: str, origin: RuleOrigin, keys: JsonKeys) -> None:
    """Refuse members that would change the meaning of a rule: less strict than written, or without effect."""
    for name, value in members.items():
        if name not in _MEMBERS:
            raise origin.problem(f"a rule has no member {shown(name)}; it has {', '.join(_MEMBERS)}", (*keys, name))
        if not isinstance(value, str) or not normalise(value):
            raise origin.problem(f"`{name}` must be a string that is not empty, not {shown(value)}", (*keys, name))
    for name, wanted in (("command", SHELL), ("command_glob", SHELL), ("skill_name", SKILL)):
        if name in members and tool != wanted:
            raise origin.problem(f"`{name}` is for rules of `{wanted}`, not of {shown(tool)}", (*keys, name))
    if "skill_name" in members and skill_name(members["skill_name"]) is None:
        text = f"the skill name {shown(members['skill_name'])} must be letters and digits with `-` between them"
        raise origin.problem(text, (*keys, "skill_name"))


def _text(members: Mapping[str, Any], name: str, origin: RuleOrigin, keys: JsonKeys) -> str | None:
    """Return a member; None if it is empty or no string, as Codelia drops such a member."""
    value = members.get(name)
    if not isinstance(value, str) or not value:
        return None
    return check_pattern(value, origin, (*keys, name))


class RememberedRules(ReadGrants[tuple[str, CodeliaRule]]):
    """Grants as allow rules, each with its id; an unreadable one is none of them."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        super().__init__(grants, _remembered, (_NAMES,))


def _remembered(grants: Iterable[Grant]) -> list[tuple[str, CodeliaRule]]:
    read = ((grant.grant_id, granted_rule(grant.permission, grant.pattern)) for grant in grants)
    return [(grant_id, rule) for grant_id, rule in read if rule is not None]


@lru_cache(maxsize=_GRANTS_MAX)
def granted_rule(permission: str, pattern: str) -> CodeliaRule | None:
    """Return the allow rule of a grant, an entry of `always`; None for an unreadable one, which lifts nothing."""
    if pattern in ("", "*"):
        members: Any = {"tool": permission}
    else:
        try:
            members = json.loads(pattern)
        except (ValueError, RecursionError):
            return None
    try:
        return _read_rule(members, NOWHERE, (), deny=False, strict=True)
    except PolicyError:
        return None


# --- matching (codelia.md 3.2, 6.2 and 6.3) ---------------------------------------------------------------------------


def matches_text(rule: CodeliaRule, text: str) -> bool:
    """Match a rule for commands with one normalised text, a segment or the full text. All its conditions must hold."""
    if rule.tool != SHELL or rule.skill is not None or rule.inert or not text:
        return False
    if rule.words is not None:
        wanted = len(rule.words)
        if not wanted or tuple(text.split(" ", wanted)[:wanted]) != rule.words:
            return False
    return rule.matches is None or rule.matches(text)


def matches_full_text(rule: CodeliaRule, text: str) -> bool:
    """Match a rule with the full text; only rules with `command_glob` apply to it (codelia.md 6.4)."""
    return rule.glob is not None and matches_text(rule, text)


def matches_tool(rule: CodeliaRule, tool: str, skill: str | None) -> bool:
    """Match a rule with a call of another tool; `skill` is the skill that `skill_load` asks for."""
    if rule.tool != tool or rule.words is not None or rule.glob is not None or rule.inert:
        return False
    if rule.skill is None:
        return True
    return tool == SKILL and rule.skill == skill


def skills_of(value: Any) -> tuple[str | None, str | None]:
    """Return the skill that an input names, and the skill of its path; normalised, None where missing."""
    if not isinstance(value, Mapping):
        return None, None
    return skill_name(value.get("name")), _skill_of_path(value.get("path"))


def is_misnamed(value: Any) -> bool:
    """Return whether an input names a skill by an invalid name."""
    name = value.get("name") if isinstance(value, Mapping) else None
    return name not in (None, "") and skill_name(name) is None


def _skill_of_path(path: object) -> str | None:
    """Return the folder's name, also when its `SKILL.md` is given."""
    if not isinstance(path, str):
        return None
    parts = [part for part in normalise(path).replace("\\", "/").split("/") if part]
    if len(parts) > 1 and parts[-1].lower() == "skill.md":
        parts.pop()
    return skill_name(parts[-1]) if parts else None


# --- finding the first match ------------------------------------------------------------------------------------------


_NONE: Final[tuple[tuple[int, CodeliaRule], ...]] = ()


class Index:
    """The rules of one list. Finds the first match in the list's order."""

    __slots__ = ("_by_word", "_others", "rules")

    def __init__(self, rules: Iterable[CodeliaRule]) -> None:
        self.rules = tuple(rules)
        by_word: dict[str, list[tuple[int, CodeliaRule]]] = {}
        others: list[tuple[int, CodeliaRule]] = []
        for place in enumerate(self.rules):
            words = place[1].words
            if words is None:
                others.append(place)
            elif words:
                by_word.setdefault(words[0], []).append(place)
        self._by_word = {word: tuple(places) for word, places in by_word.items()}
        self._others = tuple(others)

    def first(self, word: str | None, matches: Callable[[CodeliaRule], bool]) -> CodeliaRule | None:
        """Return the first match among the rules for `word` and those for no word; None as `word` is no word."""
        found = next(((at, rule) for at, rule in self._by_word.get(word or "", _NONE) if matches(rule)), None)
        for at, rule in self._others:
            if found is not None and found[0] < at:
                break
            if matches(rule):
                return rule
        return found[1] if found else None


class Indexes(NamedTuple):
    """Both lists of a ruleset."""

    allow: Index
    deny: Index


def indexed(rules: Ruleset) -> Indexes:
    return Indexes(Index(rules.allow), Index(rules.deny))

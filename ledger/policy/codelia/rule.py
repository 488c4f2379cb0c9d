"""Rules of Codelia's `config.json`, and lines as Codelia splits them: white space collapsed, cut at operators.

A rule is an object with `tool` and at most `command`, `command_glob` and `skill_name`. The splitting (codelia.md 6.1
and 6.4) copies the source with its blind spots: `&`, newlines, substitutions and here-documents. The hardened profile
analyses the line a second time with `ledger.policy.shell`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import NAME_LENGTH_CHARS
from ledger.core.policy import Grant, Layer, Rule, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, RuleOrigin, check_count, check_layers, check_pattern, origin_of, shown
from ledger.policy.errors import PolicyError
from ledger.policy.evaluations import ReadGrants
from ledger.policy.facts import FileFacts
from ledger.policy.jsonc import JsonKeys
from ledger.policy.matching import Matcher, compile_marks
from ledger.policy.spelled import absolute, within

# JavaScript's white space: it holds U+FEFF, and neither U+001C to U+001F nor U+0085, which Python's `\s` has.
_BLANKS: Final = "\t\n\v\f\r \u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"
_BLANK_RUN = late_pattern(f"[{_BLANKS}]+")

REDIRECTS: Final = frozenset({"<", ">", ">>", "2>", "2>>"})

# Operators come longest first. Quoted or escaped text is one piece; an unclosed quote runs to the end.
_PIECE = late_pattern(
    r"""(?P<operator>2>>|\|&|\|\||&&|>>|2>|[|><;])
    |\\.|\\\Z
    |'[^']*+'?
    |"(?:[^"\\]|\\.)*+(?:"|\\?\Z)
    |[^\\'"|&><;2]++
    |.""",
    re.DOTALL | re.VERBOSE,
)


class Segment(NamedTuple):
    """One command of a line. `redirected`: it has a redirection to or from a file."""

    text: str
    redirected: bool = False


class CodeliaLine(NamedTuple):
    """A command line as Codelia parses it. `targets` are the right sides of redirections, which are no commands."""

    text: str
    segments: tuple[Segment, ...]
    operators: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()


def normalise(text: str) -> str:
    """Return the text trimmed, with one space for each run of white space, line ends included."""
    return _BLANK_RUN.sub(" ", text).strip(" ")


def split(command: str) -> CodeliaLine:
    """Split a command as given. Empty segments are dropped. Linear in the length of the command."""
    text = normalise(command)
    pieces, operators, start = [], [], 0
    for piece in _PIECE.finditer(text):
        if piece.lastgroup == "operator":
            pieces.append(text[start : piece.start()])
            operators.append(piece.group())
            start = piece.end()
    pieces.append(text[start:])
    return CodeliaLine(text, *_sorted_out(pieces, operators))


def _sorted_out(
    pieces: list[str], operators: list[str]
) -> tuple[tuple[Segment, ...], tuple[str, ...], tuple[str, ...]]:
    """Separate commands and redirection targets. A redirection in front of a command belongs to it."""
    texts: list[str] = []
    targets: list[str] = []
    redirected: set[int] = set()
    for before, piece in zip(["", *operators], pieces, strict=True):
        stripped = piece.strip(" ")
        if before in REDIRECTS:
            targets.append(stripped)
            redirected.add(max(len(texts) - 1, 0))
        elif stripped:
            texts.append(stripped)
    segments = tuple(Segment(text, index in redirected) for index, text in enumerate(texts))
    return segments, tuple(operators), tuple(targets)


def is_cd(segment: str) -> bool:
    return segment == "cd" or segment.startswith("cd ")


def words_of(segment: str) -> list[str] | None:
    """Return the words of a segment without their quotes; None for an unclosed quote."""
    if not _CLOSED.fullmatch(segment):
        return None
    return [_QUOTE.sub(_unquoted, word) for word in _WORD.findall(segment)]


_QUOTED: Final = r"""\\.|'[^']*+'|"(?:[^"\\]|\\.)*+\""""
_CLOSED = late_pattern(rf"""(?:[^'"\\]++|{_QUOTED})*+""", re.DOTALL)
_WORD = late_pattern(rf"""(?:[^ '"\\]++|{_QUOTED})+""", re.DOTALL)
_QUOTE = late_pattern(_QUOTED, re.DOTALL)
_ESCAPE = late_pattern(r"\\(.)", re.DOTALL)


def _unquoted(found: re.Match[str]) -> str:
    text = found.group()
    if text[0] == "\\":
        return text[1]
    return text[1:-1] if text[0] == "'" else _ESCAPE.sub(r"\1", text[1:-1])


# --- the guard of `cd`: a virtual working directory that must not leave the sandbox (codelia.md 7.2)
# Characters that may expand, or end the word elsewhere than at the next space.
_UNSAFE = late_pattern(r"""["'`$&|;<>(){}\[\]*?!~\\]""")


def virtual_cd(segment: str, directory: str, root: str) -> str | None:
    """Return the target of a segment `cd DIR` by its text alone, as Codelia computes it; None for a `cd` to ask about.

    A folder whose name begins with `..` is asked about, as in the program. An option (`cd -P x`, `cd --`) may lead
    home, so it is asked about too, unlike in the program.
    """
    words = [word for word in segment.split(" ") if word]
    if len(words) != 2 or words[1].startswith("-") or _UNSAFE.search(words[1]):
        return None
    target = absolute(words[1], directory)
    return None if posixpath.relpath(target, absolute(root)).startswith("..") else target


def real_cd(target: str, directory: str, root: str, facts: FileFacts) -> str | None:
    """Return the target of `cd` for a word that a shell has parsed, with links followed.

    The shell keeps the logical path (`cd link/..` leads back), so that path is the base of the next `cd`. Neither the
    logical path nor its real target may be outside at any step.
    """
    lexical = absolute(target, directory)
    real_root = facts.resolve(absolute(root))
    roots = (absolute(root), real_root)
    real = (facts.resolve(lexical), facts.resolve(posixpath.join(directory, target)))
    inside = any(within(lexical, one) for one in roots) and all(within(path, real_root) for path in real)
    return lexical if inside else None


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


# --- matching (codelia.md 3.2, 6.2 and 6.3)
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


# --- finding the first match
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

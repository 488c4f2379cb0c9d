"""Rules carried from one dialect to another by their meaning. Pure.

What the other dialect cannot say becomes stricter, never looser: an allow is left out, a deny or an ask grows. Each such
change is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ledger.policy.listing import TOOL_RULES, Listed
from ledger.policy.model import Policy, Verdict
from ledger.policy.neutral import ANY, NAMES, Form, Neutral, neutral_rules, tool_name
from ledger.policy.opencode.names import ACTION_ONLY
from ledger.policy.wildcard import compile_normalised

_FLAT: Final = ("opencode", "brutus")
_CODELIA_WORDS_MAX: Final = 2
_WILD: Final = frozenset("*?")


class Change(msgspec.Struct, frozen=True):
    """A rule that could not be carried over as it is, and what became of it."""

    rule: Listed
    text: str


class Converted(msgspec.Struct, frozen=True):
    """A configuration in the other dialect's form, and what became stricter in it."""

    config: dict[str, Any]
    changes: tuple[Change, ...]


def convert(policy: Policy, dialect: str) -> Converted:
    """Write the rules of a policy in another dialect."""
    changes: list[Change] = []
    rules = _reachable(neutral_rules(policy))
    if dialect not in _FLAT:
        rules = list(_by_strictness(rules, dialect, changes))
    written = [(rule, text) for rule in rules for text in _spelt(rule, dialect, changes)]
    build = _flat_config if dialect in _FLAT else _codelia_config if dialect == "codelia" else _tool_config
    return Converted(build(written), tuple(dict.fromkeys(changes)))


def _reachable(rules: list[Neutral]) -> list[Neutral]:
    """The rules that decide about anything: nothing later is about all that they are about."""
    return [rule for place, rule in enumerate(rules) if not any(_covers(later, rule) for later in rules[place + 1 :])]


def _covers(wide: Neutral, narrow: Neutral) -> bool:
    if wide.subject not in (ANY, narrow.subject):
        return False
    if wide.form is Form.ALL or (wide.form, wide.text) == (narrow.form, narrow.text):
        return True
    if wide.form is Form.PREFIX and narrow.form in (Form.PREFIX, Form.EXACT):
        return narrow.text == wide.text or narrow.text.startswith(wide.text + " ")
    return wide.form is Form.GLOB and narrow.form is Form.EXACT and compile_normalised(wide.text)(narrow.text)


def _overlap(one: Neutral, other: Neutral) -> bool:
    """Whether two rules could be about the same call; where it is not sure they are."""
    if one.subject != other.subject and ANY not in (one.subject, other.subject):
        return False
    first, second = _literal_start(one), _literal_start(other)
    return first.startswith(second) or second.startswith(first)


def _literal_start(rule: Neutral) -> str:
    if rule.form in (Form.IGNORE_PATH, Form.FLAT_PATH, Form.DOMAIN, Form.ALL):
        return ""
    for place, character in enumerate(rule.text):
        if character in _WILD:
            return rule.text[:place]
    return rule.text


def _by_strictness(rules: list[Neutral], dialect: str, changes: list[Change]) -> Iterator[Neutral]:
    """From "the last match wins" to "deny before ask before allow"."""
    asks_are_said = dialect != "codelia"
    for place, rule in enumerate(rules):
        if rule.action is Verdict.ALLOW:
            stricter = _in_the_way(rules, place, asks_are_said=asks_are_said)
            if stricter is not None:
                text = f"the allow is left out: `{stricter.source.ref.text}` would come before it, or cannot be said"
                changes.append(Change(rule.source, text))
                continue
        elif rule.action is Verdict.ASK and (not asks_are_said or _is_default(rules, place)):
            continue
        elif any(one.action is not rule.action and _overlap(one, rule) for one in rules[place + 1 :]):
            later = next(one for one in rules[place + 1 :] if one.action is not rule.action and _overlap(one, rule))
            if _softer(later.action, rule.action):
                changes.append(Change(rule.source, f"it now comes before `{later.source.ref.text}` too"))
        yield rule


def _softer(one: Verdict, other: Verdict) -> bool:
    order = (Verdict.ALLOW, Verdict.ASK, Verdict.DENY)
    return order.index(one) < order.index(other)


def _is_default(rules: list[Neutral], place: int) -> bool:
    """An ask about a whole tool says what is so without it, unless an allow below it is wider."""
    rule = rules[place]
    wider = any(one.action is Verdict.ALLOW and _covers(one, rule) for one in rules[:place])
    return rule.form is Form.ALL and not wider


def _in_the_way(rules: list[Neutral], place: int, *, asks_are_said: bool) -> Neutral | None:
    """The rule that makes an allow useless where stricter rules come first, or that the other dialect cannot say."""
    rule = rules[place]
    for index, one in enumerate(rules):
        if one.action is Verdict.DENY and index < place and _covers(one, rule):
            return one
        if one.action is not Verdict.ASK:
            continue
        if asks_are_said and index < place and _covers(one, rule) and not _is_default(rules, index):
            return one
        if not asks_are_said and _overlap(one, rule) and not (index < place and _is_default(rules, index)):
            return one
    return None


def _spelt(rule: Neutral, dialect: str, changes: list[Change]) -> list[Any]:
    """How the dialect says it, maybe in several rules; nothing for what is left out."""
    name = ANY if rule.subject == ANY else tool_name(dialect, rule.subject)
    if name is None:
        changes.append(Change(rule.source, f"{dialect} has no such tool; what it has in its place is asked"))
        return []
    if rule.subject == ANY and dialect not in _FLAT:
        return _every_tool(rule, dialect, changes)
    if rule.subject not in NAMES and rule.subject != ANY:
        return _foreign(rule, dialect, changes)
    if rule.partial and rule.action is Verdict.ALLOW:
        text = f"{dialect} knows `{rule.source.permission}` and others as one; the allow is left out"
        changes.append(Change(rule.source, text))
        return []
    write = _flat if dialect in _FLAT else _codelia if dialect == "codelia" else _tool
    texts, exactly = write(rule, name, dialect)
    if texts is None and rule.action is Verdict.ALLOW:
        changes.append(Change(rule.source, f"{dialect} cannot say it; the allow is left out, so it asks"))
        return []
    if texts is None:
        changes.append(Change(rule.source, f"{dialect} cannot say it; it is about the whole tool now"))
        texts = write(msgspec.structs.replace(rule, form=Form.ALL, text=""), name, dialect)[0] or []
    elif not exactly:
        changes.append(Change(rule.source, "it is about more than before"))
    return texts


def _every_tool(rule: Neutral, dialect: str, changes: list[Change]) -> list[Any]:
    if rule.action is Verdict.ALLOW:
        changes.append(Change(rule.source, f"{dialect} does not allow every tool at once; the allow is left out"))
        return []
    if dialect in TOOL_RULES:
        return [ANY]
    names = (tool_name(dialect, subject) for subject in NAMES)
    return [{"tool": name} for name in names if name is not None]


def _foreign(rule: Neutral, dialect: str, changes: list[Change]) -> list[Any]:
    """A tool that only one program has. Its name is kept for a deny, which does no harm; nothing else is known."""
    name = rule.subject
    if name.startswith("mcp__") and dialect in _FLAT:
        name = name.removeprefix("mcp__").replace("__", "_", 1)
        return [(name if "_" in name else f"{name}_*", "*")]
    if name.startswith("mcp__") and dialect in TOOL_RULES:
        return [name]
    if rule.action is not Verdict.DENY:
        changes.append(Change(rule.source, f"{dialect} does not know `{name}`; it asks"))
        return []
    changes.append(Change(rule.source, f"`{name}` may have another name in {dialect}; see that it is denied there too"))
    return [(name, "*")] if dialect in _FLAT else [{"tool": name}] if dialect == "codelia" else [name]


Spelt = tuple[list[Any] | None, bool]
"""The rules, or None when it cannot be said; and whether they are about exactly as much."""


def _flat(rule: Neutral, name: str, dialect: str) -> Spelt:
    if rule.form is Form.ALL:
        return [(name, "*")], True
    if dialect == "opencode" and name in ACTION_ONLY:
        return None, False
    if rule.form is Form.PREFIX:
        return [(name, f"{rule.text} *")], True
    if rule.form is Form.DOMAIN:
        if rule.action is not Verdict.ALLOW:
            return [(name, f"*{rule.text}*")], False
        return [(name, one) for one in (f"https://{rule.text}/*", f"https://{rule.text}")], True
    if rule.form is not Form.IGNORE_PATH:
        return [(name, rule.text)], True
    texts, exactly = _flat_paths(rule.text)
    return (None, False) if not exactly and rule.action is Verdict.ALLOW else ([(name, one) for one in texts], exactly)


def _flat_paths(text: str) -> tuple[list[str], bool]:
    """A pattern as in .gitignore as patterns whose `*` crosses folders."""
    anchored = text.startswith(("/", "~"))  # `./x` is `x`, which stands in any folder
    path = text.removeprefix("./").removeprefix("/")
    anywhere = not anchored and "/" not in path.rstrip("/")
    if path.startswith("**/"):
        path, anywhere = path.removeprefix("**/"), True
    below = path.endswith("/**")
    bare = path.removesuffix("/**").rstrip("/")
    exactly = "*" not in bare or (anywhere and bare.startswith("*") and "*" not in bare[1:]) or not bare.strip("*")
    texts = [f"{bare}/*"] if below else [bare, f"{bare}/*"]
    if anywhere and not bare.startswith("*"):
        texts += [f"*/{one}" for one in texts]
    return [one.replace("**", "*") for one in texts], exactly


def _tool(rule: Neutral, name: str, dialect: str) -> Spelt:
    names = [name, "Write"] if dialect == "betcode" and rule.subject == "edit" else [name]
    specifier: str | None
    if rule.form is Form.ALL:
        return names, True
    if rule.form is Form.PREFIX:
        specifier = f"{rule.text}:*" if dialect == "claude" else f"{rule.text} *"
    elif rule.form is Form.DOMAIN:
        specifier = f"domain:{rule.text}"
    elif rule.form is Form.FLAT_PATH:
        specifier = _ignore_path(rule.text)
    elif rule.subject == "fetch" or (rule.form is Form.GLOB and "?" in rule.text):
        specifier = None
    else:
        specifier = rule.text
    return (None, False) if specifier is None else ([f"{one}({specifier})" for one in names], True)


def _ignore_path(text: str) -> str | None:
    """A pattern whose `*` crosses folders as in .gitignore; None where that cannot be said."""
    if "?" in text or "[" in text or text.startswith(("!", "..")):
        return None
    anchored = text if text.startswith("~/") else f"/{text}"
    if "*" not in text:
        return anchored
    head, star, tail = text.partition("*")
    if "*" in tail or "/" in tail:
        return None
    if not head:
        return tail and f"*{tail}"
    if not head.endswith("/"):
        return None
    return f"{anchored.partition('*')[0]}**{f'/*{tail}' if tail else ''}" if star else None


def _codelia(rule: Neutral, name: str, dialect: str) -> Spelt:
    if rule.form is Form.ALL:
        return [{"tool": one} for one in ([name, "write"] if rule.subject == "edit" else [name])], True
    if rule.form is Form.NAME and rule.subject == "skill":
        return [{"tool": name, "skill_name": rule.text}], True
    if rule.subject != "shell":
        return None, False
    if rule.form is not Form.PREFIX:
        return [{"tool": name, "command_glob": rule.text}], True
    if len(rule.text.split()) <= _CODELIA_WORDS_MAX:
        return [{"tool": name, "command": rule.text}], True
    return [{"tool": name, "command_glob": text} for text in (rule.text, f"{rule.text} *")], True


def _flat_config(written: Sequence[tuple[Neutral, Any]]) -> dict[str, Any]:
    """What no rule is about is asked here too, which OpenCode's own defaults would allow."""
    section: dict[str, Any] = {ANY: {"*": Verdict.ASK.value}}
    for rule, (permission, pattern) in written:
        patterns = section.setdefault(permission, {})
        patterns.pop(pattern, None)
        patterns[pattern] = rule.action.value
    return {"permission": {name: _short(patterns) for name, patterns in section.items()}}


def _short(patterns: dict[str, str]) -> Any:
    return patterns["*"] if list(patterns) == ["*"] else patterns


def _tool_config(written: Sequence[tuple[Neutral, Any]]) -> dict[str, Any]:
    section: dict[str, list[str]] = {"allow": [], "ask": [], "deny": []}
    for rule, text in written:
        if text not in section[rule.action.value]:
            section[rule.action.value].append(text)
    return {"permissions": {name: texts for name, texts in section.items() if texts}}


def _codelia_config(written: Sequence[tuple[Neutral, Any]]) -> dict[str, Any]:
    section: dict[str, list[Any]] = {"allow": [], "deny": []}
    for rule, members in written:
        if members not in section[rule.action.value]:
            section[rule.action.value].append(members)
    return {"version": 1, "permissions": section}

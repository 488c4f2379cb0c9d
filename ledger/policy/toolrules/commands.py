"""Subjects of a call matched with rules: commands (`Bash(…)`), hosts (`WebFetch(domain:…)`); grants as rules.

Commands are matched by words for deny and ask, narrowly for allow. In a host pattern `*` is any text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

from ledger.core.policy import Call, Grant, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, check_action, shown
from ledger.policy.errors import PolicyError
from ledger.policy.evaluations import ReadGrants
from ledger.policy.matching import STAR, Matcher, Star, compile_stars, compile_tokens, name_glob, optional_tail
from ledger.policy.shell.model import Access, ShellCommand, Word
from ledger.policy.shell.tables import PROGRAMS
from ledger.policy.toolrules.paths import EDITORS, PATH_FIELDS, READERS
from ledger.policy.toolrules.rule import ToolRule, parse_rule
from ledger.policy.urls import UrlReading, ascii_host, read_address

BASH = "Bash"
WEB_FETCH = "WebFetch"


def inputs_of(call: Call) -> tuple[str, list[Any]]:
    """Return the tool's name and each input to judge; a permission with patterns has one input per pattern."""
    if call.tool_name is not None:
        return call.tool_name, [call.input]
    tool = call.permission
    return tool, [_input_of(tool, pattern) for pattern in call.patterns]


def _input_of(tool: str, pattern: str) -> dict[str, str]:
    if tool == BASH:
        return {"command": pattern}
    if tool == WEB_FETCH:
        return {"url": pattern}
    field = PATH_FIELDS.get(tool, ("pattern",))[0]
    return {field: pattern}


_HIDDEN_BLANK: Final = "\0"
_PREFIX: Final = ":*"
_PATTERNS_MAX: Final = 4_096
_COMMANDS_MAX: Final = 64
"""Commands whose texts are kept: each rule asks about the same few."""


@lru_cache(maxsize=_PATTERNS_MAX)
def normal_specifier(specifier: str) -> str:
    """Return a specifier with one space between words, and a final `x:*` written `x *`."""
    text = " ".join(specifier.split())
    return text.removesuffix(_PREFIX) + " *" if text.endswith(_PREFIX) and text != _PREFIX else text


@lru_cache(maxsize=_PATTERNS_MAX)
def matcher(specifier: str) -> Matcher:
    """Return the glob of a specifier, for texts with single spaces between words."""
    return optional_tail(normal_specifier(specifier), compile_stars)


def has_wildcard(specifier: str) -> bool:
    return "*" in specifier


def specifier_words(specifier: str) -> tuple[str, ...]:
    """Return the words of a specifier without the wildcards at its end."""
    words = normal_specifier(specifier).split(" ")
    while words and words[-1] == "*":
        words.pop()
    return tuple(words)


def spelled_by(rules: Iterable[ToolRule]) -> tuple[tuple[str, ...], ...]:
    """Return the words of each rule for commands, wildcards included; none for a rule without specifier."""
    return tuple(tuple(normal_specifier(rule.specifier).split(" ")) if rule.specifier else () for rule in rules)


def reaches(specifier: str, words: Sequence[str]) -> bool:
    """Return whether a deny or ask specifier matches: its words begin the command, or its glob matches the words.

    A specifier without `*` reaches every command that begins with its words: `git push --force` reaches
    `git push --force origin`, not `git push --force-with-lease`.
    """
    wanted = normal_specifier(specifier)
    text = " ".join(words)
    if "*" not in wanted:
        return text == wanted or text.startswith(wanted + " ")
    return matcher(specifier)(text)


def covers(specifier: str, command: ShellCommand) -> bool:
    """Return whether an allow specifier covers the whole command as written; no quote may hide the end of a word."""
    texts = covered_texts(command)
    wanted = normal_specifier(specifier)
    return matcher(specifier)(texts[0]) if "*" in wanted else wanted in texts


def covered_texts(command: ShellCommand) -> tuple[str, str]:
    """Return the texts that an allow specifier may cover."""
    return _texts(command.words)


@lru_cache(maxsize=_COMMANDS_MAX)
def _texts(words: tuple[Word, ...]) -> tuple[str, str]:
    return visible_text(words), " ".join([word.raw for word in words])


def visible_text(words: Sequence[Word]) -> str:
    """Return the words as written, with single spaces; a blank inside a word cannot match a blank of a pattern.

    A quoted word of letters, digits and `_-./:=@%+,` is written without its quotes.
    """
    return " ".join(map(_visible, words))


def _visible(word: Word) -> str:
    shown = word.raw
    if word.quoted and word.resolved is not None and _is_simple(word.resolved):
        shown = word.resolved
    for blank in " \t\n":
        shown = shown.replace(blank, _HIDDEN_BLANK)
    return shown


def _is_simple(text: str) -> bool:
    return bool(text) and all(character.isalnum() or character in "_-./:=@%+," for character in text)


@lru_cache(maxsize=_COMMANDS_MAX)
def touched(words: tuple[str, ...]) -> tuple[tuple[Access, str], ...]:
    """Return every word of a command that may be a file, with its possible accesses. For deny and ask rules only.

    The value of a long option counts, and the text after `=` in `dd of=x`. A pattern or script counts as a file too.
    """
    accesses = PROGRAMS.get(words[0].rpartition("/")[2], ()) if words else ()
    found: list[tuple[Access, str]] = []
    ended = False
    for word in words[1:] if accesses else ():
        if word == "--" and not ended:
            ended = True
            continue
        value = word if ended or not word.startswith("-") else word.partition("=")[2]
        operands = [value, value.partition("=")[2]] if not word.startswith("-") else [value]
        found += [(access, operand) for operand in operands if operand for access in accesses]
    return tuple(found)


UNREADABLE: Final = "the address cannot be read, so rules for domains cannot be evaluated"

_DOMAIN_PREFIX: Final = "domain:"
_NOWHERE: Final = UrlReading(frozenset())
_RULES_MAX: Final = 4_096
_IN_A_LABEL: Final = Star(".")


def address_of(value: Any) -> UrlReading:
    """Return the address in the input of a call that fetches."""
    url = value.get("url") if hasattr(value, "get") else None
    return read_address(url) if isinstance(url, str) else _NOWHERE


def host_of(value: Any) -> str | None:
    """Return the host of the URL in an input if all readers agree on it, else None."""
    address = address_of(value)
    return address.host if len(address.hosts) == 1 else None


def reaches_host(rule: ToolRule, address: UrlReading) -> bool:
    """Return whether a rule for a domain matches an address: for deny and ask in any reading, for allow in all."""
    if rule.specifier is None:
        return False
    found = [matches_domain(rule.specifier, host) for host in address.hosts]
    if rule.action is Verdict.ALLOW:
        return bool(found) and bool(address.texts) and all(found)
    return any(found)


def is_unreadable(value: Any, rules: Iterable[ToolRule]) -> bool:
    """Return whether a call fetches no `http` or `https` address, while a rule denies or asks about domains."""
    if address_of(value).texts:
        return False
    return any(
        rule.tool == WEB_FETCH and rule.specifier is not None and rule.action is not Verdict.ALLOW for rule in rules
    )


def matches_domain(specifier: str, host: str) -> bool:
    """Return whether a specifier matches a host. A dot at the host's end changes nothing.

    `*` at the start is any text, so `*.example.com` matches every host below it and not `example.com`; elsewhere `*`
    matches within one label.
    """
    return _matcher(specifier)(host.rstrip("."))


@lru_cache(maxsize=_RULES_MAX)
def _matcher(specifier: str) -> Matcher:
    if not specifier.startswith(_DOMAIN_PREFIX):
        return lambda _host: False
    wanted = ascii_host(specifier.removeprefix(_DOMAIN_PREFIX).strip())
    head = (STAR,) if wanted.startswith("*") else ()
    return compile_tokens([*head, *(_IN_A_LABEL if one == "*" else one for one in wanted.lstrip("*"))])


# --- every other tool
SUBAGENTS: Final = frozenset({"Agent", "Task"})


def specifier_matches(
    rule: ToolRule, tool: str, value: Any, has_member: Callable[[str, Mapping[str, Any]], bool]
) -> bool:
    """Return whether a specifier matches: a domain, a kind of sub-agent, or (deny and ask) a member of the input."""
    if rule.specifier is None or (rule.tool != tool and not {rule.tool, tool} <= SUBAGENTS):
        return False
    if tool == WEB_FETCH:
        return reaches_host(rule, address_of(value))
    if not isinstance(value, Mapping):
        return False
    if tool in SUBAGENTS and value.get("subagent_type") == rule.specifier:
        return True
    return rule.action is not Verdict.ALLOW and has_member(rule.specifier, value)


def glob_takes(wanted: str, value: Any) -> bool:
    """Return whether a glob matches a member of an input, as JSON writes it if it is a boolean."""
    return name_glob(wanted)(str(value).lower() if isinstance(value, bool) else str(value))


# --- grants as rules
_NAMES: Final = " ".join(("Agent", "Bash", "Task", "WebFetch", "domain", *sorted(READERS | EDITORS)))
"""The names in rules that need not be in the call that such a rule matches."""


class ToolGrant(Grant, frozen=True, omit_defaults=True):
    """A grant that may also deny, as BetCode's `permission_grant` rows do (betcode.md, "Session grant …")."""

    action: Verdict = Verdict.ALLOW


def read_grant(value: Mapping[str, Any], grant_id: str = "grant") -> ToolGrant:
    """Return a grant from `{tool_name, pattern, action}`; `pattern` null or missing is the whole tool.

    Raises PolicyError.
    """
    tool, pattern = value.get("tool_name"), value.get("pattern")
    if not isinstance(tool, str) or not tool:
        raise PolicyError(f"a grant needs `tool_name`, not {shown(tool)}", key="grants")
    if pattern is not None and not isinstance(pattern, str):
        raise PolicyError(f"the pattern of a grant must be a string or null, not {shown(pattern)}", key="grants")
    action = check_action(value.get("action", "allow"), "the action of a grant", NOWHERE, ("grants",))
    return ToolGrant(grant_id, tool, pattern or tool, action=action)


class GrantedRules(ReadGrants[tuple[str, ToolRule]]):
    """Grants as rules, each with its id. A rule for one of the tools that rules can be for may match a call of another."""

    def __init__(self, grants: Sequence[Grant] = ()) -> None:
        super().__init__(grants, _as_rules, (_NAMES,))

    @property
    def denying(self) -> list[ToolRule]:
        """Return those that deny, which no grant of a ledger does."""
        return [rule for _, rule in self.all if rule.action is Verdict.DENY]


def texts_of(tool: str, value: Any, path: str | None) -> tuple[str, ...]:
    """Return the texts in a call of a tool other than Bash that a grant may name: its file, its hosts, its sub-agent."""
    kind = value.get("subagent_type") if isinstance(value, Mapping) else None
    hosts = sorted(address_of(value).hosts) if tool == WEB_FETCH else ()
    return (tool, *hosts, *(one for one in (path, kind) if isinstance(one, str)))


def _as_rules(grants: Sequence[Grant]) -> list[tuple[str, ToolRule]]:
    return [(grant.grant_id, grant_rule(grant)) for grant in grants]


def grant_rule(grant: Grant) -> ToolRule:
    """Return the rule of a grant. `pattern` is an entry of `always`, the tool's name, or a bare specifier."""
    action = getattr(grant, "action", Verdict.ALLOW)
    tool, specifier = parse_rule(grant.pattern)
    if grant.pattern in ("", "*"):
        tool, specifier = grant.permission, None
    elif specifier is None and not grant.pattern.endswith(")") and tool != grant.permission:
        known = tool.startswith("mcp__") or "*" in grant.permission
        tool, specifier = (tool, None) if known else (grant.permission, grant.pattern)
    return ToolRule(tool, specifier, action, RuleRef(grant.pattern))

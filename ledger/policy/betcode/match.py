"""The rules that match a call, and their precedence (betcode.md, "Permission Rule Matching")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.matching import PathMatcher, exact_glob, ignore_glob, ignore_reaches
from ledger.policy.shell.model import Access, Analysis, ShellCommand, Wrapper, accesses
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import ANY_FILE, UNKNOWN_HOME, possible_roots, within
from ledger.policy.toolrules.commands import BASH, covers, glob_takes, reaches, specifier_matches, touched
from ledger.policy.toolrules.paths import (
    ACCESS_RULE,
    EDITORS,
    absolute,
    both_forms,
    governs,
    relative,
    split_root,
)
from ledger.policy.toolrules.rule import ToolRule, ToolRuleOptions, is_glob, names

TOP_TIER = 2
_STRICTEST_FIRST = (Verdict.DENY, Verdict.ASK, Verdict.ALLOW)

MatchesToolRule = Callable[[ToolRule], bool]


class TierDecision(msgspec.Struct, frozen=True):
    """The verdict of the rules on a unit; `rules` are those of the deciding tier and action, in file order."""

    verdict: Verdict
    rules: tuple[ToolRule, ...]

    @property
    def refs(self) -> tuple[RuleRef, ...]:
        return tuple(rule.ref for rule in self.rules)


def tier(rule: ToolRule) -> int:
    """Return 2 for `Tool(specifier)`, 1 for the exact tool, 0 for a glob over tools or a bare MCP server."""
    if rule.specifier is not None:
        return TOP_TIER
    return 0 if is_glob(rule.tool) else 1


def decide(rules: Iterable[ToolRule], matches: MatchesToolRule) -> TierDecision | None:
    """Return the decision of the rules that match; None if none does.

    A milder, more specific rule lifts a stricter, wider one only if its layer ranks at least as high, and never a final
    deny: a repository's settings must not undo the denies of its user.
    """
    matching = [rule for rule in rules if matches(rule)]
    if not matching:
        return None
    best = max(map(tier, matching))
    deciding = _strictest([rule for rule in matching if tier(rule) == best])
    rank = max(rule.rank for rule in deciding.rules)
    outranking = [
        rule
        for rule in matching
        if tier(rule) < best
        and _stricter(rule.action, deciding.verdict)
        and (rule.rank > rank or (rule.final and rule.action is Verdict.DENY))
    ]
    return _strictest(outranking) if outranking else deciding


def _stricter(one: Verdict, other: Verdict) -> bool:
    return _STRICTEST_FIRST.index(one) < _STRICTEST_FIRST.index(other)


def _strictest(rules: Sequence[ToolRule]) -> TierDecision:
    for action in _STRICTEST_FIRST:
        chosen = tuple(rule for rule in rules if rule.action is action)
        if chosen:
            return TierDecision(action, chosen)
    raise AssertionError("there is at least one rule")


class CommandUnit(msgspec.Struct, frozen=True):
    """A command with the commands that it wraps (`sudo rm x` with `rm x`), which deny and ask rules also match."""

    text: str
    command: ShellCommand
    wrapped: tuple[ShellCommand, ...]


class FileUnit(msgspec.Struct, frozen=True):
    """A redirection: its accesses and its file, as far as known."""

    text: str
    accesses: tuple[Access, ...]
    path: str


Unit = CommandUnit | FileUnit


def units_of(analysis: Analysis) -> tuple[Unit, ...]:
    """Return commands in source order, then redirections in source order."""
    groups: list[list[ShellCommand]] = []
    for command in analysis.commands:
        wrapped = command.wrapper in (Wrapper.TRANSPARENT, Wrapper.OPAQUE)
        if wrapped and groups:
            groups[-1].append(command)
        else:
            groups.append([command])
    commands = [
        CommandUnit(_text(first), first, tuple(rest)) for first, *rest in groups if first.words or first.assignments
    ]
    files = [
        FileUnit(f"{redirect.operator} {redirect.target.raw}", touching, loosen(redirect.target))
        for command in analysis.commands
        for redirect in command.redirects
        if (touching := accesses(redirect))
    ]
    return (*commands, *files)


def _text(command: ShellCommand) -> str:
    return " ".join(command.text.split())


class Matching:
    """Matches rules with units, for one working directory and home."""

    def __init__(self, options: ToolRuleOptions) -> None:
        self.cwd, self.base, self.home, self.facts = options.cwd, options.base, options.home, options.facts
        self._is_placed = options.is_placed

    # --- files
    def denies_path(self, rule: ToolRule, path: str) -> bool:
        """Return whether a deny or ask matches: either form of the path, ignoring case, in every reading of `/`.

        A relative pattern matches at any depth.
        """
        return self.denies(rule, both_forms(path, self.facts))

    def denies_glob(self, rule: ToolRule, forms: Sequence[str]) -> bool:
        """Return whether a rule about particular files matches any of the forms, which may be globs."""
        everything = self.denies(rule, (f"{self.cwd}/{ANY_FILE}",))
        return self.denies(
            rule, [form for form in forms if not (everything and within(form, self.cwd))], ignore_reaches
        )

    def denies(self, rule: ToolRule, forms: Sequence[str], glob: Callable[[str], PathMatcher] = ignore_glob) -> bool:
        """Return whether a deny or ask rule matches a file in any of its forms."""
        assert rule.specifier is not None
        return any(
            inner is not None and glob(pattern)(inner)
            for reading, pattern in self._readings(rule.specifier)
            for form in forms
            for root in possible_roots(reading, form)
            for inner in (relative(form, root),)
        )

    def allows_path(self, rule: ToolRule, path: str) -> bool:
        """Return whether an allow matches: both forms of the path, with case, from the pattern's root."""
        assert rule.specifier is not None
        spelt, rest = split_root(rule.specifier)
        root = {"": self.cwd if self._is_placed else None, "//": "/", "~/": self.home}.get(spelt)
        if root is None:  # `/x` may mean two roots and nothing is in both, or the root is unknown
            return False
        resolved = self.facts.resolve(root)
        lexical, real = relative(path, root), relative(self.facts.resolve(path), resolved)
        matches = exact_glob(rest)
        return lexical is not None and real is not None and matches(lexical) and matches(real)

    def _readings(self, specifier: str) -> list[tuple[str, str]]:
        spelt, rest = split_root(specifier)
        if spelt == "~/":
            return [(self.home or UNKNOWN_HOME, rest)]
        if spelt == "//":
            return [("/", rest)]
        readings = [(self.cwd, rest), (self.facts.resolve(self.cwd), rest)]
        if spelt == "/":
            readings.append(("/", rest))
        elif rest.startswith("../"):
            readings.append(("/", absolute(rest, self.cwd, self.home)))
        return readings

    def file_tool(self, rule: ToolRule, tool: str, path: str | None) -> bool:
        allows = rule.action is Verdict.ALLOW
        if rule.specifier is None:
            return names(rule, tool) or (not allows and rule.tool == "Edit" and tool in EDITORS)
        if path is None or not governs(rule.tool, tool):
            return False
        return self.allows_path(rule, path) if allows else self.denies_path(rule, path)

    # --- commands
    def restricts_words(self, rule: ToolRule, words: Sequence[str]) -> bool:
        """Return whether a deny or ask with a specifier matches a command in one spelling, or a file that it names."""
        if rule.specifier is None or not words:
            return False
        if rule.tool == BASH:
            return reaches(rule.specifier, words)
        return any(
            rule.tool == ACCESS_RULE[access] and self.denies_path(rule, self.place(word, self.base))
            for access, word in touched(words)
        )

    def restricts_redirect(self, rule: ToolRule, accesses: Sequence[Access], path: str, directory: str) -> bool:
        if rule.specifier is None:
            return names(rule, BASH)
        governed = any(rule.tool == ACCESS_RULE[access] for access in accesses)
        return governed and self.denies_path(rule, self.place(path, directory))

    def place(self, word: str, directory: str) -> str:
        return absolute(word, directory, self.home)

    def allows_command(self, rule: ToolRule, command: ShellCommand) -> bool:
        if rule.specifier is None:
            return names(rule, BASH)
        return rule.tool == BASH and covers(rule.specifier, command)

    # --- everything else
    def other_tool(self, rule: ToolRule, tool: str, value: Any) -> bool:
        """Return whether a rule matches another tool: a domain, a sub-agent, or `member:glob` (deny and ask)."""
        return names(rule, tool) if rule.specifier is None else specifier_matches(rule, tool, value, _has_member)


def _has_member(specifier: str, value: Mapping[str, Any]) -> bool:
    member, _, wanted = specifier.partition(":")
    return member in value and glob_takes(wanted, value[member])

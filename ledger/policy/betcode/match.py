"""Matching of betcode rules with units: widely for deny and ask, narrowly for allow (betcode.md, "Rule format")."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ledger.core.policy import Verdict
from ledger.policy.betcode.tiers import names
from ledger.policy.matching.paths import PathMatcher, exact_glob, ignore_glob, ignore_reaches
from ledger.policy.matching.wildcard import name_glob
from ledger.policy.shell import Access, ShellCommand
from ledger.policy.spelled import ANY_FILE
from ledger.policy.toolrules.calls import BASH, WEB_FETCH
from ledger.policy.toolrules.commands import covers, reaches
from ledger.policy.toolrules.domains import address_of, reaches_host
from ledger.policy.toolrules.filecommands import touched
from ledger.policy.toolrules.options import ToolRuleOptions
from ledger.policy.toolrules.pathrules import ACCESS_RULE, governs, split_root
from ledger.policy.toolrules.paths import EDITORS, absolute, both_forms, relative, within
from ledger.policy.toolrules.rule import ToolRule
from ledger.policy.unknown import UNKNOWN_HOME, possible_roots

_SUBAGENTS = frozenset({"Agent", "Task"})


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
        return self._denies(rule, both_forms(path, self.facts), ignore_glob)

    def denies_any(self, rule: ToolRule, forms: Sequence[str]) -> bool:
        """Return whether a deny or ask rule matches a file in any of its forms."""
        return self._denies(rule, forms, ignore_glob)

    def denies_glob(self, rule: ToolRule, forms: Sequence[str]) -> bool:
        """Return whether a rule about particular files matches any of the forms, which may be globs."""
        everything = self._denies(rule, (f"{self.cwd}/{ANY_FILE}",), ignore_glob)
        return self._denies(
            rule, [form for form in forms if not (everything and within(form, self.cwd))], ignore_reaches
        )

    def _denies(self, rule: ToolRule, forms: Sequence[str], glob: Callable[[str], PathMatcher]) -> bool:
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
        """Return every root that a pattern may have, with the pattern from there."""
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
        if rule.specifier is None:
            return names(rule, tool)
        if rule.tool != tool and not {rule.tool, tool} <= _SUBAGENTS:
            return False
        if tool == WEB_FETCH:
            return reaches_host(rule, address_of(value))
        if not isinstance(value, Mapping):
            return False
        if tool in _SUBAGENTS and value.get("subagent_type") == rule.specifier:
            return True
        member, _, wanted = rule.specifier.partition(":")
        return rule.action is not Verdict.ALLOW and member in value and _has(value[member], wanted)


def _has(value: Any, wanted: str) -> bool:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return name_glob(wanted)(text)

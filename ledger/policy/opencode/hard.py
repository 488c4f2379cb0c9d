"""OpenCode rules for one command in the hardened profile."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import Final

from ledger.core.policy import Verdict, strictest
from ledger.policy.opencode.commands import ENTERING
from ledger.policy.opencode.compiled import (
    CompiledGrants,
    CompiledRule,
    CompiledRules,
    last_match,
    last_narrow_match,
    restricting,
)
from ledger.policy.opencode.places import OpenCodePlaces, below
from ledger.policy.reach import leads_out
from ledger.policy.shell import Access, CommandRules, Ruling, ShellCommand, Spelling, SpellingForm
from ledger.policy.spelled import spelled_paths, with_inside
from ledger.policy.toolrules.commands import visible_text

_HIDDEN_BLANK: Final = "\0"
_SHADOW_TESTS_MAX: Final = 1_000_000
"""Pairs of rules, at most, that are compared; with more, every rule counts as in force, which only asks more."""


class OpenCodeCommands(CommandRules):
    """The rules and grants of one call. `final_denies`: no grant lifts a configured deny.

    `asks_first`: folders outside of the project are asked about in a call of their own.
    """

    def __init__(
        self,
        rules: CompiledRules,
        grants: CompiledGrants,
        places: OpenCodePlaces,
        *,
        final_denies: bool,
        asks_first: bool = False,
    ) -> None:
        self.rules, self.grants, self.places, self.final_denies = rules, grants, places, final_denies
        self.asks_first = asks_first
        self.bash = rules.of("bash")

    def allow(self, command: ShellCommand) -> Ruling | None:
        """Match the words as written, or without quotes that hide nothing; the last rule that matches decides."""
        if command.assignments or not command.words:
            return None
        for shown in dict.fromkeys(_narrow_texts(command)):
            rule = last_narrow_match(shown.replace(_HIDDEN_BLANK, " "), shown, self.bash)
            if rule is not None and rule.action is Verdict.ALLOW:
                return Ruling(Verdict.ALLOW, rule.refs, spelled=self._spelled(shown))
            if granted := [grant for grant in self.grants.about(shown) if grant.narrow(shown)]:
                return Ruling(Verdict.ALLOW, (), tuple(grant.grant_id for grant in granted), self._spelled(shown))
        return None

    def _spelled(self, shown: str) -> tuple[tuple[str, ...], ...]:
        """Return the words of all rules and grants that allow a command: one may name more than the deciding one."""
        rules = [rule.text for rule in self.bash.about(shown) if rule.action is Verdict.ALLOW and rule.narrow(shown)]
        granted = [grant.text for grant in self.grants.about(shown) if grant.narrow(shown)]
        return tuple(dict.fromkeys(tuple(text.split()) for text in (*rules, *granted)))

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        texts = tuple(dict.fromkeys((command.text, " ".join(word.raw for word in command.words))))
        for text in texts:
            rule = last_match(text, self.bash)
            if rule is not None and rule.action is Verdict.ALLOW and _is_exactly(rule.text, text):
                return Ruling(Verdict.ALLOW, rule.refs)
        ids = tuple(
            grant.grant_id
            for grant in self.grants.about(*texts)
            if any(_is_exactly(grant.text, text) for text in texts)
        )
        return Ruling(Verdict.ALLOW, (), ids) if ids else None

    def allow_statement(self, command: ShellCommand) -> Ruling | None:
        rule = last_match(command.statement, self.bash)
        if rule is not None and rule.action is Verdict.ALLOW and _is_exactly(rule.text, command.statement):
            return Ruling(Verdict.ALLOW, rule.refs)
        statement = command.statement
        ids = tuple(grant.grant_id for grant in self.grants.about(statement) if _is_exactly(grant.text, statement))
        return Ruling(Verdict.ALLOW, (), ids) if ids else None

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        full = self.places.absolute(path, directory)
        if self.places.outside(full):
            return None
        rule = last_match(self.places.from_worktree(full), self.rules.of(access.value))
        if rule is None:  # `cat < f` needs no more than `cat f`, for which only rules that restrict it apply
            return Ruling(Verdict.ALLOW) if access is Access.READ else None
        return Ruling(Verdict.ALLOW, rule.refs) if rule.action is Verdict.ALLOW else None

    def allows_everything(self) -> bool:
        return self.rules.allow_everything

    def restrict(self, spelling: Spelling) -> Ruling | None:
        rule = last_match(spelling.text, self.bash)
        if rule is None or rule.action is Verdict.ALLOW or self._lifted(rule, spelling.text):
            return None
        if rule.catches_all and (spelling.form is not SpellingForm.WRITTEN or self._merely_enters(rule, spelling)):
            return None
        return Ruling(rule.action, rule.refs)

    def _merely_enters(self, rule: CompiledRule, spelling: Spelling) -> bool:
        return rule.action is Verdict.ASK and spelling.words[0] in ENTERING

    def _lifted(self, rule: CompiledRule, text: str) -> bool:
        if rule.action is Verdict.DENY and self.final_denies:
            return False
        return any(grant.narrow(text) for grant in self.grants.about(text))

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        full = self.places.absolute(self.places.expand(path), directory)
        asked = [(access.value, self.places.from_worktree(full))]
        if self.places.outside(full):
            asked.append(("external_directory", below(posixpath.dirname(full))))
        found = [last_match(text, self.rules.of(permission)) for permission, text in asked]
        for action in (Verdict.DENY, Verdict.ASK):
            for rule in found:
                if rule is not None and rule.action is action:
                    return Ruling(action, rule.refs)
        return None

    def guards_files(self) -> bool:
        return any(self.rules.of(permission).restricting for permission in ("read", "edit")) or any(
            rule.action is not Verdict.ALLOW for rule in self.rules.of("external_directory").all
        )

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        known = [rules for access in accesses if (rules := self.rules.of(access.value)).restricting]
        if not known:
            return None
        forms = spelled_paths(path, directory, self.places.home, self.places.facts)
        texts = [text for form in forms for text in with_inside(self.places.from_worktree(form))]
        found = [rule for rules in known for text in texts if (rule := restricting(text, rules))]
        strict = strictest(rule.action for rule in found) if found else None
        rule = next((rule for rule in found if rule.action is strict), None)
        return None if rule is None else Ruling(rule.action, rule.refs)

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        restricted = [rule for rule in self.bash.all if rule.action is not Verdict.ALLOW and "-" in rule.text]
        if len(restricted) * len(self.bash.all) <= _SHADOW_TESTS_MAX:
            restricted = [rule for rule in restricted if self._in_force(rule)]
        return [tuple(rule.text.split()) for rule in restricted if rule.text.strip("* ")]

    def restricting(self) -> tuple[str, ...]:
        return self.bash.restricting

    def outside(self, path: str, directory: str) -> bool:
        places = self.places
        return not self.asks_first and leads_out(path, directory, places.roots, places.facts, places.home)

    def _in_force(self, rule: CompiledRule) -> bool:
        """Return whether the rule decides about some text that it matches; a later rule may match all of them."""
        last = last_match(rule.text, self.bash)
        return (last is None or last.action is not Verdict.ALLOW) and not self._lifted(rule, rule.text)

    def enter(self, directory: str, target: str) -> str | None:
        return self.places.enter(directory, target)


def _narrow_texts(command: ShellCommand) -> Iterator[str]:
    yield " ".join(_hide(word.raw) for word in command.words)
    yield visible_text(command.words)


def _hide(raw: str) -> str:
    """Replace the blanks inside a word, so that no pattern takes one for the end of the word."""
    for blank in " \t\n":
        raw = raw.replace(blank, _HIDDEN_BLANK)
    return raw


def _is_exactly(pattern: str, text: str) -> bool:
    return pattern == text and "*" not in pattern and "?" not in pattern

"""Codelia rules for one command in the hardened profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.codelia.judge import CodeliaJudge, MatchesCodeliaRule
from ledger.policy.codelia.rule import SHELL, CodeliaRule
from ledger.policy.codelia.sandbox import real_cd
from ledger.policy.codelia.text import normalise
from ledger.policy.reach import leads_out
from ledger.policy.shell import Access, Analysis, CommandRules, Ruling, ShellCommand, Spelling, SpellingForm
from ledger.policy.shell.line_glob import spells
from ledger.policy.toolrules.commands import covered_texts, visible_text

_FILE_TOOLS: Final = {Access.READ: frozenset({"read"}), Access.EDIT: frozenset({"write", "edit", "apply_patch"})}


class CodeliaCommands(CommandRules):
    """Rules and grants of one call. Codelia has no rules for paths, only for the tools that read and write files.

    `text` is the normalised line.
    """

    def __init__(self, judge: CodeliaJudge, text: str = "") -> None:
        self.judge, self.text = judge, text

    def allow(self, command: ShellCommand) -> Ruling | None:
        """Allow a command without redirections.

        Only `allow_line` allows a redirection, even one without effect (codelia.md 6.4, supplement).
        """
        if command.redirects or command.assignments:
            return None
        text = visible_text(command.words)
        return self._allowing(command, lambda rule: _covers(rule, command, text))

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        """Allow a command that a rule spells whole, which only a `command_glob` without wildcards does.

        A `command` is only the beginning of one.
        """
        if command.redirects or command.assignments:
            return None
        written = " ".join(word.raw for word in command.words)
        if "*" in written or "?" in written:
            return None
        return self._allowing(command, lambda rule: rule.glob == written and _covers(rule, command, written))

    def allow_line(self, analysis: Analysis) -> Ruling | None:
        first = analysis.top[0] if analysis.top else None
        if first is None:
            return None

        def covers(rule: CodeliaRule) -> bool:
            if rule.glob is None or rule.matches is None or not rule.matches(self.text):
                return False
            return _begins(rule, first) and spells(rule.glob, analysis)

        return self._allowing(first, covers)

    def _allowing(self, command: ShellCommand, matches: MatchesCodeliaRule) -> Ruling | None:
        judge = self.judge
        rule = judge.rules.allow.first(command.name, lambda rule: _speaks(rule) and matches(rule))
        if rule is not None:
            fitting = [one for one in judge.rules.allow.rules if _speaks(one) and matches(one)]
            return Ruling(Verdict.ALLOW, (rule.ref,), spelled=tuple(map(_spelled, fitting)))
        # The beginning of a rule is compared with the words as the shell reads them, the rest with texts as written.
        read = " ".join(word.resolved or "" for word in command.words)
        known = judge.grants.about(self.text, read, *covered_texts(command))
        granted = [(grant_id, rule) for grant_id, rule in known if _speaks(rule) and matches(rule)]
        if not granted:
            return None
        return Ruling(Verdict.ALLOW, (), tuple(one for one, _ in granted), tuple(_spelled(rule) for _, rule in granted))

    def restrict(self, spelling: Spelling) -> Ruling | None:
        text = normalise(spelling.text)
        written = spelling.form is SpellingForm.WRITTEN

        def reaches(rule: CodeliaRule) -> bool:
            if not _speaks(rule) or (rule.whole and not written):
                return False
            if rule.words is not None and (not rule.words or spelling.words[: len(rule.words)] != rule.words):
                return False
            return rule.matches is None or rule.matches(text)

        rule = self.judge.rules.deny.first(spelling.words[0], reaches)
        return Ruling(Verdict.DENY, (rule.ref,)) if rule else None

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        for rule in self.judge.rules.deny.rules:
            if rule.whole and rule.tool in _FILE_TOOLS[access]:
                return Ruling(Verdict.DENY, (rule.ref,))
        return None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        """Return the words of both members together: a rule for `git push` and `*--force*` is `git push --force`."""
        found = []
        for rule in self.judge.rules.deny.rules:
            if _speaks(rule) and not rule.whole:
                pattern = (word.strip("*") for word in normalise(rule.glob or "").split(" "))
                found.append((*(rule.words or ()), *(word for word in pattern if word)))
        return [words for words in found if words]

    def restricting(self) -> tuple[str, ...]:
        rules = (rule for rule in self.judge.rules.deny.rules if _speaks(rule) and not rule.whole)
        return tuple(" ".join(_spelled(rule)) for rule in rules)

    def outside(self, path: str, directory: str) -> bool:
        options = self.judge.options
        root = options.sandbox_root or options.cwd
        return leads_out(path, directory, (root,), options.facts)

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Allow paths inside the sandbox, if a rule allows the tools that read or change files."""
        if self.outside(path, directory):
            return None
        for rule in self.judge.rules.allow.rules:
            if rule.whole and rule.tool in _FILE_TOOLS[access]:
                return Ruling(Verdict.ALLOW, (rule.ref,))
        return None

    def enter(self, directory: str, target: str) -> str | None:
        options = self.judge.options
        if options.sandbox_root is None:
            return None
        return real_cd(target, directory, options.sandbox_root, options.facts)


def _speaks(rule: CodeliaRule) -> bool:
    return rule.tool == SHELL and rule.skill is None and not rule.inert


def _spelled(rule: CodeliaRule) -> tuple[str, ...]:
    """Return the words of both members: a rule for `git push` and `*--force*` matches `git push --force`."""
    words = rule.words or ()
    pattern = tuple(normalise(rule.glob or "").split())
    return pattern if pattern[: len(words)] == words else (*words, *pattern)


def _begins(rule: CodeliaRule, command: ShellCommand) -> bool:
    """Return whether a command begins with a rule's words as the shell reads them; no quote may hide a word's end."""
    if rule.words is None:
        return True
    words = [word.resolved for word in command.words[: len(rule.words)]]
    return bool(rule.words) and words == list(rule.words)


def _covers(rule: CodeliaRule, command: ShellCommand, text: str) -> bool:
    return _begins(rule, command) and (rule.matches is None or rule.matches(text))

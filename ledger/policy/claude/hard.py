"""Claude Code rules for one command in the hardened profile."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.claude.bash import BashRules
from ledger.policy.claude.line import plain_stage
from ledger.policy.claude.places import ClaudePlaces
from ledger.policy.claude.read_files import looks_outside
from ledger.policy.claude.words import peeled_for_reading
from ledger.policy.facts import FileKind
from ledger.policy.reach import leads_out
from ledger.policy.shell.model import Access, CommandRules, Ruling, ShellCommand, Spelling, Word
from ledger.policy.spelled import spelled_paths
from ledger.policy.toolrules.commands import (
    covered_texts,
    covers,
    has_wildcard,
    matcher,
    normal_specifier,
    specifier_words,
    spelled_by,
    touched,
)
from ledger.policy.toolrules.paths import absolute, is_access_rule
from ledger.policy.toolrules.rule import ToolRule


class ClaudeCommands(CommandRules):
    """Rules and grants of one call. The faithful profile handles denies and asks of a whole tool."""

    def __init__(self, rules: BashRules) -> None:
        self.rules, self.places = rules, rules.places

    def allow(self, command: ShellCommand) -> Ruling | None:
        if self.rules.allows_whole_tool():
            why = self.rules.allowing(())
            return Ruling(Verdict.ALLOW, why.rules, why.grants) if why else Ruling(Verdict.ALLOW)
        return self._allowing(command, exactly=False) or self._free(command)

    def _free(self, command: ShellCommand) -> Ruling | None:
        """Allow commands that need no rule; a read-only one must stay in the project, also with words from `xargs`."""
        stage = plain_stage(
            replace(command, words=tuple(Word("x", "x") if one.inside else one for one in command.words))
        )
        words = stage.words[peeled_for_reading(stage) :]
        if not self.rules.runs_free(stage) or looks_outside(words, self.places):
            return None
        return Ruling(Verdict.ALLOW)

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        return self._allowing(command, exactly=True)

    def _allowing(self, command: ShellCommand, *, exactly: bool) -> Ruling | None:
        def fits(rule: ToolRule) -> bool:
            text = rule.specifier
            return text is not None and not (exactly and has_wildcard(text)) and covers(text, command)

        fitting = [rule for rule in self.rules.allow if fits(rule)]
        granted = [(grant_id, rule) for grant_id, rule in self.rules.granted(covered_texts(command)) if fits(rule)]
        if not fitting and not granted:
            return None
        refs = tuple(rule.ref for rule in fitting)
        rules = (*fitting, *(rule for _, rule in granted))
        return Ruling(Verdict.ALLOW, refs, () if refs else tuple(one for one, _ in granted), spelled_by(rules))

    def restrict(self, spelling: Spelling) -> Ruling | None:
        """Apply deny and ask rules.

        One without `*` matches exactly its words; near misses are in `restricted_words`.
        """
        text = " ".join(spelling.words)
        for action, rules in ((Verdict.DENY, self.rules.deny), (Verdict.ASK, self.rules.ask)):
            refs = tuple(rule.ref for rule in rules if _is_about(rule.specifier or "*", text))
            refs += tuple(
                rule.ref
                for access, word in touched(spelling.words)
                for rule, _ in self._restricting(action, access, word, self.places.base)
            )
            if refs:
                return Ruling(action, tuple(dict.fromkeys(refs)))
        return None

    def _restricting(self, action: Verdict, access: Access, word: str, directory: str) -> list[tuple[ToolRule, bool]]:
        # The program does not ask about files that a command reads; asking would be stricter than wanted.
        if action is Verdict.ASK and access is Access.READ:
            return []
        return self.places.reaching(action, access, absolute(word, directory, self.places.home))

    def restrict_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        for action in (Verdict.DENY, Verdict.ASK):
            found = self.places.reaching(action, access, absolute(path, directory, self.places.home))
            if found:
                refs: tuple[RuleRef, ...] = tuple(rule.ref for rule, _ in found)
                return Ruling(action, refs)
        return None

    def guards_files(self) -> bool:
        restricting = [rule for rule in self.places.rules if rule.action is not Verdict.ALLOW]
        return any(is_access_rule(rule, access) for rule in restricting for access in Access)

    def restrict_file(self, accesses: Sequence[Access], path: str, directory: str) -> Ruling | None:
        """Apply the rules for files; a file that a command reads can be denied, but is never asked about."""
        forms = spelled_paths(path, directory, self.places.home, self.places.facts)
        asked = [access for access in accesses if access is not Access.READ]
        for action, kinds in ((Verdict.DENY, accesses), (Verdict.ASK, asked)):
            found = [rule for access in kinds for rule in self.places.naming(action, access, forms)]
            if found:
                return Ruling(action, tuple(rule.ref for rule in found))
        return None

    def restricted_words(self) -> Sequence[tuple[str, ...]]:
        return [specifier_words(rule.specifier or "*") for rule in (*self.rules.deny, *self.rules.ask)]

    def restricting(self) -> tuple[str, ...]:
        return tuple(normal_specifier(rule.specifier or "*") for rule in (*self.rules.deny, *self.rules.ask))

    def outside(self, path: str, directory: str) -> bool:
        places = self.places
        if not leads_out(path, directory, (places.cwd,), places.facts, places.home):
            return False
        return not places.allowing(Access.READ, absolute(path, directory, places.home))

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Apply the rules for files, and `acceptEdits`; reading inside the project needs no rule."""
        full = absolute(path, directory, self.places.home)
        if self.outside(path, directory) or self.places.protected(full):
            return None
        found = self.places.allowing(access, full)
        reads = access is Access.READ and self.places.inside(full)
        if not found and not reads and not self.rules.allows_files(access):
            return None
        return Ruling(Verdict.ALLOW, tuple(rule.ref for rule in found))

    def enter(self, directory: str, target: str) -> str | None:
        """Return the target if it is inside the working directory, or a `Read(…)` rule allows it."""
        path = absolute(target, directory, self.places.home)
        if not may_enter(self.places, path):
            return None
        return self.places.facts.resolve(path)


def may_enter(places: ClaudePlaces, path: str) -> bool:
    if places.facts.kind(path) is FileKind.FILE:
        return False
    real = places.facts.resolve(path)
    return all(places.inside(form) or places.allowing(Access.READ, form) for form in dict.fromkeys((path, real)))


def _is_about(specifier: str, text: str) -> bool:
    return matcher(specifier)(text) if has_wildcard(specifier) else text == normal_specifier(specifier)

"""Claude Code's rules and one call's grants, applied to one command or file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

from ledger.core.policy import RuleRef, Verdict
from ledger.policy.claude.places import ClaudePlaces
from ledger.policy.claude.readonly import CHANGES, files_of, is_read_only
from ledger.policy.facts import FileFacts, FileKind
from ledger.policy.matching.wildcard import Matcher, compile_stars, optional_tail
from ledger.policy.reach import leads_out
from ledger.policy.shell.forms.objections import worry
from ledger.policy.shell.model import Access, CommandRules, Ruling, ShellCommand, Spelling, Word
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import spelled_paths
from ledger.policy.toolrules.commands import (
    BASH,
    covered_texts,
    covers,
    has_wildcard,
    matcher,
    normal_specifier,
    specifier_words,
    spelled_by,
    touched,
)
from ledger.policy.toolrules.grants import GrantedRules
from ledger.policy.toolrules.paths import absolute
from ledger.policy.toolrules.rule import ToolRule

_PATTERNS_MAX: Final = 4_096
_PREFIX: Final = ":*"


class ClaudeCommands(CommandRules):
    """The rules for commands and files, for one working directory and mode."""

    def __init__(self, rules: Sequence[ToolRule], granted: GrantedRules, places: ClaudePlaces, mode: str) -> None:
        self.places, self.mode = places, mode
        scoped = [rule for rule in rules if rule.tool == BASH and rule.specifier is not None]
        denied = [rule for rule in granted.denying if rule.tool == BASH]
        self._deny = [*(rule for rule in scoped if rule.action is Verdict.DENY), *denied]
        self._ask = [rule for rule in scoped if rule.action is Verdict.ASK]
        self._allow = [rule for rule in scoped if rule.action is Verdict.ALLOW]
        self._granted = granted
        whole = [rule for rule in rules if rule.specifier is None and rule.action is Verdict.ALLOW]
        self._whole = tuple(rule.ref for rule in whole if rule.tool == BASH)
        self._file_tools = {rule.tool for rule in whole}

    def _grants(self, texts: Iterable[str] = ()) -> list[tuple[str, ToolRule]]:
        """Return the grants for Bash that may match one of these texts, and those for the whole tool."""
        found = self._granted.about(*texts)
        return [(grant_id, rule) for grant_id, rule in found if rule.tool == BASH and rule.action is Verdict.ALLOW]

    # --- allow

    def allow_all(self) -> Ruling | None:
        """Return the rules, else the grants, that allow the whole tool."""
        if self._whole:
            return Ruling(Verdict.ALLOW, self._whole)
        ids = tuple(grant_id for grant_id, rule in self._grants() if rule.specifier is None)
        return Ruling(Verdict.ALLOW, (), ids) if ids else None

    def allow(self, command: ShellCommand) -> Ruling | None:
        return self.allow_by_rule(command) or (Ruling(Verdict.ALLOW) if self.runs_free(command) else None)

    def allow_by_rule(self, command: ShellCommand) -> Ruling | None:
        return self.allow_all() or self._allowing(command, exactly=False)

    def allow_exactly(self, command: ShellCommand) -> Ruling | None:
        return self._allowing(command, exactly=True)

    def allow_text(self, text: str) -> Ruling | None:
        """Return the rules and grants without `*` that are equal to a whole line."""
        found = tuple(rule.ref for rule in self._allow if rule.specifier == text and not has_wildcard(text))
        ids = tuple(grant_id for grant_id, rule in self._grants((text,)) if rule.specifier == text)
        return Ruling(Verdict.ALLOW, found, ids) if found or (ids and not has_wildcard(text)) else None

    def _allowing(self, command: ShellCommand, *, exactly: bool) -> Ruling | None:
        text = written(command)

        def fits(rule: ToolRule) -> bool:
            wanted = rule.specifier
            if wanted is None or (exactly and has_wildcard(wanted)):
                return False
            return (matches(wanted, text) or matches(wanted, command.text)) and covers(wanted, command)

        fitting = [rule for rule in self._allow if fits(rule)]
        granted = [(grant_id, rule) for grant_id, rule in self._grants(covered_texts(command)) if fits(rule)]
        if not fitting and not granted:
            return None
        refs = tuple(rule.ref for rule in fitting)
        rules = (*fitting, *(rule for _, rule in granted))
        return Ruling(Verdict.ALLOW, refs, () if refs else tuple(one for one, _ in granted), spelled_by(rules))

    def runs_free(self, command: ShellCommand) -> bool:
        """Return whether a command needs no rule: it reads the project, or changes it in the mode `acceptEdits`."""
        if is_read_only(command):
            return command.name == "git" or all(self._may_see(path) for _, path, _ in files_of(command))
        return self.mode == "acceptEdits" and command.name in CHANGES and worry(command) is None

    def _may_see(self, path: str) -> bool:
        full = self.places.absolute(path)
        return path == "-" or self.places.inside(full) or bool(self.places.allowing(Access.READ, full))

    # --- deny and ask

    def restrict(self, spelling: Spelling) -> Ruling | None:
        """Apply deny and ask rules.

        One without `*` matches exactly its words; near misses are in `restricted_words`.
        """
        return self._restrict(" ".join(spelling.words), spelling.words)

    def restrict_written(self, command: ShellCommand) -> Ruling | None:
        """Apply deny and ask rules to a command as written, its name and its files without quotes."""
        raw = [_named(command.words[0]), *(word.raw for word in command.words[1:])]
        return self._restrict(" ".join(raw), tuple(map(loosen, command.words)))

    def _restrict(self, text: str, words: tuple[str, ...]) -> Ruling | None:
        for action, rules in ((Verdict.DENY, self._deny), (Verdict.ASK, self._ask)):
            refs = tuple(rule.ref for rule in rules if _is_about(rule.specifier or "*", text))
            refs += tuple(
                rule.ref
                for access, word in touched(words)
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
        return self.places.guards()

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
        return [specifier_words(rule.specifier or "*") for rule in (*self._deny, *self._ask)]

    def restricting(self) -> tuple[str, ...]:
        return tuple(normal_specifier(rule.specifier or "*") for rule in (*self._deny, *self._ask))

    # --- files

    def facts_of_files(self) -> FileFacts:
        return self.places.facts

    def outside(self, path: str, directory: str) -> bool:
        places = self.places
        if not leads_out(path, directory, (places.cwd,), places.facts, places.home):
            return False
        return not places.allowing(Access.READ, absolute(path, directory, places.home))

    def allows_files(self, access: Access) -> bool:
        """Return whether every file may be read or changed: by a rule for the whole tool, or in `acceptEdits` mode."""
        if self.mode == "acceptEdits" or "Edit" in self._file_tools:
            return True
        return access is Access.READ and "Read" in self._file_tools

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Apply the rules for files, and `acceptEdits`; reading inside the project needs no rule."""
        full = absolute(path, directory, self.places.home)
        if self.outside(path, directory) or self.places.protected(full):
            return None
        found = self.places.allowing(access, full)
        reads = access is Access.READ and self.places.inside(full)
        if not found and not reads and not self.allows_files(access):
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


def written(command: ShellCommand) -> str:
    """Return the command as written, its name without quotes."""
    if not command.words:
        return command.text
    return _named(command.words[0]) + command.text.removeprefix(command.words[0].raw)


def _named(word: Word) -> str:
    """Return a name without its quotes, unless they hide a blank."""
    name = word.resolved
    return word.raw if name is None or word.raw.startswith("$'") or len(name.split()) != 1 else name


def matches(specifier: str, text: str) -> bool:
    """Return whether a specifier matches a text: equal without `*`, else as a glob.

    Blanks count except for a prefix.
    """
    if not has_wildcard(specifier):
        return specifier.strip() == text
    match, prefix = _compiled(specifier)
    return match(" ".join(text.split()) if prefix else text)


@lru_cache(maxsize=_PATTERNS_MAX)
def _compiled(specifier: str) -> tuple[Matcher, bool]:
    """Return a matcher, and whether it is a prefix, for which the number of blanks does not matter."""
    text = specifier.strip()
    if text.endswith(_PREFIX):  # the text before it is literal, including a star
        bare = text.removesuffix(_PREFIX)
        return lambda value: value == bare or value.startswith(bare + " "), True
    if text.count("*") == 1 and text.endswith(" *"):
        return optional_tail(text, compile_stars), True
    return compile_stars(text), False

"""Claude Code's rules and one call's grants, applied to one command or path; commands that run without a rule.

Read-only commands, and the files that a command names, are judged by the tables of programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import RuleRef, Verdict
from ledger.policy.data_files import WordSet, read_file
from ledger.policy.facts import FileFacts, FileKind
from ledger.policy.matching import (
    Matcher,
    PathMatcher,
    compile_stars,
    ignore_glob,
    ignore_reaches,
    optional_tail,
)
from ledger.policy.shell.danger import unknown_word
from ledger.policy.shell.forms.nodes import Effect, NormalForm, OperandKind
from ledger.policy.shell.forms.objections import worry
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import Access, CommandRules, Ruling, ShellCommand, Spelling, Word
from ledger.policy.shell.unwrap import inmost
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import (
    ANY_FILE,
    UNKNOWN_FOLDER,
    UNKNOWN_HOME,
    is_unknown,
    leads_out,
    possible_roots,
    spelled_paths,
    within,
)
from ledger.policy.toolrules.commands import (
    BASH,
    GrantedRules,
    covered_texts,
    covers,
    has_wildcard,
    matcher,
    normal_specifier,
    specifier_words,
    spelled_by,
    touched,
)
from ledger.policy.toolrules.paths import ACCESS_RULE, absolute, is_access_rule, relative, split_root
from ledger.policy.toolrules.rule import ToolRule, ToolRuleOptions

USER, FLAG, MANAGED = "user", "flag", "managed"
_MANAGED_FOLDER: Final = "/etc/claude-code"

PROTECTED_FOLDERS: Final = frozenset(
    {".git", ".claude", ".vscode", ".idea", ".husky", ".cargo", ".devcontainer", ".yarn"}
)
"""The program's own list; the hardened profile has a few more for files that commands write."""
PROTECTED_FILES: Final = frozenset({
    ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".zshrc", ".zprofile", ".zshenv", ".zlogin",
    ".profile", ".gitconfig", ".gitmodules", ".ripgreprc", ".mcp.json", ".pre-commit-config.yaml", ".lefthook.yml", "lefthook.yml", ".bazelrc", ".bunfig.toml", "bunfig.toml", ".claude.json", ".npmrc", ".yarnrc",
    ".yarnrc.yml", ".envrc",
})  # fmt: skip
"""Files that can change the effect of later commands; never written without asking."""

_WORKTREES: Final = "/.claude/worktrees/"


class ClaudePlaces:
    """Rules with a path, for one working directory."""

    def __init__(self, options: ToolRuleOptions, rules: Sequence[ToolRule]) -> None:
        self.cwd, self.base, self.home, self.facts = options.cwd, options.base, options.home, options.facts
        self._is_placed = options.is_placed
        self.rules = [rule for rule in rules if rule.specifier is not None]
        self._real_cwd = options.facts.resolve(options.cwd)
        self._resolved: dict[str, str] = {}  # one call may name the same file many thousand times

    def guards(self) -> bool:
        """Return whether a rule restricts particular files."""
        return any(one.action is not Verdict.ALLOW and one.tool in ACCESS_RULE.values() for one in self.rules)

    def absolute(self, path: str) -> str:
        return absolute(path, self.base, self.home)

    def forms(self, path: str) -> tuple[str, ...]:
        """Return an absolute path as written and with its links followed."""
        resolved = self._resolve(path)
        return (path,) if resolved == path else (path, resolved)

    def _resolve(self, path: str) -> str:
        known = self._resolved.get(path)
        if known is None:
            known = self._resolved[path] = self.facts.resolve(path)
        return known

    def inside(self, path: str) -> bool:
        """Return whether a path is in the working directory in both forms."""
        return self._is_placed and within(path, self.cwd) and within(self._resolve(path), self._real_cwd)

    def protected(self, path: str) -> bool:
        for form in self.forms(path):
            names = form.casefold().split("/")
            folders = PROTECTED_FOLDERS & {*names}
            if folders == {".claude"} and _WORKTREES in form:
                continue
            if names[-1] in PROTECTED_FILES or folders:
                return True
        return False

    def critical(self, path: str) -> bool:
        """Return whether removal is always asked: `/` and its children, the home, the project and its parents."""
        bare = path.rstrip("/") or "/"
        return bare.count("/") <= 1 or bare == (self.home or UNKNOWN_HOME) or within(self.cwd, bare)

    def reaching(self, action: Verdict, access: Access, path: str) -> list[tuple[ToolRule, bool]]:
        """Return the rules of one action that match a path in any form, each with whether it matches it as written."""
        found = []
        forms = self.forms(path)
        for rule in self.rules:
            if rule.action is action and is_access_rule(rule, access):
                reached = [self._reaches(rule, form) for form in forms]
                if any(reached):
                    found.append((rule, reached[0]))
        return found

    def allowing(self, access: Access, path: str) -> list[ToolRule]:
        """Return the allow rules that together cover every form of a path; empty if one form is not covered.

        An allow to change a file also allows reading it.
        """
        kinds = (Access.READ, Access.EDIT) if access is Access.READ else (Access.EDIT,)
        rules: list[ToolRule] = []
        for form in self.forms(path):
            covering = [
                rule
                for rule in self.rules
                if rule.action is Verdict.ALLOW
                and any(is_access_rule(rule, kind) for kind in kinds)
                and self._reaches(rule, form)
            ]
            if not covering:
                return []
            rules += covering
        return list(dict.fromkeys(rules))

    def covers(self, rule: ToolRule, path: str) -> bool:
        """Return whether one rule covers every form of a path."""
        return all(self._reaches(rule, form) for form in self.forms(path))

    def restricting(self, action: Verdict, access: Access, forms: Sequence[str]) -> tuple[ToolRule, ...]:
        """Return the rules of one action that match a file in any form."""
        return tuple(
            rule
            for rule in self.rules
            if rule.action is action
            and is_access_rule(rule, access)
            and any(self._reaches(rule, form) for form in forms)
        )

    def naming(self, action: Verdict, access: Access, forms: Sequence[str]) -> tuple[ToolRule, ...]:
        """Return the rules of one action about particular files that match any form of a file; a form may be a glob."""
        return tuple(
            rule
            for rule in self.rules
            if rule.action is action
            and is_access_rule(rule, access)
            and any(self._reaches(rule, form, ignore_reaches) and self._is_particular(rule, form) for form in forms)
        )

    def _is_particular(self, rule: ToolRule, form: str) -> bool:
        """Return whether the form is outside the project, or the rule does not match every file of the project."""
        return not within(form, self.cwd) or not self._reaches(rule, f"{self.cwd}/{ANY_FILE}")

    def _reaches(self, rule: ToolRule, form: str, glob: Callable[[str], PathMatcher] = ignore_glob) -> bool:
        root, pattern = self._root(rule)
        if root is None:
            return False
        bases = {root, self._real_cwd} if root == self.cwd else {root}
        if is_unknown(root):
            bases = self._of_unknown(rule, root, form)
        for base in bases:
            inner = relative(form, base)
            if inner is not None and glob(pattern)(inner):
                return True
        return False

    def _of_unknown(self, rule: ToolRule, root: str, form: str) -> set[str]:
        """Return the folders that an unknown root may be; none for a rule that allows."""
        if rule.action is Verdict.ALLOW:
            return {root} if root == UNKNOWN_FOLDER and self._is_placed else set()
        return {*possible_roots(root, form)}

    def _root(self, rule: ToolRule) -> tuple[str | None, str]:
        """Return the root of a pattern and its rest; `/x` is relative to its settings file, rootless for --settings."""
        spelt, rest = split_root(rule.specifier or "")
        if spelt == "//":
            return "/", rest
        if spelt == "~/":
            return self.home or UNKNOWN_HOME, rest
        if spelt == "/" and rule.layer == USER:
            folder = "/.claude"
            return (self.home + folder, rest) if self.home else (UNKNOWN_HOME, folder + rest)
        if spelt == "/":
            return {FLAG: None, MANAGED: _MANAGED_FOLDER}.get(rule.layer, self.cwd), rest
        return self.cwd, rest


class _ReadOnly(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    anything: WordSet
    patterns: WordSet
    programs: WordSet
    docker: WordSet
    git: frozenset[str]
    git_lists: dict[str, WordSet]
    lines: frozenset[str]
    fed: WordSet
    safe_variables: WordSet


LISTS: Final = read_file(_ReadOnly, "policy/claude/readonly.toml")
CHANGES: Final = frozenset({"mkdir", "touch", "rm", "rmdir", "mv", "cp", "sed"})
"""Programs that need no rule in the mode `acceptEdits`."""

_EXPANDS = late_pattern(r"[$`]")
_NUMBER = late_pattern(r"\$[?$!#]")
_XARGS_OPTIONS: Final = frozenset({"-0", "-r", "-t", "-x"})
_HARMLESS: Final = frozenset({Effect.PLAIN, Effect.READ, Effect.FOLDER})
_LOOKED_AT: Final = frozenset({OperandKind.TEXT, OperandKind.NAME, OperandKind.READ, OperandKind.FOLDER})
_EFFECTS: Final = {
    Effect.READ: Access.READ,
    Effect.FOLDER: Access.READ,
    Effect.WRITE: Access.EDIT,
    Effect.OUTPUT: Access.EDIT,
}
_KINDS: Final = {
    OperandKind.READ: Access.READ,
    OperandKind.FOLDER: Access.READ,
    OperandKind.WRITE: Access.EDIT,
    OperandKind.EDIT: Access.EDIT,
    OperandKind.OUTPUT: Access.EDIT,
}


def is_read_only(command: ShellCommand) -> bool:
    """Return whether a command runs without a rule, if the files that it names may be read."""
    name, words = command.name, command.words
    if name == "xargs":
        inner = inmost(command)
        options = words[1 : len(words) - len(inner.words) + 1]
        known = inner is not command and all(word.raw in _XARGS_OPTIONS for word in options)
        return known and inner.name in LISTS.fed and _only_looks(inner, inner.words[:-1])
    if name is None:
        return False
    return " ".join(word.raw for word in words) in LISTS.lines or _only_looks(command, words)


def _only_looks(command: ShellCommand, words: Sequence[Word]) -> bool:
    name, form = command.name or "", form_of(command)
    if not _is_listed(name, form) or any(word.resolved is None and not _may_be_unknown(name, word) for word in words):
        return False
    if name not in LISTS.anything:
        if any(word.resolved is not None and _EXPANDS.search(word.raw) for word in words):
            return False
        if name not in LISTS.patterns and any(word.glob for word in words):
            return False
    if form is None:
        return all(word.resolved is not None for word in words)
    return (
        unknown_word(command, form) is None
        and not form.unclear
        and not form.edits
        and form.inner is None
        and all(option.effect in _HARMLESS for option in form.options)
        and all(operand.kind in _LOOKED_AT for operand in form.operands)
    )


def _may_be_unknown(name: str, word: Word) -> bool:
    told = name == "echo" and not word.several and _NUMBER.search(word.raw) is None
    return told or (word.inside and word.several)


def _is_listed(name: str, form: NormalForm | None) -> bool:
    if name not in ("git", "docker"):
        return name in LISTS.anything or name in LISTS.patterns or name in LISTS.programs
    if form is None or form.path_at != tuple(range(1, len(form.path) + 1)):
        return False
    path = " ".join(form.path)
    if name == "docker":
        return path in LISTS.docker
    known: frozenset[str] = LISTS.git_lists.get(path, WordSet())
    lists = not form.operands or not form.names.isdisjoint(LISTS.git_lists["needs"])
    return path in LISTS.git or (bool(known) and form.names <= known and lists)


def files_of(command: ShellCommand) -> Iterator[tuple[Access, str, Word | None]]:
    """Yield the files that a command names, by the table of its program; the word is None for the value of an option."""
    if command.name == "cd":
        yield from ((Access.READ, word.resolved or word.raw, word) for word in command.words[1:2])
        return
    form = form_of(command)
    if form is None:
        return
    for option in form.options:
        if option.effect in _EFFECTS and option.value is not None:
            yield _EFFECTS[option.effect], option.value, None
    for unclear in form.unclear if command.name in CHANGES else ():
        if not unclear.text.startswith("-"):
            yield Access.EDIT, unclear.text, command.words[unclear.at]
    for operand in form.operands:
        if operand.kind in _KINDS:
            changed = form.edits and operand.kind is OperandKind.READ
            yield (Access.EDIT if changed else _KINDS[operand.kind]), operand.text, command.words[operand.at]


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

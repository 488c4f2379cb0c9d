"""Judging of a command line or call by Codelia's rules: deny, then allow, else confirm (codelia.md 5 and 6.4).

Also the options of the dialect, and its built-in allow rules (codelia.md 7.1 and 7.2): a layer below all others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from ledger.core.policy import Layer, Part, Verdict, strictest
from ledger.policy.checks import PROFILES, GivenOptions, shown
from ledger.policy.codelia.rule import (
    SHELL,
    SKILL,
    CodeliaLine,
    CodeliaRule,
    Indexes,
    RememberedRules,
    Segment,
    is_cd,
    is_misnamed,
    matches_full_text,
    matches_text,
    matches_tool,
    normalise,
    real_cd,
    skills_of,
    virtual_cd,
)
from ledger.policy.facts import FileFacts
from ledger.policy.shell.lexer import spells
from ledger.policy.shell.model import Access, Analysis, CommandRules, Ruling, ShellCommand, Spelling, SpellingForm
from ledger.policy.spelled import UNKNOWN_FOLDER, leads_out
from ledger.policy.toolrules.commands import covered_texts, visible_text

CodeliaEdition = Literal["codelia.md", "current"]

_SPEC_TOOLS: Final = ["read", "grep", "glob_search", "todo_read", "todo_write", "tool_output_cache", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "done"]  # fmt: skip
# `shell_stdin_write` is on the program's list and left out here: it types commands into a running shell unseen.
_CURRENT_TOOLS: Final = ["read", "read_line", "view_image", "todo_read", "todo_new", "todo_append", "todo_patch", "todo_clear", "tool_output_cache", "tool_output_cache_line", "tool_output_cache_grep", "agents_resolve", "skill_search", "skill_load", "shell_list", "shell_status", "shell_logs", "shell_wait", "shell_result", "shell_cancel", "lane_list", "lane_status", "done"]  # fmt: skip
_COMMANDS: Final = ("pwd", "ls", "rg", "grep", "find", "sort", "cat", "head", "tail", "wc", "stat", "file", "uname", "whoami", "date", "git status", "git diff", "git show", "git log", "git rev-parse", "git ls-files", "git grep")  # fmt: skip
_TOOLS: Final[dict[CodeliaEdition, list[str]]] = {"codelia.md": _SPEC_TOOLS, "current": _CURRENT_TOOLS}


def system_layer(edition: CodeliaEdition = "codelia.md") -> Layer:
    """Return the built-in layer: of the specification, or of the current program without its one dangerous entry."""
    allow = [{"tool": tool} for tool in _TOOLS[edition]]
    allow += [{"tool": "bash", "command": command} for command in _COMMANDS]
    return Layer("system", config={"version": 1, "permissions": {"allow": allow}})


OPTIONS: Final = ("profile", "cwd", "home", "fs", "sandbox_root", "supports_confirm", "defaults", "edition")
_EDITIONS: Final[tuple[CodeliaEdition, ...]] = ("codelia.md", "current")


class CodeliaOptions(msgspec.Struct, frozen=True):
    """Checked options.

    `cwd` is a command's start directory, `sandbox_root` the folder it must not leave; both absolute.
    """

    hardened: bool
    cwd: str
    facts: FileFacts
    sandbox_root: str | None = None
    supports_confirm: bool = True
    defaults: bool = False
    edition: CodeliaEdition = "codelia.md"


def read_codelia_options(options: Mapping[str, Any], facts: FileFacts | None) -> CodeliaOptions:
    """Check the options of a source. Raises PolicyError."""
    given = GivenOptions("codelia", options, OPTIONS)
    root = given.folder("sandbox_root") and options["sandbox_root"]
    profile, cwd = given.choice("profile", PROFILES), given.folder("cwd") or given.folder("sandbox_root")
    given.folder("home")
    return CodeliaOptions(
        hardened=profile == "hardened",
        cwd=cwd or UNKNOWN_FOLDER,
        facts=given.facts(cwd or "/", facts),
        sandbox_root=root,
        supports_confirm=given.flag("supports_confirm", default=True),
        defaults=given.flag("defaults"),
        edition=given.choice("edition", _EDITIONS),
    )


CHANGES_MAX: Final = 100
"""Directory changes, at most, in one line; the next `cd` is asked about. Each one makes the path longer."""

MatchesCodeliaRule = Callable[[CodeliaRule], bool]
JudgedPart = tuple[Part, str | None]
"""A part, and the reason why it is not allowed."""


class CodeliaVerdict(NamedTuple):
    """The verdict on one input: its parts, and the reason why it is not allowed.

    `stricter`: Codelia itself would not have denied it.
    """

    verdict: Verdict
    parts: tuple[Part, ...]
    reason: str | None = None
    stricter: bool = False


class CodeliaJudge:
    """Rules with one call's grants, which are allow rules after all others."""

    def __init__(self, rules: Indexes, options: CodeliaOptions, cwd: str, grants: RememberedRules) -> None:
        self.rules, self.options, self.cwd, self.grants = rules, options, cwd, grants

    # --- commands
    def line(self, line: CodeliaLine) -> CodeliaVerdict:
        """Judge every segment alone; a rule with `command_glob` that matches the full text decides all of them."""
        if not line.segments:
            return self._nothing(line)
        denied = self._denying(lambda rule: matches_full_text(rule, line.text))
        spelt = None
        if denied is None and not any(is_cd(segment.text) for segment in line.segments):
            spelt = self._allowing("", lambda rule: matches_full_text(rule, line.text), (line.text,))
        found: list[JudgedPart] = []
        known: dict[Segment, JudgedPart] = {}
        directory, changes = self.cwd, 0
        for segment in line.segments:
            if segment not in known:
                one = self._denied_segment(segment.text, denied)
                if one is None and is_cd(segment.text):  # its target depends on those before it
                    changes += 1
                    part, directory = self._cd(segment, directory if changes <= CHANGES_MAX else None)
                    found.append((part, _reason_of_cd(part)))
                    continue
                known[segment] = one or (
                    self._segment(segment) if spelt is None else (replace(spelt, text=segment.text), None)
                )
            found.append(known[segment])
        verdict = strictest(part.verdict for part, _ in found)
        reason = next((reason for part, reason in found if part.verdict is verdict), None)
        return CodeliaVerdict(verdict, tuple(part for part, _ in found), reason)

    def _denied_segment(self, text: str, denied: CodeliaRule | None) -> JudgedPart | None:
        word = text.partition(" ")[0]
        deny = denied or self.rules.deny.first(word, lambda rule: matches_text(rule, text))
        return None if deny is None else (_denied(text, deny), f"a rule denies {shown(text)}")

    def _segment(self, segment: Segment) -> JudgedPart:
        """Judge a segment; a file that it reads or writes by redirection is covered only by a whole-tool rule."""
        text, redirected = segment
        word = text.partition(" ")[0]
        part = self._allowing(
            text, lambda rule: matches_text(rule, text) and (rule.whole or not redirected), (text,), word
        )
        if part is not None:
            return part, None
        if redirected:
            reason = f"{shown(text)} has a redirection, which only a `command_glob` for the full text allows"
            return Part(text, Verdict.ASK, liftable=False), reason
        return Part(text, Verdict.ASK), f"no rule allows {shown(text)}"

    def _cd(self, segment: Segment, directory: str | None) -> tuple[Part, str]:
        """Judge `cd`, which only the guard allows: no rule and no grant widens it."""
        root = self.options.sandbox_root
        target = None
        if root is not None and directory is not None and not segment.redirected:
            target = virtual_cd(segment.text, directory, root)
        verdict = Verdict.ASK if target is None else Verdict.ALLOW
        return Part(segment.text, verdict, liftable=False), target or directory or self.cwd

    def _nothing(self, line: CodeliaLine) -> CodeliaVerdict:
        """Judge a line without a command, or an input without a line: denied by a matching rule, else asked."""
        deny = self._denying(lambda rule: rule.tool == SHELL and (rule.whole or matches_full_text(rule, line.text)))
        if deny is not None:
            return CodeliaVerdict(Verdict.DENY, (), f"a rule denies `{SHELL}`")
        return CodeliaVerdict(Verdict.ASK, (), "no command was found in the input")

    # --- everything else
    def tool(self, tool: str, value: Any) -> CodeliaVerdict:
        """Judge a call of another tool. A skill is identified by its name, or by its path if it has no name.

        An invalid skill name is not replaced by the path; in the hardened profile no rule allows it.
        """
        named, led = skills_of(value) if tool == SKILL else (None, None)
        misnamed = tool == SKILL and is_misnamed(value)
        skill = None if misnamed else named or led
        part = self._tool(tool, skill)
        if misnamed and led is not None and (deny := self._denying(lambda rule: matches_tool(rule, tool, led))):
            part = _denied(part.text, deny)
        if misnamed and self.options.hardened and part.verdict is Verdict.ALLOW:
            text = f"`{tool}` names {shown(value['name'])}, which is not a skill name"
            return CodeliaVerdict(Verdict.ASK, (Part(part.text, Verdict.ASK, liftable=False),), text)
        if not self.options.hardened or led is None or named in (None, led) or part.verdict is Verdict.DENY:
            return CodeliaVerdict(part.verdict, (part,), _tool_reason(part))
        other = self._denying(lambda rule: matches_tool(rule, tool, led))
        text = f"`{tool}` names the skill {shown(named)} and loads {shown(led)}"
        return CodeliaVerdict(Verdict.DENY, (_denied(part.text, other),), text, stricter=True)

    def _tool(self, tool: str, skill: str | None) -> Part:
        text = skill or tool

        def matches(rule: CodeliaRule) -> bool:
            return matches_tool(rule, tool, skill)

        deny = self._denying(matches)
        if deny is not None:
            return _denied(text, deny)
        return self._allowing(text, matches, (tool, text)) or Part(text, Verdict.ASK)

    # --- rules
    def _denying(self, matches: MatchesCodeliaRule) -> CodeliaRule | None:
        return next(filter(matches, self.rules.deny.rules), None)

    def _allowing(
        self, text: str, matches: MatchesCodeliaRule, about: Sequence[str], word: str | None = None
    ) -> Part | None:
        """Return a part allowed by a rule, else by grants; `word`, the command's first, limits the rules to try.

        `about` are the texts that a match is about.
        """
        allow = self.rules.allow
        rule = next(filter(matches, allow.rules), None) if word is None else allow.first(word, matches)
        if rule is not None:
            return Part(text, Verdict.ALLOW, (rule.ref,))
        ids = tuple(grant_id for grant_id, granted in self.grants.about(*about) if matches(granted))
        return Part(text, Verdict.ALLOW, grants=ids) if ids else None


def _denied(text: str, rule: CodeliaRule | None) -> Part:
    return Part(text, Verdict.DENY, (rule.ref,) if rule else (), liftable=False)


def _reason_of_cd(part: Part) -> str | None:
    return f"{shown(part.text)} may leave the sandbox" if part.verdict is Verdict.ASK else None


def _tool_reason(part: Part) -> str | None:
    if part.verdict is Verdict.DENY:
        return f"a rule denies {shown(part.text)}"
    return f"no rule allows {shown(part.text)}" if part.verdict is Verdict.ASK else None


# --- the hardened profile
_FILE_TOOLS: Final = {Access.READ: frozenset({"read"}), Access.EDIT: frozenset({"write", "edit", "apply_patch"})}


class CodeliaCommands(CommandRules):
    """Rules and grants of one call. Codelia has no rules for paths, only for the tools that read and write files.

    `text` is the normalised line.
    """

    def __init__(self, judge: CodeliaJudge, text: str = "") -> None:
        self.judge, self.text = judge, text

    def allow(self, command: ShellCommand) -> Ruling | None:
        """Allow a command without assignments; one with a redirection by a `command_glob` only (codelia.md 6.4, supplement)."""
        if command.assignments:
            return None
        text, plain = visible_text(command.words), not command.redirects
        return self._allowing(command, lambda rule: (plain or rule.glob is not None) and _covers(rule, command, text))

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

    def facts_of_files(self) -> FileFacts:
        return self.judge.options.facts

    def outside(self, path: str, directory: str) -> bool:
        options = self.judge.options
        root = options.sandbox_root or options.cwd
        return leads_out(path, directory, (root,), options.facts)

    def allow_path(self, access: Access, path: str, directory: str) -> Ruling | None:
        """Allow paths inside the sandbox, if a rule allows the tools that change files; reading there needs no rule."""
        if self.outside(path, directory):
            return None
        for rule in self.judge.rules.allow.rules:
            if rule.whole and rule.tool in _FILE_TOOLS[access]:
                return Ruling(Verdict.ALLOW, (rule.ref,))
        return Ruling(Verdict.ALLOW) if access is Access.READ else None

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

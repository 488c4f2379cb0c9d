"""Judging of a Bash call as in Claude Code: deny, ask, its files, allow rules, then read-only commands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import RuleRef, Verdict
from ledger.policy.claude import readonly
from ledger.policy.claude.line import ClaudeLine, ClaudeStage, FileRedirection, read_line
from ledger.policy.claude.places import ClaudePlaces
from ledger.policy.claude.sed import only_substitutes
from ledger.policy.claude.strings import UNKNOWN
from ledger.policy.claude.suggest import line_proposal, stage_proposal
from ledger.policy.claude.targets import REMOVING, Target, targets_of
from ledger.policy.claude.words import (
    SAFE_VARIABLES,
    is_exact,
    matches,
    narrow_texts,
    peeled_for_allow,
    peeled_for_files,
    peeled_for_reading,
    wide_texts,
)
from ledger.policy.shell.model import Access, Word
from ledger.policy.shell.text import too_long
from ledger.policy.toolrules.commands import BASH
from ledger.policy.toolrules.grants import GrantedRules
from ledger.policy.toolrules.rule import ToolRule
from ledger.policy.unknown import UNKNOWN_HOME

_EVALUATES: Final = frozenset(
    {"eval", "source", ".", "trap", "exec", "alias", "hash", "let", "coproc", "shopt", "enable"}
)
_RUNS: Final = frozenset({"watch", "ionice", "setsid", "strace", "script", "flock"})
_TIMERS: Final = frozenset({"timeout", "nice", "time"})
_MOVES: Final = frozenset({"cd", "pushd", "popd"})
_CHANGES: Final = frozenset({"mkdir", "touch", "rm", "rmdir", "mv", "cp", "sed"})
_RUNS_IN_AWK = late_pattern(r"system\s*\(|\||getline")
_EXPANSION = late_pattern(r"[$`]")
_VARIABLE = late_pattern(r"\$(?:\{(?=\w+\}))?(\w+)\}?")
_TRAVERSAL = late_pattern(r"(?:^|/)(?!\.{1,2}/)[^/]+/\.\.(?:/|$)")
_ODD_TILDE = late_pattern(r"~[^/]")
_GLOB = late_pattern(r"[*?\[]")
_NULL: Final = "/dev/null"
_VALUE_CHARS_MAX: Final = 1_024
"""Length of a variable's value, at most, that is substituted into the line."""


class Why(msgspec.Struct, frozen=True):
    """A verdict about one stage with its rules. `kind`, the source of an ask: `rule`, `path`, `whole` line, or `none`.

    `folder` is the place outside the project that a reading command would need.
    """

    verdict: Verdict
    kind: str = "none"
    rules: tuple[RuleRef, ...] = ()
    reason: str | None = None
    folder: str | None = None
    grants: tuple[str, ...] = ()


_ALLOW: Final = Why(Verdict.ALLOW)
_NOT_FREE: Final = Why(Verdict.ASK, reason="another command of the line needs a rule, so this one does too")


class BashRules:
    """Compiled Bash rules, with the grants of one call."""

    def __init__(self, rules: Sequence[ToolRule], granted: GrantedRules, places: ClaudePlaces, mode: str) -> None:
        self.places, self.mode = places, mode
        scoped = [rule for rule in rules if rule.tool == BASH and rule.specifier is not None]
        denied = [rule for rule in granted.denying if rule.tool == BASH]
        self.deny = [*(rule for rule in scoped if rule.action is Verdict.DENY), *denied]
        self.ask = [rule for rule in scoped if rule.action is Verdict.ASK]
        self.allow = [rule for rule in scoped if rule.action is Verdict.ALLOW]
        self._granted = granted
        self.whole = [rule for rule in rules if rule.tool == BASH and rule.specifier is None]
        self._file_tools = {rule.tool for rule in rules if rule.specifier is None and rule.action is Verdict.ALLOW}

    def granted(self, texts: Iterable[str] = ()) -> list[tuple[str, ToolRule]]:
        """Return the grants for Bash that may match one of these texts, and those for the whole tool."""
        found = self._granted.about(*texts)
        return [(grant_id, rule) for grant_id, rule in found if rule.tool == BASH and rule.action is Verdict.ALLOW]

    def restricting(self, stage: ClaudeStage) -> tuple[tuple[RuleRef, ...], tuple[RuleRef, ...]]:
        """Return the deny rules and the ask rules that match a stage."""
        if not self.deny and not self.ask:
            return (), ()
        seen = tuple(dict.fromkeys(wide_texts(stage)))
        return self._matching(self.deny, seen), self._matching(self.ask, seen)

    def _matching(self, rules: Iterable[ToolRule], seen: tuple[str, ...]) -> tuple[RuleRef, ...]:
        return tuple(rule.ref for rule in rules if any(matches(rule.specifier or "*", text) for text in seen))

    def allowing(self, texts: Sequence[str]) -> Why | None:
        """Return the allow rules, else the grants, that match one of these texts; a whole-tool rule comes first."""
        whole = tuple(rule.ref for rule in self.whole if rule.action is Verdict.ALLOW)
        if whole:
            return Why(Verdict.ALLOW, "rule", whole)
        found = tuple(rule.ref for rule in self.allow if _any(rule, texts))
        if found:
            return Why(Verdict.ALLOW, "rule", found)
        ids = tuple(grant_id for grant_id, rule in self.granted(texts) if rule.specifier is None or _any(rule, texts))
        return Why(Verdict.ALLOW, "rule", grants=ids) if ids else None

    def allows_whole_tool(self) -> bool:
        return any(rule.action is Verdict.ALLOW for rule in self.whole) or any(
            rule.specifier is None for _, rule in self.granted()
        )

    def allows_files(self, access: Access) -> bool:
        """Return whether every file may be read or changed: by a rule for the whole tool, or in `acceptEdits` mode."""
        if self.mode == "acceptEdits" or "Edit" in self._file_tools:
            return True
        return access is Access.READ and "Read" in self._file_tools

    def exactly(self, text: str) -> Why | None:
        """Return the allow rules without `*` that are equal to the whole line."""
        found = tuple(rule.ref for rule in self.allow if is_exact(rule.specifier or "*") and rule.specifier == text)
        ids = tuple(grant_id for grant_id, rule in self.granted((text,)) if rule.specifier == text and is_exact(text))
        return Why(Verdict.ALLOW, "rule", found, grants=ids) if found or ids else None

    # --- one stage

    def _asked_exactly(self, stage: ClaudeStage) -> bool:
        """Return whether an exact ask wins over a deny with `*`: rules without `*` come first."""
        seen = list(wide_texts(stage))

        def exactly(rules: list[ToolRule]) -> bool:
            return any(is_exact(rule.specifier or "*") and _any(rule, seen) for rule in rules)

        return exactly(self.ask) and not exactly(self.deny)

    def stage(self, stage: ClaudeStage, *, skip: Access | None = None, free: bool = True) -> Why:
        """Return the verdict on one sub-command by its own rules and files, without those of the whole line.

        Files of the access `skip` are not checked. Without `free` it needs a rule even if it is read-only.
        """
        denied, asked = self.restricting(stage)
        if denied and not self._asked_exactly(stage):
            return Why(Verdict.DENY, "rule", denied)
        found = self.files(stage, skip=skip)
        if found is not None and found.verdict is Verdict.DENY:
            return found
        if asked:
            return Why(Verdict.ASK, "rule", asked)
        if found is not None:
            return found
        return self.command(stage, free=free)

    def command(self, stage: ClaudeStage, *, free: bool = True) -> Why:
        """Return the verdict by rules, then as a read-only command, then by `acceptEdits`; else ask."""
        if not stage.words and not stage.redirected_first:
            return _ALLOW
        allowed = self.allowing(tuple(dict.fromkeys(narrow_texts(stage))))
        if allowed is not None:
            return allowed
        if free and self.runs_free(stage):
            return _ALLOW
        if any(self._changes_unasked(target) for target in targets_of(stage.words[peeled_for_files(stage) :])):
            return Why(Verdict.ASK, "path", reason="a file would be changed")
        return Why(Verdict.ASK, "none", reason="no rule matches, and the default is ask")

    def runs_free(self, stage: ClaudeStage) -> bool:
        """Return whether a command needs no rule: it is read-only, or it changes files in `acceptEdits` mode."""
        safe = all(name in SAFE_VARIABLES for name, _ in stage.assignments)
        if not safe or not stage.words:
            return False
        if not stage.looped and _looks(stage):
            return True
        inner = stage.words[peeled_for_files(stage) :]
        wrapped = {word.resolved for word in stage.words[: peeled_for_files(stage)]} & {
            "env",
            "sudo",
            "doas",
            "exec",
            "xargs",
        }
        if self.mode != "acceptEdits" or wrapped or inner[0].resolved not in _CHANGES:
            return False
        texts = [word.resolved if word.resolved is not None else word.raw for word in inner]
        return texts[0] != "sed" or only_substitutes(texts[1:])

    def _changes_unasked(self, target: Target) -> bool:
        """Return whether no path rule allows a change, so that the file is asked about instead of the command."""
        return target.access is Access.EDIT and not self.places.allowing(Access.EDIT, self._place(target.text))

    # --- files

    def files(self, stage: ClaudeStage, *, skip: Access | None = None) -> Why | None:
        """Return the verdict of path rules, links and the working directory on a stage's files; None if none applies.

        The first word with a finding decides, then the redirections; a denied redirection comes first.
        """
        inner = stage.words[peeled_for_files(stage) :]
        targets = [target for target in targets_of(inner) if target.access is not skip]
        outputs = [why for output in stage.outputs if (why := self._output(output)) is not None]
        found = [why for target in targets if (why := self._target(target, inner)) is not None]
        if not found and self._has_flags(inner):
            found.append(Why(Verdict.ASK, "path", reason="`cp` and `mv` with options always ask"))
        denied = [why for why in outputs if why.verdict is Verdict.DENY]
        return next(iter((*denied, *found, *outputs)), None)

    def _has_flags(self, words: Sequence[Word]) -> bool:
        copies = bool(words) and words[0].resolved in ("cp", "mv") and not self.allows_whole_tool()
        return copies and any(word.raw.startswith("-") and word.raw != "--" for word in words[1:])

    def _target(self, target: Target, words: Sequence[Word]) -> Why | None:
        text, word = target.text, target.word
        if word is not None:
            if _EXPANSION.search(text.replace("$HOME", "")):
                return Why(Verdict.ASK, "path", reason="a path with `$` or a backtick in it is not analysed")
            if word.tilde and _ODD_TILDE.match(text):
                return Why(Verdict.ASK, "path", reason="`~` of another user is not analysed")
            if target.access is Access.EDIT and UNKNOWN in text:
                return Why(Verdict.ASK, "path", reason="a file to be changed is known only when the line runs")
            if text.startswith("=") and text[1:2].isalpha():
                return Why(Verdict.ASK, "path", reason="`=name` is a path in another shell")
        path = self._place(text)
        name = words[0].resolved
        if name == "sed" and word is not None and word.glob:
            return Why(Verdict.ASK, "path", reason="a pattern in a file name given to `sed`")
        if name in REMOVING and self._removes_too_much(text, word, path):
            return Why(Verdict.ASK, "whole", reason=f"removing `{text}` is never allowed by a rule")
        if word is not None and word.glob:
            if target.access is Access.EDIT:
                return self._path(target.access, self._place(_folder_of(text))) or self._glob_written()
            return self._path(target.access, self._place(_folder_of(text)))
        if word is not None and _TRAVERSAL.search(text):
            return Why(Verdict.ASK, "path", reason="`..` after a folder may follow a link")
        return self._path(target.access, path)

    def _glob_written(self) -> Why | None:
        if self.allows_whole_tool():
            return None
        return Why(Verdict.ASK, "path", reason="a pattern in the name of a file to be changed")

    def _place(self, text: str) -> str:
        if text.startswith("$HOME"):
            text = (self.places.home or UNKNOWN_HOME) + text.removeprefix("$HOME")
        return self.places.absolute(text)

    def _removes_too_much(self, text: str, word: Word | None, path: str) -> bool:
        if text in ("*", "./*", "/*", "~/*"):
            return True
        return self.places.critical(path) and not (word is not None and word.glob)

    def _restricted(self, access: Access, path: str) -> Why | None:
        denied = self.places.reaching(Verdict.DENY, access, path)
        if denied:
            return Why(Verdict.DENY, "rule", tuple(rule.ref for rule, _ in denied))
        return None

    def _path(self, access: Access, path: str) -> Why | None:
        """Judge one file: deny rules; for changes ask rules and protected files; then the boundary of the project."""
        denied = self._restricted(access, path)
        if denied is not None:
            return denied
        if access is Access.EDIT:
            asked = self.places.reaching(Verdict.ASK, access, path)
            if asked:
                return Why(Verdict.ASK, "path", tuple(rule.ref for rule, _ in asked))
            if self.places.protected(path):
                return Why(Verdict.ASK, "path", reason=f"`{path}` is protected")
        if self.places.inside(path) or self.allows_whole_tool() or self.places.allowing(access, path):
            return None
        folder = (
            path.rpartition("/")[0] if self.places.facts.kind(path) is not None and not _is_folder(self, path) else path
        )
        return Why(Verdict.ASK, "path", reason=f"`{path}` is outside the working directory", folder=folder or "/")

    def _output(self, output: FileRedirection) -> Why | None:
        """Judge a redirection: writing needs an allow rule for the path, or `acceptEdits` inside the project."""
        operator, target = output.operator.lstrip("0123456789"), output.target
        text = target.resolved if target.resolved is not None else target.raw
        if operator.startswith("<") or text == _NULL or (operator.endswith("&") and (text.isdigit() or text == "-")):
            return None
        path = self._place(text)
        found = self._path(Access.EDIT, path)
        if found is not None or self.allows_whole_tool() or self.places.allowing(Access.EDIT, path):
            return found
        plain = not target.glob and _TRAVERSAL.search(text) is None
        if self.mode == "acceptEdits" and plain and self.places.inside(path):
            return None
        return Why(Verdict.ASK, "path", reason=f"`{path}` would be written")


def _any(rule: ToolRule, texts: Sequence[str]) -> bool:
    return rule.specifier is not None and any(matches(rule.specifier, text) for text in texts)


def _is_folder(rules: BashRules, path: str) -> bool:
    kind = rules.places.facts.kind(path)
    return kind is not None and kind.value == "dir"


def _folder_of(text: str) -> str:
    """Return the folder in front of the first wildcard."""
    head = _GLOB.split(text, maxsplit=1)[0]
    return head.rpartition("/")[0] + ("/" if "/" in head else "") or "."


class JudgedLine(msgspec.Struct, frozen=True):
    """A whole line: the verdict on each stage, the verdict on the line itself, and the proposed rules."""

    stages: tuple[tuple[ClaudeStage, Why], ...]
    line: Why | None
    proposals: tuple[str, ...]


def judge_line(rules: BashRules, line: ClaudeLine) -> JudgedLine:
    """Judge every stage, then the line as a whole."""
    if line.opaque is not None:
        return _opaque(rules, line)
    directory = _directory(rules, line)
    skip = Access.EDIT if directory is not None and directory.kind == "path" else None
    judged = _stages(rules, line, skip)
    if any(why.verdict is Verdict.DENY for _, why in judged):
        return JudgedLine(judged, None, ())
    critical = next((why for _, why in judged if why.kind == "whole"), None)
    if critical is not None:
        return JudgedLine(judged, critical, ())
    if rules.allows_whole_tool():
        return _proposing(rules, line, judged, None)
    if line.background:
        return JudgedLine(judged, Why(Verdict.ASK, "whole", reason="`&` runs a command in the background"), ())
    evaluated = _evaluates(line)
    exact = rules.exactly(line.text)
    asked_by_rule = any(why.verdict is Verdict.ASK and why.kind == "rule" for _, why in judged)
    if directory is not None and not asked_by_rule and (directory.kind == "whole" or exact is None):
        proposals = (line_proposal(line),) if directory.kind == "path" else ()
        return JudgedLine(judged, directory, proposals)
    if exact is not None and not asked_by_rule and (len(line.stages) > 1 or evaluated is not None):
        return JudgedLine(tuple((stage, exact) for stage, _ in judged), None, ())
    if evaluated is not None and not asked_by_rule:
        return JudgedLine(judged, evaluated, ())
    return _proposing(rules, line, judged, None)


def _stages(rules: BashRules, line: ClaudeLine, skip: Access | None) -> tuple[tuple[ClaudeStage, Why], ...]:
    """Return each stage with its verdict; equal commands in the line are judged once."""
    known: dict[tuple[str, str, bool], Why] = {}
    judged = []
    for stage in line.stages:
        key = (stage.text, stage.statement, stage.looped)
        if key not in known:
            known[key] = rules.stage(stage, skip=skip, free=not line.assigns)
        judged.append((stage, known[key]))
    inner = [(stage, why) for stage, why in judged if stage.substituted]
    if any(why.kind == "rule" or stage.outputs or not _looks(stage) for stage, why in inner):
        judged = [(stage, _NOT_FREE if why is _ALLOW and _substitutes(stage) else why) for stage, why in judged]
    return tuple(judged)


def _looks(stage: ClaudeStage) -> bool:
    return readonly.only_looks(stage.words[peeled_for_reading(stage) :])


def _substitutes(stage: ClaudeStage) -> bool:
    return any("$(" in word.raw or "`" in word.raw for word in stage.words if UNKNOWN in (word.resolved or ""))


def _opaque(rules: BashRules, line: ClaudeLine) -> JudgedLine:
    """Judge an opaque line: deny and ask rules match the commands before the opaque part.

    Nothing allows it except an equal rule or a rule for the whole tool.
    """
    assert line.opaque is not None
    stages = line.stages if "sub-shell" not in line.opaque else line.stages[:0]
    judged = []
    for stage in stages:
        denied, asked = rules.restricting(stage)
        if denied or asked:
            judged.append(
                (replace(stage, shown=""), Why(Verdict.DENY if denied else Verdict.ASK, "rule", denied or asked))
            )
    if judged:
        return JudgedLine(tuple(judged), None, ())
    exact = rules.exactly(line.text)
    followed = _followed(rules, line)
    if followed is not None:
        return JudgedLine(((_line_stage(line), followed),), None, ())
    whole = rules.allowing(()) if rules.allows_whole_tool() else None
    allowed = whole or (exact if not line.background else None)
    if allowed is not None:
        return JudgedLine(((_line_stage(line), allowed),), None, ())
    why = Why(Verdict.ASK, "whole", reason=line.opaque)
    return JudgedLine(((_line_stage(line), why),), why, ())


def _followed(rules: BashRules, line: ClaudeLine) -> Why | None:
    """Return a rule's deny or ask on the line with its variables replaced, if the line sets them to plain texts."""
    set_first = [pair for stage in line.stages if not stage.words for pair in stage.assignments]
    values = {name: value.resolved for name, value in set_first if value.resolved is not None}
    long = any(len(value) > _VALUE_CHARS_MAX for value in values.values())
    text = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), line.text) if not long else line.text
    if long or too_long(text):
        return Why(Verdict.ASK, "whole", reason="a variable is set to a long text")
    if text == line.text:
        return None
    found = [rules.stage(stage) for stage in read_line(text).stages]
    return next((why for why in found if why.kind == "rule" and why.verdict is not Verdict.ALLOW), None)


def _line_stage(line: ClaudeLine) -> ClaudeStage:
    return ClaudeStage(line.text, line.text, "", ())


def _evaluates(line: ClaudeLine) -> Why | None:
    """Return an ask for commands that run their arguments: no rule with a prefix matches; nothing is proposed."""
    for stage in line.stages:
        names = [word.resolved for word in stage.words]
        inner = [word.resolved or word.raw for word in stage.words[peeled_for_files(stage) :]]
        if not names:
            continue
        if names[0] in _EVALUATES or names[0] in _RUNS or inner[0] in _EVALUATES:
            return Why(Verdict.ASK, "whole", reason=f"`{names[0]}` runs its arguments")
        if names[0] in _TIMERS and len(names) > 1 and peeled_for_allow(stage) == 0:
            return Why(Verdict.ASK, "whole", reason=f"the options of `{names[0]}` are not understood")
        if names[:2] == ["env", "-S"] or (inner[0] == "test" and "=" in inner):
            return Why(Verdict.ASK, "whole", reason="the line is not understood")
        if inner[0] == "awk" and "-f" in inner:
            return Why(Verdict.ASK, "whole", reason="the `awk` program is read from a file")
        if UNKNOWN in inner[0]:
            return Why(Verdict.ASK, "whole", reason="the name of a command is known only when the line runs")
        if inner[0] == "find" and (readonly.find_acts(inner) or _varies(stage)):
            return Why(Verdict.ASK, "whole", reason="`find` runs commands or changes files with these arguments")
        if inner[0] == "jq" and readonly.jq_reads_code(inner):
            return Why(Verdict.ASK, "whole", reason="`jq` reads a program or other files with these arguments")
        if inner[0] == "awk" and _RUNS_IN_AWK.search(" ".join(inner[1:])):
            return Why(Verdict.ASK, "whole", reason="the `awk` program may run commands")
    return None


def _varies(stage: ClaudeStage) -> bool:
    """Return whether a word of `find` may expand: an unquoted pattern, or a search root with one."""
    words = stage.words[peeled_for_files(stage) :]
    places = [word for word in (one.word for one in targets_of(words)) if word is not None]
    texts = [word.resolved or word.raw for word in places]
    return any(word.glob or UNKNOWN in (word.resolved or "") for word in words) or any(map(_GLOB.search, texts))


def _stays(rules: BashRules, stage: ClaudeStage) -> bool:
    """Return whether it is `cd` to the working directory by its full name, which changes nothing."""
    if _name(stage) != "cd" or len(stage.words) != 2 or stage.outputs or stage.assignments:
        return False
    text = stage.words[1].resolved or ""
    return text.startswith("/") and ".." not in text and rules.places.absolute(text) == rules.places.cwd


def _writes(output: FileRedirection) -> bool:
    operator = output.operator.lstrip("0123456789")
    return not operator.startswith("<") and not (operator == ">&" and (output.target.resolved or "").isdigit())


def _directory(rules: BashRules, line: ClaudeLine) -> Why | None:
    """Return the verdict on `cd` in a line with commands whose meaning depends on the directory."""
    moving = [stage for stage in line.stages if _name(stage) in _MOVES and not _stays(rules, stage)]
    moves = [stage for stage in moving if _name(stage) == "cd"]
    if any(_writes(output) for stage in moves for output in stage.outputs):
        return Why(Verdict.ASK, "whole", reason="`cd` writes to a file")
    if len(moving) > 1:
        return Why(Verdict.ASK, "whole", reason="the line changes the directory more than once")
    if not moves or len(line.stages) < 2:
        return None
    here = any(word.resolved in (".", "./") for word in moves[0].words[1:])
    if any(_name(stage) == "git" for stage in line.stages) and not here:
        return Why(Verdict.ASK, "whole", reason="`git` runs hooks of the directory that `cd` leads to")
    if any(_writes(output) for stage in line.stages for output in stage.outputs):
        return Why(Verdict.ASK, "whole", reason="the line changes the directory and writes to a file")
    changes = any(
        target.access is Access.EDIT
        for stage in line.stages
        for target in targets_of(stage.words[peeled_for_files(stage) :])
    )
    if changes:
        kind = "whole" if rules.mode == "acceptEdits" else "path"
        return Why(Verdict.ASK, kind, reason="the line changes the directory and changes files")
    return None


def _name(stage: ClaudeStage) -> str | None:
    return stage.words[0].resolved if stage.words else None


def _proposing(
    rules: BashRules, line: ClaudeLine, judged: tuple[tuple[ClaudeStage, Why], ...], added: Why | None
) -> JudgedLine:
    asking = [(stage, why) for stage, why in judged if why.verdict is Verdict.ASK]
    if len(asking) == 1 and asking[0][1].kind == "path":
        written = stage_proposal(asking[0][0], written=True) if len(judged) == 1 else line_proposal(line)
        return JudgedLine(judged, added, (written,))
    proposals = []
    for stage, why in asking:
        if why.kind == "rule":
            continue
        if why.folder is not None and len(asking) > 1:
            proposals.append(f"Read(/{why.folder.rstrip('/')}/**)")
        else:
            proposals.append(stage_proposal(stage, written=why.kind == "path"))
    return JudgedLine(judged, added, tuple(dict.fromkeys(proposals)))

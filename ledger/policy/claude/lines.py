"""Judging of a Bash line by Claude Code's rules, without what the hardened profile adds.

The shell's reader finds the commands. Deny and ask rules apply to all of them; each that the line runs itself needs an
allow rule or is read-only. The line as a whole is asked about if it holds a construct that the program does not read, or
changes the directory in front of commands for which the directory matters.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Evaluation, Part, RuleRef, Verdict, strictest
from ledger.policy.claude.commands import CHANGES, LISTS, ClaudeCommands, files_of
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.danger import is_harmless_builtin
from ledger.policy.shell.forms.objections import STREAMS, worry
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import (
    Access,
    Analysis,
    Construct,
    Redirect,
    Ruling,
    ShellCommand,
    Word,
    Wrapper,
    accesses,
)
from ledger.policy.shell.names import lookups
from ledger.policy.shell.tables import ARGUMENTS, OPAQUE, PROGRAMS, SHELLS, STATE_BUILTINS, TRANSPARENT
from ledger.policy.shell.unwrap import inmost, peel
from ledger.policy.shell.words import loosen, too_long

_MOVES: Final = frozenset({"cd", "pushd", "popd"})
_REMOVES: Final = frozenset({"rm", "rmdir"})
_EVALUATES: Final = frozenset(
    {"eval", "source", ".", "trap", "exec", "coproc", "watch", "ionice", "setsid", "strace", "script", "flock"}
)
_RUN_CODE: Final = frozenset({"awk", "jq"})
_JUDGED: Final = frozenset({Construct.LOOP, Construct.ENVIRONMENT, Construct.QUOTED})
"""Constructs of lines whose commands are judged; a line with any other is asked about as a whole."""

_ENVIRONMENT = late_pattern(r"([A-Za-z_]\w*)=[A-Za-z0-9_./:+,@%=~-]+\s+")
_VARIABLE = late_pattern(r"\$(?:\{(?=\w+\}))?(\w+)\}?")
_VALUE_CHARS_MAX: Final = 1_024
"""Length of a variable's value, at most, that is substituted into the line."""

_BLANK_ESCAPE = late_pattern(r"\\[ \t]|(?<=[^\s\\])\\\n")
_QUOTED_COMMENT = late_pattern(r"'[^']*\n\s*#[^']*'|\"[^\"]*\n\s*#[^\"]*\"")
_OTHER_SHELL = late_pattern(r"=(?:[A-Za-z].*)?", re.DOTALL)
_MESSAGE: Final = "$(cat <<"
_WRAPPER_OPTION = late_pattern(r"-n|-[0-9]+|-[ioe][0A-Z0-9]+")
_PLACE: Final = '"$PWD/'
_FED: Final = '"$@"'
"""The word that stands for what `xargs` reads."""

_EXPANDS = late_pattern(r"[$`]|\A~[^/]")
_TRAVERSAL = late_pattern(r"(?:^|/)(?!\.{1,2}/)[^/]+/\.\.(?:/|$)")
_GLOB = late_pattern(r"[*?\[]")
_PREFIX = late_pattern(r"(\S+)\s+([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?=\s|\Z)")
_DENIED: Final = "Permission to use Bash with command {} has been denied."
_GRANTED: Final = "allowed by a grant in force"


class Why(msgspec.Struct, frozen=True):
    """A verdict about one command with its rules. `kind`, the source of an ask: `rule`, `path`, `whole` line, or `none`.

    `folder` is the place outside the project that a reading command would need.
    """

    verdict: Verdict
    kind: str = "none"
    rules: tuple[RuleRef, ...] = ()
    reason: str | None = None
    folder: str | None = None
    grants: tuple[str, ...] = ()


_NO_RULE: Final = Why(Verdict.ASK, reason="no rule matches, and the default is ask")
Judged = tuple[ShellCommand, Why]


def _by_rule(ruling: Ruling) -> Why:
    return Why(ruling.verdict, "rule", ruling.rules, grants=ruling.grants)


def _ask(reason: str, kind: str = "path") -> Why:
    return Why(Verdict.ASK, kind, reason=reason)


def judge_line(rules: ClaudeCommands, source: str, analysis: Analysis) -> Evaluation:
    """Judge a line whose analysis is given."""
    line = _Line(rules, source.strip(), analysis)
    return line.evaluation(source)


class _Line:
    def __init__(self, rules: ClaudeCommands, text: str, analysis: Analysis) -> None:
        self.rules, self.places, self.text, self.analysis = rules, rules.places, text, analysis
        self.top = analysis.top
        self.all = rules.allow_all()
        self.is_too_long = False

    def evaluation(self, source: str) -> Evaluation:
        opaque = self._opaque()
        judged = self._commands() if opaque is None else self._restricted()
        if opaque is not None and not judged and self.all is not None:
            judged = [(one, why) for one, why in self._commands() if why.verdict is not Verdict.ALLOW]
        why: Why | None = None
        if opaque is not None and not judged:
            exact = None if Construct.BACKGROUND in self.analysis.constructs else self.rules.allow_text(self.text)
            allowed = None if self.is_too_long else self.all or exact
            why = _by_rule(allowed) if allowed is not None else _ask(opaque, "whole")
            judged = [(ShellCommand(self.text, (), statement=self.text), why)]
        elif opaque is None and not any(one.verdict is Verdict.DENY for _, one in judged):
            judged, why = self._together(judged)
        return self._told(source, judged, why, liftable=opaque is None)

    def _opaque(self) -> str | None:
        """Return why the line is asked about as a whole; None if its commands are judged."""
        analysis = self.analysis
        if _BLANK_ESCAPE.search(self.text):
            return "a backslash hides a blank"
        if not analysis.plain and not analysis.redirects_only:
            return analysis.reason
        asked = analysis.constructs - _JUDGED
        if asked:
            return next(one.value for one in Construct if one in asked)
        raws = [word.raw for one in self.top if one.name != "[" for word in one.words]
        if any(map(_OTHER_SHELL.fullmatch, raws)):
            return "`=name` is a path in another shell"
        text = self.text
        for raw in raws:
            text = text.replace(raw, "") if _MESSAGE in raw else text
        if _QUOTED_COMMENT.search(text):
            return "a quoted newline with `#` after it hides arguments"
        if Construct.ENVIRONMENT in analysis.constructs:
            return next(filter(None, map(_unsafe_variable, self.top)), None)
        return None

    # --- one command
    def _commands(self) -> list[Judged]:
        """Judge each command that the line runs itself; equal ones once."""
        known: dict[tuple[str, str], Why] = {}
        judged = []
        for command, inside in _grouped(self.analysis.commands):
            key = (command.text, command.statement)
            if key not in known:
                known[key] = self._command(command, inside)
            judged.append((command, known[key]))
        return judged

    def _command(self, command: ShellCommand, inside: Sequence[ShellCommand]) -> Why:
        restricted = self._restriction((command, *inside))
        if restricted is not None and restricted.verdict is Verdict.DENY:
            return restricted
        found = self._files(command)
        if restricted is not None and (found is None or found.verdict is not Verdict.DENY):
            return restricted
        if found is not None:
            return found
        if not command.words:
            return Why(Verdict.ALLOW)
        if _redirects_first(command):
            return _NO_RULE
        allowed = next(filter(None, map(self.rules.allow_by_rule, behind_wrappers(command))), None)
        if allowed is not None:
            return _by_rule(allowed)
        if command.name == "cd" or (Construct.LOOP not in self.analysis.constructs and self.rules.runs_free(command)):
            return Why(Verdict.ALLOW)
        edited = [path for access, path, _ in files_of(inmost(command)) if access is Access.EDIT]
        if any(not self.places.allowing(Access.EDIT, self.places.absolute(path)) for path in edited):
            return _ask("a file would be changed")
        return _NO_RULE

    def _restricted(self) -> list[Judged]:
        """Return the deny or ask by rule on each command of a line that is asked about as a whole."""
        commands = dict(_grouped(self.analysis.commands) + _grouped(self._followed()))
        found = [(one, self._restriction((one, *inside))) for one, inside in commands.items()]
        return [(one, why) for one, why in found if why is not None]

    def _followed(self) -> tuple[ShellCommand, ...]:
        """Return the commands of the line with its variables replaced, if the line sets them to plain texts."""
        set_first = [one for command in self.top if not command.words for one in command.assignments]
        values = {one.name: one.value.resolved for one in set_first if one.value.resolved is not None}
        self.is_too_long = any(len(value) > _VALUE_CHARS_MAX for value in values.values())
        if not values or self.is_too_long:
            return ()
        text = _VARIABLE.sub(lambda found: values.get(found[1], found[0]), self.text)
        self.is_too_long = too_long(text)
        return () if self.is_too_long else analyse(text).commands

    def _restriction(self, commands: Sequence[ShellCommand]) -> Why | None:
        """Return the strictest deny or ask by rule on any of the commands, and on the files of their redirections."""
        rulings = [self.rules.restrict_written(one) for one in commands if one.words]
        rulings += [
            self.rules.restrict_path(access, loosen(redirect.target), self.places.base)
            for one in commands
            for redirect in one.redirects
            for access in accesses(redirect)
        ]
        found = [ruling for ruling in rulings if ruling is not None]
        if not found:
            return None
        verdict = strictest(ruling.verdict for ruling in found)
        refs = dict.fromkeys(ref for ruling in found if ruling.verdict is verdict for ref in ruling.rules)
        return Why(verdict, "rule", tuple(refs))

    # --- files
    def _files(self, command: ShellCommand) -> Why | None:
        inner = inmost(command)
        name = inner.name or ""
        found: list[Why] = []
        no_index = name == "git" and any(word.raw == "--no-index" for word in inner.words)
        if name == "cd" or no_index or name in PROGRAMS:
            named = list(files_of(inner)) or ([(Access.READ, "~", None)] if name == "cd" else [])
            found = [why for one in named if (why := self._file(name, *one)) is not None]
            if not found and name in ("cp", "mv") and self.all is None and _has_options(inner):
                found.append(_ask("`cp` and `mv` with options always ask"))
        outputs = [why for one in command.redirects if (why := self._output(one)) is not None]
        denied = [why for why in (*outputs, *found) if why.verdict is Verdict.DENY]
        return next(iter((*denied, *found, *outputs)), None)

    def _file(self, name: str, access: Access, text: str, word: Word | None) -> Why | None:
        if text in STREAMS or (word is not None and (word.inside or word.raw == _FED)):
            return None
        path = self.places.absolute(text)
        is_glob = word is not None and word.glob
        changed = access is Access.EDIT and (
            _PLACE in self.text or "$" in (word.raw if word else "").replace("$HOME", "")
        )
        if word is not None and (changed or _EXPANDS.search(word.resolved or word.raw)):
            return _ask("a path with `$`, a backtick or another user's `~` in it is not analysed")
        if name in _REMOVES and (text in ("*", "./*", "/*", "~/*") or (self.places.critical(path) and not is_glob)):
            return _ask(f"removing `{text}` is never allowed by a rule", "whole")
        if is_glob and name in CHANGES and (self.all is None or name == "sed"):
            return self._path(access, self.places.absolute(_folder_of(text))) or _ask("a pattern in a file's name")
        if is_glob:
            return self._path(access, self.places.absolute(_folder_of(text)))
        if word is not None and _TRAVERSAL.search(text):
            return _ask("`..` after a folder may follow a link")
        return self._path(access, path)

    def _path(self, access: Access, path: str) -> Why | None:
        """Judge one file: protected files when it is changed, then the boundary of the project."""
        restricted = self.rules.restrict_path(access, path, self.places.base)
        if restricted is not None and (restricted.verdict is Verdict.DENY or access is Access.EDIT):
            return Why(restricted.verdict, "rule" if restricted.verdict is Verdict.DENY else "path", restricted.rules)
        if access is Access.EDIT and self.places.protected(path):
            return _ask(f"`{path}` is protected")
        if self.all is not None or self.places.inside(path) or self.places.allowing(access, path):
            return None
        kind = self.places.facts.kind(path)
        folder = path.rpartition("/")[0] if kind is not None and kind.value != "dir" else path
        return Why(Verdict.ASK, "path", reason=f"`{path}` is outside the working directory", folder=folder or "/")

    def _output(self, redirect: Redirect) -> Why | None:
        """Judge a redirection: writing needs an allow rule for the path, or `acceptEdits` inside the project."""
        text = loosen(redirect.target)
        if Access.EDIT not in accesses(redirect):
            return None
        if _TRAVERSAL.search(text) or redirect.operator.endswith("<>"):
            return _ask(f"`{redirect.text}` may lead elsewhere")
        path = self.places.absolute(text)
        found = self._path(Access.EDIT, path)
        if found is not None or self.all is not None or self.places.allowing(Access.EDIT, path):
            return found
        if self.rules.mode == "acceptEdits" and self.places.inside(path):
            return None
        return _ask(f"`{path}` would be written")

    # --- the line
    def _together(self, judged: list[Judged]) -> tuple[list[Judged], Why | None]:
        """Judge the line as a whole, none of whose commands is denied."""
        critical = next((why for _, why in judged if why.kind == "whole"), None)
        if critical is not None or self.all is not None:
            return judged, critical
        if any(why.verdict is Verdict.ASK and why.kind == "rule" for _, why in judged):
            return judged, None
        directory = self._directory()
        exact = self.rules.allow_text(self.text)
        if directory is not None and (directory.kind == "whole" or exact is None):
            return judged, directory
        evaluated = next(filter(None, map(_evaluates, self.top)), None)
        if exact is not None and (len(self.top) > 1 or evaluated is not None):
            return [(command, _by_rule(exact)) for command, _ in judged], None
        return judged, None if evaluated is None else _ask(evaluated, "whole")

    def _directory(self) -> Why | None:
        """Return the verdict on `cd` in a line with commands whose meaning depends on the directory."""
        moving = [one for one in self.top if one.name in _MOVES and not self._stays(one)]
        moves = [one for one in moving if one.name == "cd"]
        if any(map(_writes, moves)):
            return _ask("`cd` writes to a file", "whole")
        if len(moving) > 1:
            return _ask("the line changes the directory more than once", "whole")
        if not moves or len(self.top) < 2:
            return None
        here = any(word.resolved in (".", "./") for word in moves[0].words[1:])
        if any(one.name == "git" for one in self.top) and not here:
            return _ask("`git` runs hooks of the directory that `cd` leads to", "whole")
        if any(map(_writes, self.top)):
            return _ask("the line changes the directory and writes to a file", "whole")
        if any(access is Access.EDIT for one in self.top for access, _, _ in files_of(inmost(one))):
            kind = "whole" if self.rules.mode == "acceptEdits" else "path"
            return _ask("the line changes the directory and changes files", kind)
        return None

    def _stays(self, command: ShellCommand) -> bool:
        """Return whether it is `cd` to the working directory by its full name, which changes nothing."""
        if command.name != "cd" or len(command.words) != 2 or command.redirects:
            return False
        text = command.words[1].resolved or ""
        return text.startswith("/") and ".." not in text and self.places.absolute(text) == self.places.cwd

    # --- the answer
    def _told(self, source: str, judged: Sequence[Judged], why: Why | None, *, liftable: bool) -> Evaluation:
        verdict = strictest([*(one.verdict for _, one in judged), *([why.verdict] if why else [])])
        liftable = liftable and why is None
        parts = [
            Part(command.statement or command.text, one.verdict, one.rules, liftable and one == _NO_RULE, one.grants)
            for command, one in judged
        ]
        if why is not None and not any(part.verdict is verdict for part in parts):
            parts.append(Part(self.text, verdict, why.rules, liftable=False))
        deciding = [one for one in (why, *(one for _, one in judged)) if one is not None and one.verdict is verdict]
        reason = next((one.reason for one in deciding if one.reason), None)
        message = None
        if verdict is Verdict.DENY:
            denied = next(command for command, one in judged if one.verdict is Verdict.DENY)
            message = _DENIED.format(denied.statement if self._is_piped(denied) else source)
        elif verdict is Verdict.ALLOW and any(one.grants for one in deciding):
            reason = _GRANTED
        refs = tuple(dict.fromkeys(ref for one in deciding for ref in one.rules))
        return Evaluation(verdict, tuple(parts), refs, message, reason, self._proposals(judged, why))

    def _is_piped(self, command: ShellCommand) -> bool:
        """Return whether a command is a stage of a pipeline, by which the program then names it."""
        if command not in self.top or len(self.analysis.operators) != len(self.top) - 1:
            return False
        at = self.top.index(command)
        return any(one in ("|", "|&") for one in self.analysis.operators[max(at - 1, 0) : at + 1])

    def _proposals(self, judged: Sequence[Judged], why: Why | None) -> tuple[str, ...]:
        asking = [(command, one) for command, one in judged if one.verdict is Verdict.ASK]
        if why is not None:
            return (proposal(self.text),) if why.kind == "path" else ()
        if not asking or any(one.verdict is Verdict.DENY for _, one in judged):
            return ()
        if len(asking) == 1 and asking[0][1].kind == "path":
            return (_proposal_for(asking[0][0], written=True) if len(judged) == 1 else proposal(self.text),)
        found = []
        for command, one in asking:
            if one.folder is not None and len(asking) > 1:
                found.append(f"Read(/{one.folder.rstrip('/')}/**)")
            elif one.kind != "rule":
                found.append(_proposal_for(command, written=one.kind == "path"))
        return tuple(dict.fromkeys(found))


def _grouped(commands: Sequence[ShellCommand]) -> list[tuple[ShellCommand, tuple[ShellCommand, ...]]]:
    """Return each command that the line runs itself, with those inside it; not those of a script's text."""
    found: list[tuple[ShellCommand, tuple[ShellCommand, ...]]] = []
    for command in commands:
        if command.inside is None:
            found.append((command, ()))
        elif found and command.wrapper is not Wrapper.SCRIPT:
            found[-1] = (found[-1][0], (*found[-1][1], command))
    return found


def behind_wrappers(command: ShellCommand) -> Iterator[ShellCommand]:
    """Yield a command and those behind each of its wrappers that change nothing."""
    yield command
    inner = peel(command) if command.name != "xargs" else inmost(command)
    if inner is None or inner is command:
        return
    options = [word.raw for word in command.words[1:] if word not in inner.words and word.raw.startswith("-")]
    if command.name == "timeout" or (command.name != "xargs" and all(map(_WRAPPER_OPTION.fullmatch, options))):
        yield from behind_wrappers(inner)
    elif not options:
        yield inner


def _redirects_first(command: ShellCommand) -> bool:
    first = command.statement[:1] in "<>&0123456789"
    return bool(command.redirects) and first and not command.statement.startswith(command.words[0].raw)


def _unsafe_variable(command: ShellCommand) -> str | None:
    before, _, _ = command.statement.partition(command.text)
    unsafe = _ENVIRONMENT.sub(lambda found: "" if found[1] in LISTS.safe_variables else found[0], before)
    return f"`{unsafe.strip()}` in front of a command may change what it does" if unsafe.strip() else None


def _evaluates(command: ShellCommand) -> str | None:
    """Return why no rule with a `*` covers a command: it runs its arguments."""
    if not command.words:
        return None
    inner = inmost(command)
    name = inner.name or ""
    if inner.words[0].resolved is None:
        return "the name of a command is known only when the line runs"
    if name in _EVALUATES or (name in STATE_BUILTINS and not is_harmless_builtin(inner)):
        return f"`{name}` runs its arguments, or changes what later commands mean"
    if name == "find":
        varies = any(word.glob or "$" in word.raw for word in inner.words)
        changes = any(access is Access.EDIT or _GLOB.search(path) for access, path, _ in files_of(inner))
        if varies or changes or worry(inner) is not None:
            return "`find` runs commands or changes files with these arguments"
    return worry(inner) if name in _RUN_CODE else None


def _has_options(command: ShellCommand) -> bool:
    return any(word.raw.startswith("-") and word.raw != "--" for word in command.words[1:])


def _writes(command: ShellCommand) -> bool:
    return any(not one.operator.lstrip("0123456789").startswith("<") and not _is_copy(one) for one in command.redirects)


def _is_copy(redirect: Redirect) -> bool:
    return redirect.operator.endswith(">&") and (redirect.target.resolved or "").isdigit()


def _folder_of(text: str) -> str:
    """Return the folder in front of the first wildcard."""
    head = _GLOB.split(text, maxsplit=1)[0]
    return head.rpartition("/")[0] + ("/" if "/" in head else "") or "."


def proposal(text: str, *, prefix: bool = True) -> str:
    """Return `Bash(w1 w2 *)` if the second word is a plain one in lower case, else the whole text."""
    found = _PREFIX.match(text) if prefix else None
    return f"Bash({found[1]} {found[2]} *)" if found else f"Bash({text})"


def _proposal_for(command: ShellCommand, *, written: bool) -> str:
    """Return the proposal for one command. Redirections are included if they were asked about."""
    wraps = any(name in table for name in lookups(command.name or "") for table in (OPAQUE, SHELLS, TRANSPARENT))
    return proposal(command.statement if written else command.text, prefix=not wraps)


def hardened_proposals(proposals: Sequence[str]) -> tuple[str, ...]:
    """Return the proposals without those for programs whose effect an argument can change."""
    return tuple(text for text in proposals if not _risky(text))


def _risky(text: str) -> bool:
    if not text.startswith("Bash("):
        return False
    analysis = lex(text[len("Bash(") : -1])
    names = [command.name or "" for command in analysis.commands]
    if not names or not analysis.plain:
        return True
    tables = (ARGUMENTS, OPAQUE, SHELLS, STATE_BUILTINS, TRANSPARENT)
    return any(name in table for program in names for name in lookups(program) for table in tables)

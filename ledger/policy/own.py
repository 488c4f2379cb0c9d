"""A policy that also denies agents access to the ledger itself. Hardened only; no rule or grant lifts it. Pure.

It finds lines that would answer in place of a person, and paths of the data folder and of the settings that hold hooks
and bridges.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Call, Evaluation, Grant, Part, Policy, PolicySource, RuleRef, Verdict
from ledger.policy.facts import FileFacts, NoFacts
from ledger.policy.inputs import COMMANDS, WRITTEN, may_be_path, members, patched, texts_in
from ledger.policy.matching import name_glob
from ledger.policy.shell.analyse import analyse, analyse_simple
from ledger.policy.shell.danger import is_harmless_builtin
from ledger.policy.shell.files import LineOfFiles
from ledger.policy.shell.forms.nodes import Effect, NormalForm, OperandKind, program_table
from ledger.policy.shell.forms.reduction import form_of_words
from ledger.policy.shell.forms.respelling import tails
from ledger.policy.shell.model import Analysis, ShellCommand, Word, accesses
from ledger.policy.shell.names import basename
from ledger.policy.shell.words import loosen, shorten

PROGRAM: Final = "permission-ledger"
DATA: Final = "the ledger's data folder"
HOOKS: Final = "a file in which hooks, bridges or settings of the ledger stand"

_DEFAULT_FOLDER: Final = (".local", "share", PROGRAM)
_OTHER_FOLDER: Final = ("share", PROGRAM)
_SOCKET_FOLDER: Final = (f"{PROGRAM}-*",)
"""A folder directly in that of temporary files, for a socket whose path would be too long in the data folder."""

_DATA_FILES: Final = frozenset(
    {"gateway.json", "gateway-token", "gateway.sock", "server.sock", "brought-rules", "installed", "askers"}
)
_HOOK_FILES: Final = (
    (".claude", "settings.json"),
    (".claude", "settings.local.json"),
    (".claude", "hooks"),
    (".claude.json",),
    (".mcp.json",),
    ("opencode.json",),
    ("opencode.jsonc",),
    (".opencode", "plugin"),
    (".opencode", "plugins"),
    (".codex", "hooks.json"),
    (".codex", "config.toml"),
    (".gemini", "settings.json"),
    (".qwen", "settings.json"),
    (".codelia", "config.json"),
    (".copilot", "config.json"),
    (".copilot", "mcp-config.json"),
    (".kimi", "config.toml"),
    ("zed", "settings.json"),
    (f"{PROGRAM}.toml",),
    (f"{PROGRAM}.*.json",),
    (".config", PROGRAM),
    (PROGRAM, "config.toml"),
    (PROGRAM, "trusted.json"),
)
_HOOK_FOLDERS: Final = frozenset(names[0] for names in _HOOK_FILES if len(names) > 1) - {"zed", ".config", PROGRAM}
_GLOB: Final = frozenset("*?[")


class Hit(IntEnum):
    """A degree of certainty that a path is one of the ledger's, in rising order."""

    NONE = 0
    STAR = 1  # a name that is `*` alone may stand for it, as for everything in a folder
    MAYBE = 2  # a glob may stand for it, among others
    NAMED = 3  # it is named


class OwnPaths:
    """Matches paths against the ledger's files. `folders` are data folders by their real, absolute paths."""

    def __init__(self, folders: Iterable[str] = ()) -> None:
        self._folders = tuple(_names(one) for one in folders)

    @property
    def words(self) -> frozenset[str]:
        """Return the names, in lower case, one of which every text about these files contains."""
        names = {name for one in (_OTHER_FOLDER, _SOCKET_FOLDER, *_HOOK_FILES) for name in one} | _DATA_FILES
        names |= {name for folder in self._folders for name in folder}
        return frozenset(name.strip("*").casefold() for name in names)

    def data(self, path: str, folder: str) -> Hit:
        """Return how surely a path is a data folder, or is inside one: `NAMED`, `MAYBE` or `NONE`.

        `folder` is where the call runs. A glob for names in it is about the project, unless it names the ledger's.
        """
        names = _names(path)
        if any(_begins(names, one) for one in self._folders if path.startswith("/")):
            return Hit.NAMED
        if _run(names, _DEFAULT_FOLDER) >= Hit.MAYBE:
            return Hit.NAMED
        is_inside = _is_inside(path, folder)
        found, socket = _run(names, _OTHER_FOLDER), _run(names, _SOCKET_FOLDER)
        if socket is Hit.NAMED or not is_inside:
            found = max(found, socket)
        # A relative path, for example from `~/.local/share`: the folder by its name alone, with one of its files.
        for a, b in pairwise(names):
            above, file = max(_hit(a, PROGRAM), _hit(a, f"{PROGRAM}-*")), max(_hit(b, one) for one in _DATA_FILES)
            least = Hit.MAYBE if is_inside or file is not Hit.NAMED else Hit.STAR
            if above >= least and file >= Hit.MAYBE and (Hit.NAMED in (above, file) or not is_inside):
                found = max(found, Hit.NAMED if Hit.NAMED in (above, file) else Hit.MAYBE)
        return found if found >= Hit.MAYBE else Hit.NONE

    def holds_data(self, path: str) -> bool:
        """Return whether a folder contains a data folder."""
        names = _names(path)
        if names[:1] == ("~",):
            return _DEFAULT_FOLDER[: len(names) - 1] == names[1:]
        return path.startswith("/") and any(_begins(folder, names) for folder in self._folders)

    @staticmethod
    def hooks(path: str) -> Hit:
        """Return how surely a path is a hooks file, or is inside one."""
        names = _names(path)
        return max(_run(names, one) for one in _HOOK_FILES)

    @staticmethod
    def holds_hooks(path: str) -> Hit:
        """Return how surely a path is a folder that contains hooks files."""
        names = _names(path)
        return max(_run(names[-1:], (one,)) for one in _HOOK_FOLDERS)


def joined(folder: str, path: str) -> str:
    """Return the path relative to a folder; a path that begins with `~` or a variable is unchanged."""
    return path if path.startswith(("/", "~", "$")) else posixpath.join(folder, path)


def _names(path: str) -> tuple[str, ...]:
    return tuple(one for one in posixpath.normpath(path.replace("\0", "")).split("/") if one not in ("", "."))


def _is_inside(path: str, folder: str) -> bool:
    names, around = _names(path), _names(folder)
    if path.startswith("/"):
        return folder.startswith("/") and around != () and names[: len(around)] == around
    return not path.startswith(("~", "$")) and names[:1] != ("..",)


def _hit(name: str, wanted: str) -> Hit:
    """Compare two names as a case-insensitive file system does; `name` may be a glob, and `wanted` hold a `*`."""
    one, other = name.casefold(), wanted.casefold()
    if one == other or ("*" in other and name_glob(other)(one)):
        return Hit.NAMED
    if _GLOB.isdisjoint(one):
        return Hit.NONE
    if one.strip("*?") == "":
        return Hit.NONE if other.startswith(".") else Hit.STAR
    return Hit.MAYBE if name_glob(one)(other) else Hit.NONE


def _begins(names: Sequence[str], folder: Sequence[str]) -> bool:
    return len(names) >= len(folder) and all(_hit(*both) >= Hit.MAYBE for both in zip(names, folder, strict=False))


def _run(names: Sequence[str], wanted: Sequence[str]) -> Hit:
    """Return the hit of the best run of names; `STAR` if one of them is `*` alone, `NONE` if all are."""
    count, best = len(wanted), Hit.NONE
    for at in range(len(names) - count + 1):
        hits = [_hit(*both) for both in zip(names[at : at + count], wanted, strict=True)]
        best = max(best, min(hits) if max(hits) > Hit.STAR else Hit.NONE)
    return best


READERS: Final = frozenset(
    ("bat", "cat", "cmp", "cut", "diff", "du", "egrep", "fgrep", "file", "grep", "head", "jq", "less", "ls", "md5sum",
     "more", "od", "rg", "sha256sum", "stat", "strings", "tail", "test", "[", "tree", "wc", "xxd", "cd")
)  # fmt: skip
"""Programs that read a hooks file, or enter its folder, without changing it."""

_TEXTS: Final = frozenset({OperandKind.TEXT, OperandKind.NAME, OperandKind.TASK, OperandKind.URL})
_WRITTEN: Final = frozenset({OperandKind.WRITE, OperandKind.EDIT, OperandKind.OUTPUT})
_HARMLESS: Final = frozenset({Effect.PLAIN, Effect.READ, Effect.URL})
_A_NAME: Final = Word("name", "name")


class LineReading:
    """The commands of one line, and what they do with their words."""

    def __init__(self, analysis: Analysis) -> None:
        self._commands = analysis.commands
        followed = analysis.plain or analysis.redirects_only
        self._passes_names = not followed or LineOfFiles.of(self._commands).takes_names
        self._runs: dict[str, list[ShellCommand]] = {}
        for command in self._commands:
            # A wrapper's text is longer than that of what it runs, unless that is made of the line's input.
            if command.wrapper is not None and len(command.text) < len(command.inside or ""):
                self._runs.setdefault(command.inside or "", []).append(command)
        self._read: dict[int, frozenset[int]] = {}

    def only_reads(self, command: ShellCommand, at: int) -> bool:
        """Return whether no file is written that the word at this index names.

        The words of a command behind a wrapper are judged with that command, and count as read here.
        """
        if basename(command.name or "") in READERS or at in self._inner_words(command):
            return True
        if id(command) not in self._read:  # the line's commands live as long as this object
            self._read[id(command)] = self._read_words(command)
        return at in self._read[id(command)] and (not self._passes_names or self._writes_nothing)

    @cached_property
    def _writes_nothing(self) -> bool:
        """Return whether a command that is given names by another one has nothing to write them to."""
        return all(map(self._is_reading, self._commands))

    def _is_reading(self, command: ShellCommand) -> bool:
        if any(accesses(one) and not one.operator.endswith("<") for one in command.redirects):
            return False
        if not command.words or basename(command.name or "") in READERS or is_harmless_builtin(command):
            return True
        runs = self._runs.get(command.text)
        if runs is not None:
            return all(map(self._is_reading, runs))
        if command.wrapper is not None:  # `xargs` gives it more operands
            command = replace(command, words=(*command.words, _A_NAME))
        read = self._read_words(command)
        return all(at in read for at in range(1, len(command.words)))

    def _inner_words(self, command: ShellCommand) -> frozenset[int]:
        """Return the indexes of the words that are commands of their own: `cat a` in `timeout 5 cat a`."""
        found = set[int]()
        for inner in self._runs.get(command.text, ()):
            count = len(inner.words)
            starts = [at for at in range(len(command.words)) if command.words[at : at + count] == inner.words]
            found.update(at for start in starts[-1:] for at in range(start, start + count))
        return frozenset(found)

    def _read_words(self, command: ShellCommand) -> frozenset[int]:
        runs = self._runs.get(command.text, ())
        inner = self._inner_words(command) if runs and all(map(self._is_reading, runs)) else frozenset[int]()
        return frozenset(_read(command.words, inner))


def _read(words: Sequence[Word], inner: frozenset[int]) -> set[int]:
    """Return the indexes of the words that are only read, or are texts; none if a word is not explained.

    `inner` are the indexes of the words of a command that it runs, if that one only reads.
    """
    form = form_of_words(tuple(replace(word, glob=False) for word in words))
    if form is None or any(one.at not in inner for one in form.unclear) or any(node.always for node in form.nodes):
        return set()
    odd = {one.effect for one in form.options} & {Effect.ASKS, Effect.CODE, Effect.PROGRAM}
    if odd and not (odd == {Effect.CODE} and inner):
        return set()
    found = {at for at, word in enumerate(words) if at == 0 or word.resolved == "--"}
    found |= {*form.path_at, *(one.at for one in form.operands if _is_read(one.kind, form))}
    for option in form.options:
        if option.effect in _HARMLESS:
            found |= {at for at in (option.at, option.value_at) if at is not None}
    found -= {at for one in form.options if one.effect not in _HARMLESS for at in (one.at, one.value_at)}
    if form.inner is not None:
        before = len(words) - len(form.inner.words)
        found |= {before + at for at in _read(form.inner.words, frozenset())}
    return found


def _is_read(kind: OperandKind, form: NormalForm) -> bool:
    if kind is OperandKind.READ:  # beside a file to write, it may be moved or linked
        return not form.edits and not any(one.kind in _WRITTEN for one in form.operands)
    return kind in _TEXTS


READING: Final = frozenset(
    ("ask", "pending", "approved", "sessions", "show", "log", "replay", "verify", "streams", "doctor", "policy", "export")
)  # fmt: skip
"""Commands that answer no request. Every other command is denied to agents, including new ones."""

_MODULE: Final = late_pattern(r"(?:workers(?:\.|$)|permission_ledger$)")
_MOVERS: Final = frozenset(
    ("7z", "chattr", "chmod", "chown", "cp", "cpio", "install", "ln", "mount", "mv", "pax", "rclone", "rename", "rm", "rmdir",
     "rsync", "scp", "setfacl", "shred", "tar", "trash", "unlink", "unzip", "zip")
)  # fmt: skip
"""Programs for which a folder stands for everything in it."""

_NAMED: Final = late_pattern(r"permission[-_]ledger|workers[./]cli")
_QUOTES: Final = str.maketrans("", "", "'\"\\\n")
_HEREDOC: Final = ("<<", "<<-")


class Touched(NamedTuple):
    """A part of the ledger that a call touches: a noun phrase, and the verdict (deny, or ask for a possible one)."""

    what: str
    verdict: Verdict


def touched(what: str, hit: Hit) -> Touched | None:
    """Return the verdict on a path: a deny if it is the ledger's, an ask if a glob may stand for it."""
    if hit is Hit.NONE:
        return None
    return Touched(what, Verdict.DENY if hit is Hit.NAMED else Verdict.ASK)


class OwnCommands:
    """Finds the parts of a line that touch the ledger itself."""

    def __init__(self, paths: OwnPaths) -> None:
        self._paths = paths
        names = "|".join(map(re.escape, sorted(paths.words | {PROGRAM, "workers"})))
        self._suspect = late_pattern(rf"{names}|[*?\[{{]|\$'", re.IGNORECASE)

    def may_touch(self, line: str) -> bool:
        """Return False for a line that contains none of the ledger's names, however quoted.

        Most lines need no analysis.
        """
        return self._suspect.search(line.translate(_QUOTES)) is not None

    def touched(self, line: str, folder: str) -> Touched | None:
        """Return what a line in this folder touches, a deny before an ask; None for nothing."""
        analysis = analyse_simple(line)
        asked = None
        for one in (analysis, *_with_values(line, analysis)):
            for found in self._in(one, folder):
                if found is not None and found.verdict is Verdict.DENY:
                    return found
                asked = asked or found
        return self._hidden(line, analysis) or asked

    def _in(self, analysis: Analysis, folder: str) -> Iterator[Touched | None]:
        reading, here = LineReading(analysis), folder
        for command in analysis.commands:
            yield self._answers(command)
            if program_table(command.name or "") is None:
                for tail in tails(command, _is_ours):
                    answers = self._answers(tail)
                    yield None if answers is None else answers._replace(verdict=Verdict.ASK)
            yield from self._reached(command, reading, here, folder)
            if command.name in ("cd", "pushd") and len(command.words) > 1:
                here = joined(here, loosen(command.words[-1]))

    def _answers(self, command: ShellCommand) -> Touched | None:
        words = [loosen(word) for word in command.words]
        for at in range(len(words)):
            if (at == 0 or _runs_others(words[0])) and _is_program(words, at):
                rest = [one for one in words[at + 1 :] if not one.startswith("-")]
                if (rest and rest[0] not in READING) or (not rest and not _asks_for_help(words[at + 1 :])):
                    said = f" {rest[0]}" if rest else ""
                    return Touched(f"`{PROGRAM}{said}`, which is for people", Verdict.DENY)
                return None
        return None

    def _reached(self, command: ShellCommand, reading: LineReading, here: str, folder: str) -> Iterator[Touched | None]:
        """Yield what the words, assignments and redirections of a command that runs `here` touch."""
        moves = basename(command.name or "") in _MOVERS
        for at, word in enumerate(command.words):
            for text in _texts(word) if at else (loosen(word),):
                path = joined(here, text)
                yield touched(DATA, self._paths.data(path, folder))
                if at and moves and self._paths.holds_data(path):
                    yield Touched(DATA, Verdict.DENY)
                hooks = self._paths.hooks(path) if at else Hit.NONE
                if hooks and (moves or not reading.only_reads(command, at)):
                    yield touched(HOOKS, hooks)
                if at and moves:
                    yield touched(HOOKS, self._paths.holds_hooks(path))
        for assignment in command.assignments:
            yield touched(DATA, self._paths.data(loosen(assignment.value), folder))
        for redirect in command.redirects:
            if not redirect.operator.endswith(_HEREDOC):
                target = joined(here, loosen(redirect.target))
                yield touched(DATA, self._paths.data(target, folder))
                if "<" not in redirect.operator:
                    yield touched(HOOKS, self._paths.hooks(target))

    @staticmethod
    def _hidden(line: str, analysis: Analysis) -> Touched | None:
        """Return a description of an answering command in a line that the analysis cannot follow.

        Such a line has a variable, an alias or a function.
        """
        if analysis.plain or analysis.redirects_only or not _NAMED.search(line):
            return None
        after = _NAMED.split(line, maxsplit=1)[1]
        words = re.findall(r"[A-Za-z][\w-]*", after)
        said = next((word for word in words if word in _ANSWERING), None)
        return None if said is None else Touched(f"`{PROGRAM} … {said}`, which is for people", Verdict.DENY)


def _with_values(line: str, analysis: Analysis) -> Iterator[Analysis]:
    """Yield the line with the values of its own variables and loops, if it has any: `for f in *.json; do rm $f; done`."""
    if not (analysis.plain or analysis.redirects_only):
        known = analyse(line)
        if known.flow is not None:
            yield known


_ANSWERING: Final = frozenset(
    ("reply", "grant", "revoke", "token", "inbox", "serve", "up", "import", "hook", "cancel", "close", "rebuild")
)
_RUNNERS: Final = late_pattern(
    r"(?:python|pypy)[\d.]*|uvx?|pipx|rye|poetry|pdm|hatch|npx|bunx|xargs|parallel|env|sudo|doas|su|exec|command|nohup|"
    r"setsid|timeout|stdbuf|nice|watch|find|busybox|docker|podman|nsenter|chroot|ssh|alias|function|eval|(?:ba|da|z|k|fi)?sh"
)


def _runs_others(program: str) -> bool:
    return _RUNNERS.fullmatch(basename(program)) is not None


def _is_ours(word: str) -> bool:
    return _is_program([word], 0)


def _is_program(words: list[str], at: int) -> bool:
    word = words[at]
    if basename(word).removesuffix(".exe") == PROGRAM or word.partition("@")[0] == PROGRAM:
        return True
    if at and words[at - 1] == "-m" and _MODULE.match(word):
        return True
    return word.endswith(("workers/cli/__main__.py", "workers/cli", "permission_ledger.py"))


def _asks_for_help(words: list[str]) -> bool:
    return bool(words) and all(word in ("-h", "--help", "--version") for word in words)


def _texts(word: Word) -> Iterator[str]:
    """Yield the word, and paths within it: the value of an option, the parts between colons."""
    text = loosen(word)
    yield text
    if "=" in text:
        yield text.partition("=")[2]
    if ":" in text and not text.startswith("-"):
        yield from text.split(":")
    if text.startswith("-") and "/" in text:
        yield text[text.index("/") :]
    if text.startswith("@"):
        yield text[1:]


LAYER: Final = "permission-ledger"
"""The layer name that the denying rule is reported with."""

_RULE: Final = RuleRef("the ledger guards itself (hardened)", LAYER)

_SHELLS: Final = frozenset(
    ("bash", "shell", "sh", "run_shell_command", "shell_command", "local_shell", "exec", "exec_command", "execute",
     "terminal", "run_terminal_cmd", "powershell", "monitor")
)  # fmt: skip
_READERS: Final = frozenset(
    ("read", "view", "glob", "glob_search", "grep", "list", "ls", "notebookread", "read_file", "read_many_files", "search",
     "webfetch")
)  # fmt: skip


class GuardingPolicy:
    """Judges as `policy` does, denies every call that touches the ledger itself, and asks about one that may."""

    def __init__(self, policy: Policy, folders: Iterable[str], facts: FileFacts) -> None:
        self._policy = policy
        self._paths = OwnPaths(folders)
        self._commands = OwnCommands(self._paths)
        self._facts = facts

    def __getattr__(self, name: str) -> Any:
        # A dialect's attributes beyond the protocol (a confirm request, its rules) are passed through.
        return getattr(self._policy, name)

    @property
    def source(self) -> PolicySource:
        return self._policy.source

    def evaluate(self, call: Call, grants: Sequence[Grant] = ()) -> Evaluation:
        """Return the policy's own evaluation, or a stricter one that names the part of the ledger that the call touches.

        A deny, or an ask for a glob that may stand for a file of the ledger; where nobody is asked, it is a deny too.
        """
        found = self._policy.evaluate(call, grants)
        if found.verdict is Verdict.DENY:
            return found
        touches = self._touched(call)
        if touches is None:
            return found
        text, (what, verdict) = touches
        part = Part(shorten(text), verdict, (_RULE,), liftable=False)
        if verdict is Verdict.ASK and _asks_people(self.source):
            reason = f"`{shorten(text)}` may touch {what}, for which a pattern in it may stand"
            rules = (*found.rules, _RULE) if found.verdict is Verdict.ASK else (_RULE,)
            return replace(found, verdict=verdict, parts=(*found.parts, part), rules=rules, reason=reason, always=())
        reason = (
            f"`{shorten(text)}` touches {what}: the ledger keeps itself from the agents that it judges, whatever rules "
            "and grants say; do it yourself, in a terminal of your own"
        )
        return replace(
            found, verdict=Verdict.DENY, parts=(replace(part, verdict=Verdict.DENY),), rules=(_RULE,),
            message=f"Denied by rule: {reason}", reason=reason, always=(), ask_first=(),
        )  # fmt: skip

    def lifts(self, grant: Grant, permission: str, part: Part) -> bool:
        return self._policy.lifts(grant, permission, part)

    def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        return self._policy.disabled(tools)

    def _touched(self, call: Call) -> tuple[str, Touched] | None:
        """Return the text of a call that touches the ledger, a deny before an ask."""
        asked = None
        for text, found in self._touching(call):
            if found is not None and found.verdict is Verdict.DENY:
                return text, found
            asked = asked or (found and (text, found))
        return asked

    def _touching(self, call: Call) -> Iterator[tuple[str, Touched | None]]:
        folder = self._folder(call)
        for line in _lines(call):
            if self._commands.may_touch(line):
                yield line, self._commands.touched(line, folder)
        reads = {call.permission.lower(), (call.tool_name or "").lower()} & _READERS
        for path in _paths(call):
            yield path, self._path(joined(folder, path), folder, reads=bool(reads))

    def _folder(self, call: Call) -> str:
        folder = call.cwd or self.source.options.get("cwd")
        return folder if isinstance(folder, str) else "."

    def _path(self, path: str, folder: str, *, reads: bool) -> Touched | None:
        real = self._facts.resolve(path) if path.startswith("/") else path
        data = touched(DATA, max(self._paths.data(path, folder), self._paths.data(real, folder)))
        hooks = Hit.NONE if reads else max(self._paths.hooks(path), self._paths.hooks(real))
        if data is not None and (data.verdict is Verdict.DENY or hooks is not Hit.NAMED):
            return data
        return touched(HOOKS, hooks if hooks > Hit.STAR else Hit.NONE)


def _asks_people(source: PolicySource) -> bool:
    """Return whether somebody is asked: Claude Code's mode and Codelia's option turn each ask into a deny."""
    return source.options.get("mode") != "dontAsk" and source.options.get("supports_confirm") is not False


def guarded(policy: Policy, facts: FileFacts | None) -> Policy:
    """Return the policy, guarded if it is hardened. The data folders are the `own_folders` of the facts."""
    if policy.source.options.get("profile", "hardened") != "hardened":
        return policy
    folders = getattr(facts, "own_folders", ())
    return GuardingPolicy(policy, folders, facts or NoFacts())


def _lines(call: Call) -> Iterator[str]:
    is_shell = {call.permission.lower(), (call.tool_name or "").lower()} & _SHELLS
    if is_shell:
        yield from call.patterns
    for name, value in members(call.input):
        if name in COMMANDS or (is_shell and name not in WRITTEN and isinstance(value, str)):
            if isinstance(value, str):
                yield value
            elif all(isinstance(one, str) for one in value):
                yield shlex.join(value)


def _paths(call: Call) -> Iterator[str]:
    if call.permission.lower() not in _SHELLS:
        yield from (one for one in call.patterns if may_be_path(one))
    for name, value in members(call.input):
        for text in texts_in(value):
            if name not in WRITTEN and name not in COMMANDS and may_be_path(text):
                yield text.removeprefix("file://")
            yield from patched(text)

"""Detection of shell lines that would answer in place of a person, or reach the ledger's own files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Verdict
from ledger.policy.own.paths import DATA, HOOKS, PROGRAM, Hit, OwnPaths, joined
from ledger.policy.shell.analyse import analyse, analyse_simple
from ledger.policy.shell.builtins import is_harmless_builtin
from ledger.policy.shell.files import LineOfFiles
from ledger.policy.shell.forms import Effect, NormalForm, OperandKind, form_of_words
from ledger.policy.shell.forms.programs import program_table
from ledger.policy.shell.model import Analysis, ShellCommand, Word, accesses
from ledger.policy.shell.names import basename
from ledger.policy.shell.near import tails
from ledger.policy.shell.words import loosen

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

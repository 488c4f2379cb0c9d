"""Detection of shell lines that would answer in place of a person, or reach the ledger's own files. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Verdict
from ledger.policy.own.paths import DATA, HOOKS, PROGRAM, Hit, OwnPaths, joined
from ledger.policy.own.reading import LineReading
from ledger.policy.shell.analyse import analyse, analyse_simple
from ledger.policy.shell.model import Analysis, ShellCommand, Word
from ledger.policy.shell.names import basename
from ledger.policy.shell.words import loosen

READING: Final = frozenset(
    ("ask", "pending", "approved", "sessions", "show", "log", "replay", "verify", "streams", "doctor", "policy", "export")
)  # fmt: skip
"""Commands that answer no request. Every other command is denied to agents, including new ones."""

_MODULE: Final = late_pattern(r"(?:workers(?:\.|$)|permission_ledger$)")
_MOVERS: Final = frozenset(
    ("chattr", "chmod", "chown", "cp", "install", "ln", "mount", "mv", "rename", "rm", "rmdir", "rsync", "setfacl",
     "shred", "tar", "trash", "unlink", "unzip")
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

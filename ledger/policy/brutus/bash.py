"""Requests of BRUTUS's bash tool for a line: a pattern per command, and folders outside the project (brutus.md)."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final, NamedTuple

from ledger.policy.facts import FileFacts
from ledger.policy.reach import leads_out
from ledger.policy.shell import ShellCommand, Word
from ledger.policy.shell.budget import Budget
from ledger.policy.shell.forms.files import named_paths
from ledger.policy.shell.names import basename
from ledger.policy.shell.parse import parse
from ledger.policy.shell.text import join_lines
from ledger.policy.shell.words import loosen
from ledger.policy.toolrules.paths import within
from ledger.policy.unknown import UNKNOWN_FOLDER

PATH_COMMANDS: Final = frozenset({"cd", "rm", "cp", "mv", "mkdir", "touch", "chmod", "chown"})
"""Commands whose arguments are checked; the page leaves the list to OpenCode's (opencode.md, "Bash Tool")."""

_STREAMS: Final = frozenset({"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr"})

MORE_PATH_COMMANDS: Final = frozenset({"rmdir", "ln", "cat"})
"""Further commands that the hardened profile checks."""


class CommandPlace(NamedTuple):
    """The project, the start directory of a command, and facts about files. No path is inside an unknown project."""

    project: str
    directory: str
    home: str | None
    facts: FileFacts

    def holds(self, path: str) -> bool:
        return self.project != UNKNOWN_FOLDER and within(path, self.project)


def commands_of(line: str) -> tuple[ShellCommand, ...] | None:
    """Return each simple command at any depth; None for a line that is too long or too complicated.

    A line in which the grammar finds no command (an assignment, a redirection alone) is split into words.
    """
    budget = Budget()
    found = parse(join_lines(line), budget)
    if budget.spent is not None:
        return None
    commands = tuple(one.command for one in found if one.command.words)
    if commands or not line.strip():
        return commands
    return (ShellCommand(line.strip(), tuple(Word(word, word) for word in line.split())),)


def pattern_of(command: ShellCommand) -> str:
    """Return the words as written, with one space between them, without assignments and redirections."""
    return " ".join(word.raw for word in command.words)


def outside(commands: Sequence[ShellCommand], place: CommandPlace) -> tuple[str, ...]:
    """Return the arguments of path commands that lead outside the project, resolved, without repeats.

    Arguments with a leading `-` are options.
    """
    found: dict[str, None] = {}
    for command in commands:
        if command.words and loosen(command.words[0]) in PATH_COMMANDS:
            for word in command.words[1:]:
                path = _resolved(word, place)
                if not word.raw.startswith("-") and not place.holds(path):
                    found[path] = None
    return tuple(found)


def really_outside(commands: Sequence[ShellCommand], place: CommandPlace) -> tuple[str, ...]:
    """Return `outside` with programs matched by base name, more of them, and links followed.

    The start directory of the line counts too.
    """
    found = dict.fromkeys(outside(commands, place))
    root = place.facts.resolve(place.project)
    if commands and place.project != UNKNOWN_FOLDER and not within(place.facts.resolve(place.directory), root):
        found[place.directory] = None
    for command in commands:
        if not command.words or basename(loosen(command.words[0])) not in PATH_COMMANDS | MORE_PATH_COMMANDS:
            continue
        for word in command.words[1:]:
            path = _resolved(word, place)
            if loosen(word).startswith("-"):
                continue
            if not place.holds(path) or not within(place.facts.resolve(path), root):
                found[path] = None
    for command in commands:
        for path in named_paths(command) if command.words else ():
            if path not in _STREAMS and leads_out(path, place.directory, (place.project,), place.facts, place.home):
                found[_resolved(Word(path, path, tilde=path.startswith("~")), place)] = None
    return tuple(found)


def _resolved(word: Word, place: CommandPlace) -> str:
    """Return an absolute path; `~` without a known home stays as written and is outside every folder."""
    text = loosen(word)
    if word.tilde:
        if place.home is None or not (text == "~" or text.startswith("~/")):
            return text
        text = place.home + text[1:]
    return "/" + posixpath.normpath(posixpath.join(place.directory, text)).lstrip("/")

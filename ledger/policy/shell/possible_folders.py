"""Possible folders of the commands of a line, by its `cd` commands. Broad: for deny and ask rules only."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from ledger.policy.shell.directories import CHANGES_MAX, DIRECTORIES_MAX
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.words import loosen

_MOVING = frozenset({"cd", "chdir", "pushd"})


def standing(commands: Iterable[ShellCommand], directory: str) -> tuple[str, ...] | None:
    """Return every folder in which a command of the line may run, the initial one first; None if there are too many."""
    places = dict.fromkeys([directory])
    changes = 0
    for command in commands:
        if command.words and loosen(command.words[0]) in _MOVING:
            changes += 1
            for word in command.words[1:]:
                places.update(dict.fromkeys(joined(places, (loosen(word),))))
            if changes > CHANGES_MAX or len(places) > DIRECTORIES_MAX:
                return None
    return tuple(places)


def joined(places: Iterable[str], folders: Iterable[str]) -> tuple[str, ...]:
    """Return every folder relative to every place, applied in order as in `git -C a -C b`."""
    found = dict.fromkeys(places)
    for folder in folders:
        found.update(dict.fromkeys([posixpath.join(place, folder) for place in found]))
    return tuple(found)

"""The folders in which the commands of a line may run. Pure.

Exact for a plain line whose `cd` commands are all understood. For any other line, every folder that a `cd` in it may
lead to counts for every command.
"""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Final

from ledger.policy.shell.directories import DIRECTORIES_MAX, Directories
from ledger.policy.shell.flow import straight
from ledger.policy.shell.model import Analysis, ShellCommand
from ledger.policy.shell.operands.values import LineValues
from ledger.policy.shell.words import loosen

RunFolders = tuple[str, ...]

_MOVES: Final = frozenset({"cd", "chdir", "pushd"})


class CommandFolders:
    """The folders of each command of an analysis, the initial one first; none where it is unknown."""

    def __init__(self, analysis: Analysis, folder: str | None, values: LineValues) -> None:
        self._everywhere: RunFolders = () if folder is None else (folder,)
        self._exact: Sequence[RunFolders] | None = None
        moving = [one for one in analysis.commands if _moves(one)]
        if folder is None or not moving:
            return
        if (analysis.plain or analysis.redirects_only) and all(one.inside is None for one in moving):
            flow = analysis.flow or straight(analysis.operators)
            found = Directories(analysis.top, flow, folder, _entered)
            if not found.leaves:
                self._exact = [tuple(place for place in sorted(one) if "*" not in place) for one in found.places]
                return
        self._everywhere = _reached(moving, folder, values)

    def of_top(self, index: int) -> RunFolders:
        """Return the folders of the command at an index of `Analysis.top`."""
        return self._everywhere if self._exact is None else self._exact[index]

    @property
    def everywhere(self) -> RunFolders:
        """Return the folders of a command whose place in the line is unknown."""
        if self._exact is None:
            return self._everywhere
        return tuple(dict.fromkeys(one for folders in self._exact for one in folders))


def _moves(command: ShellCommand) -> bool:
    return bool(command.words) and loosen(command.words[0]) in _MOVES


def _entered(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(folder, target))  # a shell removes `..` by the text of its folder


def _reached(moving: Sequence[ShellCommand], folder: str, values: LineValues) -> RunFolders:
    places = dict.fromkeys([folder])
    for command in moving:
        targets = [found.text for word in command.words[1:] if (found := values.of(word)) is not None]
        if len(command.words) == 1 and values.home is not None:
            targets = [values.home]
        for target in targets:
            if not target.startswith("-"):
                places.update(dict.fromkeys([_entered(place, target) for place in places]))
        if len(places) > DIRECTORIES_MAX:
            break
    return tuple(places)[:DIRECTORIES_MAX]

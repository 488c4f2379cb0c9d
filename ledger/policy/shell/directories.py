"""Where each command of a plain line may run, as far as its `cd`s tell. Pure: `enter` knows the file system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ledger.policy.shell.model import Command

DIRECTORIES_MAX: Final = 16
CHANGES_MAX: Final = 32

Enter = Callable[[str, str], str | None]


def cd_target(command: Command) -> str | None:
    """The literal directory of `cd DIR`; None for every other form (`cd`, `cd -`, `cd -P x`, `cd ~`, `cd *`)."""
    if len(command.words) != 2 or command.words[0].resolved != "cd":
        return None
    target = command.words[1]
    if not target.resolved or target.glob or target.tilde or target.resolved.startswith(("-", "+")):
        return None
    return target.resolved


class Directories:
    """`places[i]` are the directories in which command `i` may run; `leaves` holds the `cd`s that may lead outside.

    A command after `&&` runs where the one before it succeeded, after `||` where it failed, otherwise in either; a
    stage of a pipeline changes the directory for nobody, but nothing relies on that.
    """

    def __init__(self, commands: Sequence[Command], operators: Sequence[str], directory: str, enter: Enter) -> None:
        self.places: list[frozenset[str]] = []
        self.leaves: set[int] = set()
        self._enter = enter
        self._changes = 0
        succeeded = failed = frozenset({directory})
        index = 0
        while index < len(commands):
            end = index + 1
            while end < len(commands) and operators[end - 1] in ("|", "|&"):
                end += 1
            operator = operators[index - 1] if index else ";"
            start = {"&&": succeeded, "||": failed}.get(operator, succeeded | failed)
            on_success, on_failure = self._pipeline(commands[index:end], index, start)
            if operator == "&&":
                succeeded, failed = on_success, failed | on_failure
            elif operator == "||":
                succeeded, failed = succeeded | on_success, on_failure
            else:
                succeeded, failed = on_success, on_failure
            index = end

    def _pipeline(
        self, commands: Sequence[Command], index: int, start: frozenset[str]
    ) -> tuple[frozenset[str], frozenset[str]]:
        after = start
        for offset, command in enumerate(commands):
            self.places.append(start)
            if command.name == "cd":
                entered = self._entered(command, index + offset, start)
                if len(commands) == 1:
                    return entered, start
                after = after | entered
        return after, after

    def _entered(self, command: Command, index: int, start: frozenset[str]) -> frozenset[str]:
        target = cd_target(command)
        self._changes += 1
        if target is None or self._changes > CHANGES_MAX:
            self.leaves.add(index)
            return start
        entered = {self._enter(place, target) for place in start}
        found = frozenset(place for place in entered if place is not None)
        if None in entered or len(found | start) > DIRECTORIES_MAX:
            self.leaves.add(index)
            return start
        return found

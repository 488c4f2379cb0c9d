"""Possible working directories of each command of a plain line, derived from its `cd` commands.

Pure: access to the file system is injected as `enter`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import Flow, ShellCommand, Step

DIRECTORIES_MAX: Final = 16
CHANGES_MAX: Final = 32
STEPS_MAX: Final = 20_000

_BELOW = late_pattern(r"(?!\.\.?/)[A-Za-z0-9_.@][A-Za-z0-9_.@-]*/(?!.*\.\.).*", re.DOTALL)

Enter = Callable[[str, str], str | None]
Places = frozenset[str]


def cd_target(command: ShellCommand) -> str | None:
    """Return the target of `cd DIR`, with `*` for an unknown rest below a known folder.

    None for every other form (`cd`, `cd -`, `cd -P x`, `cd ~`, `cd *`).
    """
    if len(command.words) != 2 or command.words[0].resolved != "cd":
        return None
    target = command.words[1]
    if target.resolved is None:
        return f"{target.prefix}*" if target.prefix and target.inside else None
    if not target.resolved or target.tilde or target.resolved.startswith(("-", "+")):
        return None
    return None if target.glob and not _BELOW.fullmatch(target.resolved) else target.resolved


class Directories:
    """The possible working directories of the commands of a line.

    `places[i]` are the directories in which command `i` may run. `leaves` are the indexes of `cd` commands that may
    lead outside. A command after `&&` runs where its predecessor succeeded, after `||` where it failed, otherwise in
    either. A stage of a pipeline and a subshell change the directory for no other command; for pipelines, this is not
    relied on.
    """

    def __init__(self, commands: Sequence[ShellCommand], flow: Step, directory: str, enter: Enter) -> None:
        self.places: list[frozenset[str]] = [frozenset()] * len(commands)
        self.leaves: set[int] = set()
        self._commands, self._enter = commands, enter
        self._changes = self._steps = 0
        self._seen: Places = frozenset()
        self._step(flow, frozenset({directory}))

    def _step(self, step: int | Step, start: Places) -> tuple[Places, Places]:
        """Return the possible directories after the step succeeded, and after it failed."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            self.leaves.update(index for index, command in enumerate(self._commands) if command.name == "cd")
            return start, start
        if isinstance(step, int):
            return self._command(step, start)
        if step.flow is Flow.LIST:
            return self._list(step, start)
        if step.flow is Flow.LOOP:
            return self._loop(step, start)
        if step.flow is Flow.CHOICE:
            return self._choice(step, start)
        ends = [self._step(part, start) for part in step.parts]
        if step.flow is Flow.ALONE:
            return start, start
        if step.flow is Flow.NOT:
            return ends[0][1], ends[0][0]
        after = start.union(*(end for both in ends for end in both))
        return after, after

    def _command(self, index: int, start: Places) -> tuple[Places, Places]:
        self.places[index] |= start
        command = self._commands[index]
        entered = self._entered(command, index, start) if command.name == "cd" else start
        self._seen |= start | entered
        return entered, start

    def _list(self, step: Step, start: Places) -> tuple[Places, Places]:
        succeeded = failed = start
        for part, operator in zip(step.parts, (";", *step.operators), strict=False):
            begin = {"&&": succeeded, "||": failed}.get(operator, succeeded | failed)
            on_success, on_failure = self._step(part, begin)
            if operator == "&&":
                succeeded, failed = on_success, failed | on_failure
            elif operator == "||":
                succeeded, failed = succeeded | on_success, on_failure
            else:
                succeeded, failed = on_success, on_failure
        return succeeded, failed

    def _loop(self, step: Step, start: Places) -> tuple[Places, Places]:
        """Return the directories after a loop.

        Because of `break`, a round may begin wherever any part of another round ended.
        """
        around, self._seen = self._seen, start
        before: Places = frozenset()
        while self._seen != before and self._steps <= STEPS_MAX:
            before = self._seen
            for part in step.parts:
                self._seen = self._seen.union(*self._step(part, self._seen))
        after, self._seen = self._seen, self._seen | around
        return after, after

    def _choice(self, step: Step, start: Places) -> tuple[Places, Places]:
        after, at = frozenset[str](), start
        for index in range(0, len(step.parts) - 1, 2):
            yes, no = self._step(step.parts[index], at)
            after = after.union(*self._step(step.parts[index + 1], yes))
            at = no
        after = after.union(*self._step(step.parts[-1], at)) if len(step.parts) % 2 else after | at
        return after, after

    def _entered(self, command: ShellCommand, index: int, start: frozenset[str]) -> frozenset[str]:
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

"""Rules about files, applied to the words of every command of a line; the same for every dialect."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from ledger.core.policy import Verdict
from ledger.policy.matching.overlap import UNKNOWN, is_glob
from ledger.policy.shell.directories import CHANGES_MAX, DIRECTORIES_MAX
from ledger.policy.shell.files import LineOfFiles, Named, folders, named_files, names_all
from ledger.policy.shell.forms import NormalForm
from ledger.policy.shell.model import Access, CommandRules, Ruling, ShellCommand
from ledger.policy.shell.text import shorten
from ledger.policy.shell.words import loosen
from ledger.policy.spelled import is_of_a_process

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


LOOKED_UP_MAX: Final = 2_048
"""Maximum files of one line that are looked up; a line that may name more asks."""

_LOOKING: Final = frozenset({"echo", "ls", "stat", "basename", "dirname", "wc", "du", "file"})
"""Programs that tell of a file its name or its size."""

_ASK: Final = Ruling(Verdict.ASK)


class NamedFiles:
    """The words of one line, and the possible folders of its commands."""

    def __init__(self, rules: CommandRules, commands: Sequence[ShellCommand], directory: str) -> None:
        self._rules = rules
        self._guards = rules.guards_files()
        self._places = standing(commands, directory) if self._guards else ()
        self._line = LineOfFiles.of(commands) if self._guards else LineOfFiles()
        self._known: dict[tuple[tuple[Access, ...], str, str], Ruling | None] = {}

    def restrictions(self, command: ShellCommand, form: NormalForm | None) -> Iterator[tuple[Ruling, str]]:
        """Yield the strictest ruling about the files that a command may name, with its reason; at most one."""
        if not self._guards:
            return
        if self._places is None:
            yield _ASK, "the line changes its folder too often to know which files it names"
            return
        taken = self._line.takes_all and command.wrapper is not None and (command.name or "") not in _LOOKING
        if taken or (form is not None and form.program == "git" and names_all(form)):
            yield _ASK, f"`{shorten(command.text)}` takes every file, also those that a rule restricts"
        places = joined(self._places, folders(command))
        asked = None
        for named in named_files(command, form, self._line):
            ruling = self._of(named, places)
            if ruling is None:
                continue
            shown = named.path.replace(UNKNOWN, "…")
            if ruling.verdict is Verdict.DENY:
                yield ruling, f"a rule denies the file `{shown}`"
                return
            asked = asked or (ruling, f"`{shown}` may be a file that a rule restricts")
        if asked is not None:
            yield asked

    def _of(self, named: Named, places: Sequence[str]) -> Ruling | None:
        for place in places:
            if is_of_a_process(posixpath.join(place, named.path)):
                return _ASK
            ruling = self._ruling(named.accesses, named.path, place)
            if ruling is not None:
                is_sure = named.is_sure and not is_glob(named.path)
                return ruling if is_sure else Ruling(Verdict.ASK, ruling.rules)
        return None

    def _ruling(self, accesses: tuple[Access, ...], path: str, place: str) -> Ruling | None:
        key = (accesses, path, place)
        if key not in self._known:
            full = len(self._known) >= LOOKED_UP_MAX
            self._known[key] = _ASK if full else self._rules.restrict_file(accesses, path, place)
        return self._known[key]

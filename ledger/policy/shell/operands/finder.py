"""The files that a shell line executes or reads as a program. Pure and total; bounded in files and paths."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import OPERAND_COUNT, OPERAND_PATH_BYTES, OPERAND_PATH_COUNT
from ledger.core.operands import WantedOperand, tidy
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.model import ShellCommand
from ledger.policy.shell.names import lookups
from ledger.policy.shell.operands.places import CommandFolders, RunFolders
from ledger.policy.shell.operands.reading import CommandReading
from ledger.policy.shell.operands.values import VALUE_CHARS_MAX, LineValues, PathText
from ledger.policy.shell.tables.dangers import PROGRAM_FOLDERS
from ledger.policy.shell.tables.operands import ELSEWHERE, PRINTS, PROGRAM_FILES, VARIABLES, ProgramFiles
from ledger.policy.shell.text import too_long

_NOT_FILES: Final = ("/dev/", "/proc/", "/sys/")
_ADDRESS: Final = "://"
_NAMED_BY_FOLDER: Final = frozenset({"", ".", ".."})
_SEPARATORS: Final = late_pattern(r"[:=\s]+")
_NOTHING: Final = ProgramFiles()


class _Around(NamedTuple):
    """The surroundings of one command: its folders, the files fed to it, and if it runs among other files."""

    folders: RunFolders
    fed: tuple[PathText, ...] = ()
    is_elsewhere: bool = False


def wanted_operands(line: str, folder: str | None, home: str | None = None) -> tuple[WantedOperand, ...]:
    """Return the files that a line executes or reads as a program when it starts in `folder`, without repeats.

    `folder` and `home` are absolute; a relative path, or one below `~`, is left out where they are None. At most
    `OPERAND_COUNT` files are returned, those of the first commands. Files are named by the line; a file that another
    one includes or imports is not found, and neither is one whose name is known only when the line runs.
    """
    if too_long(line):
        return ()
    found: dict[WantedOperand, None] = {}
    for one in _Finder(line, folder, home).all():
        found[one] = None
        if len(found) == OPERAND_COUNT:
            break
    return tuple(found)


class _Finder:
    """One line."""

    def __init__(self, line: str, folder: str | None, home: str | None) -> None:
        self.analysis = analyse(line)
        self.commands = self.analysis.commands
        self.values = LineValues(self.commands, home)
        self.folders = CommandFolders(self.analysis, folder, self.values)
        self.around: dict[str, _Around] = {}
        """The surroundings of the commands that a command runs, by the text of that command."""
        self.runs = frozenset(one.inside for one in self.commands if one.inside is not None)
        self.is_input_found = False

    def all(self) -> Iterator[WantedOperand]:
        """Yield the files of each command in source order; repeats included."""
        top = -1
        seen: set[tuple[str, str, _Around]] = set()
        for command in self.commands:
            top += command.inside is None
            around = self._surroundings(command, top)
            key = (command.text, command.statement, around)
            if key not in seen:  # a line may have many thousand equal commands
                seen.add(key)
                yield from self._of(command, around)

    def _surroundings(self, command: ShellCommand, top: int) -> _Around:
        fed = tuple(_fed(command, self.values))
        outer = None if command.inside is None else self.around.get(command.inside)
        if outer is not None:
            return outer._replace(fed=(*outer.fed, *fed))
        return _Around(self.folders.of_top(top) if command.inside is None else self.folders.everywhere, fed)

    def _of(self, command: ShellCommand, around: _Around) -> Iterator[WantedOperand]:
        if command.assignments and not around.is_elsewhere:
            yield from _loaded(command, self.values, around.folders)
        name = self.values.of(command.words[0]) if command.words else None
        if name is None:
            self.around[command.text] = around
            return
        names = lookups(name.text)
        entry = next((PROGRAM_FILES[one] for one in names if one in PROGRAM_FILES), None)
        reading = CommandReading(entry or _NOTHING, command.words, self.values)
        self.around[command.text] = self._inside(around, reading, names)
        if not around.is_elsewhere:
            yield from _own_path(name, around.folders)
            if entry is not None:
                yield from self._named(reading, around.folders)
        if self._runs_input(command, reading):
            yield from self._input(around)

    def _inside(self, around: _Around, reading: CommandReading, names: Sequence[str]) -> _Around:
        is_elsewhere = around.is_elsewhere or not ELSEWHERE.isdisjoint(names)
        return around._replace(folders=_entered(around.folders, reading.folders), is_elsewhere=is_elsewhere)

    def _runs_input(self, command: ShellCommand, reading: CommandReading) -> bool:
        """Return whether a command runs its standard input, or the output of another command, as a program."""
        if reading.programs or not (reading.entry.stdin or reading.from_stdin):
            return False
        return reading.substitutes or (reading.reads_stdin and command.text not in self.runs)

    def _input(self, around: _Around) -> Iterator[WantedOperand]:
        """Yield the files that an interpreter may read its program from: redirected to it, or printed for it."""
        for path in around.fed:
            yield from _wanted([path], self.folders.everywhere)
        if self.is_input_found:
            return
        self.is_input_found = True
        for command in self.commands:
            fed = list(_fed(command, self.values))
            if not command.words:
                for path in fed:
                    yield from _wanted([path], self.folders.everywhere)
            elif not PRINTS.isdisjoint(lookups(command.name or "")):
                operands = [word for word in command.words[1:] if not word.raw.startswith("-")]
                printed = [found for word in operands if (found := self.values.of(word)) is not None]
                for path in (*printed, *fed):
                    yield from _wanted([path], self.folders.everywhere, is_optional=True)

    def _named(self, reading: CommandReading, folders: RunFolders) -> Iterator[WantedOperand]:
        entry = reading.entry
        works_in = _entered(folders, reading.folders)
        if entry.place and reading.others:
            works_in = _entered(works_in, reading.others[:1])
        for program in reading.programs:
            yield from _program(program, entry, works_in)
        if entry.matching is not None:
            for other in reading.others[:1]:
                yield from _of_folder(other, entry, works_in)
        for file in reading.files:
            yield from _wanted(_with_suffixes(file, entry), works_in if reading.folders else folders)
        if reading.module is not None:
            yield from _module(reading.module, works_in)
            yield from self._of_module(reading, works_in)
        if entry.default and not (reading.files or reading.programs or reading.from_stdin):
            yield from _fixed(entry.default, works_in, is_upward=entry.upward)
        for name in entry.beside:
            yield from _fixed((name,), works_in, is_upward=entry.upward)

    def _of_module(self, reading: CommandReading, folders: RunFolders) -> Iterator[WantedOperand]:
        """Yield what a module that is itself a program with a table reads: `python -m pytest x.py`."""
        entry = PROGRAM_FILES.get(reading.module or "")
        if entry is not None and "-m" not in entry.module:
            yield from self._named(CommandReading(entry, reading.rest, self.values), folders)


def _fed(command: ShellCommand, values: LineValues) -> Iterator[PathText]:
    for redirect in command.redirects:
        if redirect.operator.lstrip("0") in ("<", "<>") and (found := values.of(redirect.target)) is not None:
            yield found


def _loaded(command: ShellCommand, values: LineValues, folders: RunFolders) -> Iterator[WantedOperand]:
    """Yield the files that a variable in front of the command makes it load: `BASH_ENV=x bash -c ls`."""
    for one in command.assignments:
        found = values.of(one.value) if one.name in VARIABLES else None
        for text in _SEPARATORS.split(found.text) if found is not None else ():
            if not text.startswith("-"):
                yield from _wanted([PathText(text)], folders, is_optional=True)


def _own_path(name: PathText, folders: RunFolders) -> Iterator[WantedOperand]:
    """Yield the program itself if the line names it by a path, other than one of the system's programs."""
    if "/" in name.text and posixpath.dirname(name.text) not in PROGRAM_FOLDERS:
        yield from _wanted([name], folders)


def _program(program: PathText, entry: ProgramFiles, folders: RunFolders) -> Iterator[WantedOperand]:
    patterns = [name for name in entry.inside if "*" in name and entry.matching is None]
    inside = [PathText(f"{program.text}/{name}") for name in entry.inside if "*" not in name]
    yield from _wanted([*_with_suffixes(program, entry), *inside], folders, is_optional=bool(patterns))
    for name in patterns:
        yield from _wanted([PathText(f"{program.text}/{name}", is_glob=True)], folders, is_optional=True)


def _of_folder(other: PathText, entry: ProgramFiles, folders: RunFolders) -> Iterator[WantedOperand]:
    """Yield the programs in an operand that is a folder: `go run .`."""
    for name in entry.inside:
        if "*" in name:
            yield from _wanted([PathText(f"{other.text}/{name}", is_glob=True)], folders, is_optional=True)


def _with_suffixes(file: PathText, entry: ProgramFiles) -> list[PathText]:
    if file.is_glob or posixpath.basename(file.text) in _NAMED_BY_FOLDER:
        return [file]
    return [file, *(PathText(file.text + suffix) for suffix in entry.suffixes)]


def _module(module: str, folders: RunFolders) -> Iterator[WantedOperand]:
    """Yield the files of `python -m a.b` in the folder: packages on the way, then the module or the package's main."""
    parts = module.split(".")
    if not all(part.isidentifier() for part in parts):
        return
    for length in range(1, len(parts) + 1):
        package = "/".join(parts[:length])
        yield from _wanted([PathText(f"{package}/__init__.py")], folders, is_optional=True)
    whole = "/".join(parts)
    yield from _wanted([PathText(f"{whole}/__main__.py"), PathText(f"{whole}.py")], folders, is_optional=True)


def _fixed(names: Sequence[str], folders: RunFolders, *, is_upward: bool) -> Iterator[WantedOperand]:
    """Yield files that a program reads without being told, if there are any."""
    is_glob = "*" in names[0]
    for folder in folders:
        places = [folder, *(_above(folder) if is_upward else ())]
        paths = [tidy(posixpath.join(place, name)) for place in places for name in names]
        kept = tuple(filter(_may_be_file, paths))[:OPERAND_PATH_COUNT]
        if kept:
            yield WantedOperand(kept, is_optional=True, is_glob=is_glob)


def _above(folder: str) -> Iterator[str]:
    while folder not in ("/", "//", ""):
        folder = posixpath.dirname(folder.rstrip("/"))
        yield folder


def _entered(folders: RunFolders, targets: Iterable[PathText]) -> RunFolders:
    """Return the folders after options such as `-C`, each relative to the one before."""
    for target in targets:
        if target.is_glob or not _is_path(target.text):
            continue
        if target.text.startswith("/"):
            folders = (target.text,)
        else:
            folders = tuple(tidy(posixpath.join(folder, target.text)) for folder in folders)
    return folders


def _wanted(paths: Sequence[PathText], folders: RunFolders, *, is_optional: bool = False) -> Iterator[WantedOperand]:
    """Yield one wanted file for each folder, or a single one for absolute paths."""
    texts = [path.text for path in paths if _is_path(path.text)]
    if not texts:
        return
    is_glob = paths[0].is_glob
    if is_glob and any(letter in posixpath.dirname(texts[0]) for letter in "*?["):
        return  # the shell would look in many folders
    bases = ("/",) if texts[0].startswith("/") else folders
    for base in bases:
        found = tuple(tidy(posixpath.join(base, text)) for text in texts)
        kept = tuple(path for path in found if _may_be_file(path))
        if kept:
            yield WantedOperand(kept, is_optional=is_optional or len(bases) > 1 or is_glob, is_glob=is_glob)


def _is_path(text: str) -> bool:
    return bool(text) and text != "-" and "\0" not in text and _ADDRESS not in text and len(text) <= VALUE_CHARS_MAX


def _may_be_file(path: str) -> bool:
    return not path.startswith(_NOT_FILES) and len(path.encode("utf-8", "surrogatepass")) <= OPERAND_PATH_BYTES

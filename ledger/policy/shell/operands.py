"""The files that a shell line executes or reads as a program. Pure and total; bounded in files and paths."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import OPERAND_COUNT, OPERAND_PATH_BYTES, OPERAND_PATH_COUNT
from ledger.core.operands import WantedOperand, tidy
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.directories import DIRECTORIES_MAX, Directories
from ledger.policy.shell.model import Analysis, ShellCommand, Word, straight
from ledger.policy.shell.names import lookups
from ledger.policy.shell.tables import PROGRAM_FOLDERS
from ledger.policy.shell.tables.operands import ELSEWHERE, PRINTS, PROGRAM_FILES, VARIABLES, OptionRole, ProgramFiles
from ledger.policy.shell.words import loosen, too_long

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
            found = Directories(analysis.top, flow, folder, _folder_entered)
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


def _folder_entered(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join(folder, target))  # a shell removes `..` by the text of its folder


def _reached(moving: Sequence[ShellCommand], folder: str, values: LineValues) -> RunFolders:
    places = dict.fromkeys([folder])
    for command in moving:
        targets = [found.text for word in command.words[1:] if (found := values.of(word)) is not None]
        if len(command.words) == 1 and values.home is not None:
            targets = [values.home]
        for target in targets:
            if not target.startswith("-"):
                places.update(dict.fromkeys([_folder_entered(place, target) for place in places]))
        if len(places) > DIRECTORIES_MAX:
            break
    return tuple(places)[:DIRECTORIES_MAX]


WORDS_COUNT: Final = 1_000
"""Words of one command that are read."""

_SUBSTITUTIONS: Final = ("$(", "`", "<(")


class CommandReading:
    """The files, folders and module that the words of a command name, and the source of its program text."""

    def __init__(self, entry: ProgramFiles, words: Sequence[Word], values: LineValues) -> None:
        self.entry = entry
        self.programs: list[PathText] = []
        self.others: list[PathText] = []
        """Operands that the table does not take for programs."""
        self.files: list[PathText] = []
        self.folders: list[PathText] = []
        self.module: str | None = None
        self.rest: Sequence[Word] = ()
        """The words of a module, its name first."""
        self.has_code = False
        self.from_stdin = False
        self._roles = dict(entry.options)
        self._words = words[:WORDS_COUNT]
        self._values = values
        self._operands_count = 0
        self._read()
        unquoted = [word.raw for word in self._words[1:] if not word.raw.startswith("'")]
        self.substitutes = any(mark in raw for raw in unquoted for mark in _SUBSTITUTIONS)
        """A word holds the output of another command."""

    @property
    def reads_stdin(self) -> bool:
        """Return whether the program text comes from standard input, as far as the words say."""
        if self.from_stdin or not self.entry.stdin:
            return self.from_stdin
        return not (self.has_code or self.programs or self.module or self._has_program)

    @property
    def _has_program(self) -> bool:
        return self.entry.program == "first" and self._operands_count > 0

    def _read(self) -> None:
        at, ended = 1, False
        while at < len(self._words) and self.module is None:
            word = self._words[at]
            text = loosen(word)
            if not ended and (text == "--" or (text == "-" and self.entry.program != "none")):
                ended = True
                if text == "-" and not self._ends_at_dash:
                    self.from_stdin = True
                    return
                at += 1
            elif not ended and len(text) > 1 and text[0] in "-+" and not self._is_behind_command:
                at = self._option(at, text)
            else:
                if not self._operand(word, text):
                    return
                at += 1

    @property
    def _ends_at_dash(self) -> bool:
        """Return whether `-` ends the options, as in a shell, rather than naming standard input."""
        return "-s" in self.entry.from_stdin

    @property
    def _is_behind_command(self) -> bool:
        return self.entry.leading and self._operands_count > 0

    # --- operands
    def _operand(self, word: Word, text: str) -> bool:
        """Record an operand. Return whether the next words are the command's own."""
        below = self.entry.below.get(text) if not self._operands_count else None
        if below is not None:
            self.entry = below
            self._roles |= below.options
            return True
        self._operands_count += 1
        value = self._values.of(word)
        if self.entry.program == "none":
            if value is not None:
                self.others.append(value)
            return True
        if value is not None:
            self._program(value)
        return self.entry.program == "all"

    def _program(self, value: PathText) -> None:
        pattern = self.entry.matching
        named = value.text.partition("::")[0] if pattern is not None else value.text
        if self.has_code or self.from_stdin:
            return
        if pattern is None or pattern.fullmatch(named):
            self.programs.append(value._replace(text=named))
        else:
            self.others.append(value)

    # --- options
    def _option(self, at: int, text: str) -> int:
        """Read the option at an index; return the index after it and its value."""
        name, equals, value = text.partition("=")
        role = self._roles.get(text) or (self._roles.get(name) if equals else None)
        if role is not None:
            return self._given(at, role, value if self._roles.get(text) is None else None)
        if text.startswith("--") or self.entry.one_dash:
            return at + 1
        return self._cluster(at, text)

    def _cluster(self, at: int, text: str) -> int:
        """Read `-abcVALUE`: each letter is an option, and the first one with a value takes the rest or the next word."""
        for index, letter in enumerate(text[1:], 2):
            role = self._roles.get(text[0] + letter)
            if role is OptionRole.GLUED:
                return at + 1
            if role is OptionRole.FROM_STDIN:
                self.from_stdin = True
            elif role is OptionRole.CODE:
                self.has_code = True
                if index == len(text):
                    return self._given(at, role, None)
            elif role is not None:
                return self._given(at, role, text[index:].removeprefix("=") or None)
        return at + 1

    def _given(self, at: int, role: OptionRole, value: str | None) -> int:
        """Record an option with its attached value, or else with the next word; return the index after both."""
        if role is OptionRole.FROM_STDIN:
            self.from_stdin = True
        if role in (OptionRole.FROM_STDIN, OptionRole.GLUED):
            return at + 1
        behind = at + 1 if value is not None else at + 2
        self.has_code |= role is OptionRole.CODE
        found = self._value(at, value)
        if found is None:
            return behind
        if role in (OptionRole.FILES, OptionRole.SCRIPT) and found.text == "-":
            self.from_stdin = True
            return behind
        if role is OptionRole.MODULE:
            self.module = found.text
            self.rest = (Word(found.text, found.text), *self._words[behind:])
        elif role is OptionRole.SCRIPT:
            self.programs.append(found)
            return len(self._words)
        elif role is OptionRole.FILES:
            self.files.append(found)
        elif role is OptionRole.FOLDER:
            self.folders.append(found)
        return behind

    def _value(self, at: int, attached: str | None) -> PathText | None:
        """Return the value of the option at an index; None if there is none, or if it is known only when it runs."""
        word = self._words[at]
        if attached is None:
            return self._values.of(self._words[at + 1]) if at + 1 < len(self._words) else None
        return PathText(attached, word.glob) if word.resolved is not None else self._values.of(Word(attached, None))


ROUNDS_MAX: Final = 4
"""Variables whose values name other variables are followed this deep."""

VALUE_CHARS_MAX: Final = 4096
"""A longer value names no file (PATH_MAX of Linux)."""

_VARIABLE = late_pattern(r"\$(?:(?P<bare>[A-Za-z_][A-Za-z0-9_]*)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\})")
_HERE = late_pattern(r"\A(?:\$\(pwd\)|`pwd`|\$PWD(?![A-Za-z0-9_])|\$\{PWD\})")
_RUNS = late_pattern(r"[$`]|[<>]\(|\{[^{}]*(?:,|\.\.)[^{}]*\}")
_GLOB = late_pattern(r"[*?\[]")
_TILDE = late_pattern(r"\A~(?=/|\Z)")


class PathText(NamedTuple):
    """The text of a word before the line runs. `is_glob`: it is a pattern that the shell replaces by file names."""

    text: str
    is_glob: bool = False


class LineValues:
    """The variables of one line that have the same literal value wherever they are set, and the home folder."""

    def __init__(self, commands: Sequence[ShellCommand], home: str | None) -> None:
        self.home = home
        given = [(one.name, one.value.resolved) for command in commands for one in command.assignments]
        times = Counter(name for name, _ in given)
        self._known = {name: value for name, value in given if times[name] == 1 and value is not None}
        self._assigned = frozenset(times)

    def of(self, word: Word) -> PathText | None:
        """Return the text of a word; None if it is known only when the line runs."""
        text = loosen(word)
        if word.resolved is not None:
            return self._at_home(text, word.glob) if word.tilde else PathText(text, word.glob)
        if "PWD" not in self._assigned:
            text = _HERE.sub(".", text)
        for _ in range(ROUNDS_MAX):
            replaced = _VARIABLE.sub(self._value, text)
            if replaced == text or len(replaced) > VALUE_CHARS_MAX:
                break
            text = replaced
        if _RUNS.search(text) is not None or len(text) > VALUE_CHARS_MAX:
            return None
        is_glob = _GLOB.search(word.raw) is not None
        return self._at_home(text, is_glob) if word.raw.startswith("~") else PathText(text, is_glob)

    def _value(self, found: re.Match[str]) -> str:
        name = found["bare"] or found["braced"]
        if name == "HOME" and name not in self._assigned and self.home is not None:
            return self.home
        return self._known.get(name, found.group())

    def _at_home(self, text: str, is_glob: bool) -> PathText | None:
        home = self.home
        if home is None or _TILDE.match(text) is None:
            return None  # another user's home, or one that nobody knows
        return PathText(_TILDE.sub(lambda _: home, text), is_glob)


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

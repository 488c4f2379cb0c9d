"""Files that the words of a command may name, as shell globs, and the rules about files applied to them. Pure.

For deny and ask rules only. Deliberately broad: any possible file counts, wherever it stands in a word
(`--from-file=x`, `-sfx`, `a=x`, `@x`, `HEAD:x`, `load("x")`). The program's table, if any, excludes words that are not
files: sub-commands, targets, patterns, texts.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Verdict
from ledger.policy.matching import UNKNOWN, is_glob
from ledger.policy.shell.directories import CHANGES_MAX, DIRECTORIES_MAX
from ledger.policy.shell.forms.nodes import Effect, NormalForm, OperandKind
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import Access, CommandRules, Ruling, ShellCommand, Word
from ledger.policy.shell.names import basename, lookups
from ledger.policy.shell.tables import PROGRAMS
from ledger.policy.shell.words import loosen, shorten
from ledger.policy.spelled import is_of_a_process

EXPANSIONS_MAX: Final = 64
ANY_TEXT: Final = "**"
"""A placeholder for any text, slashes included, in place of an expansion that is not enumerated."""

_RANGE = late_pattern(r"[^{},]*\.\.[^{},]*")


def expanded(text: str) -> tuple[str, ...]:
    """Return the words of a brace expansion; beyond `EXPANSIONS_MAX` words, `ANY_TEXT` replaces the braces."""
    if "{" not in text or "}" not in text:
        return (text,)
    done: list[str] = []
    todo = [text]
    while todo:
        if len(done) + len(todo) > EXPANSIONS_MAX:
            return (text[: text.index("{")] + ANY_TEXT + text[text.rindex("}") + 1 :],)
        one = todo.pop()
        place = _first_group(one)
        if place is None:
            done.append(one)
            continue
        start, end = place
        inside = one[start + 1 : end]
        parts = [ANY_TEXT] if _RANGE.fullmatch(inside) else alternatives(inside)
        todo += [one[:start] + part + one[end + 1 :] for part in parts]
    return tuple(dict.fromkeys(done))


def _first_group(text: str) -> tuple[int, int] | None:
    """Return the start and end of the first group with a comma or a range; None without one."""
    opened: list[int] = []
    groups = []
    for at, character in enumerate(text):
        if character == "{" and text[at - 1 : at] != "$":
            opened.append(at)
        elif character == "}" and opened:
            groups.append((opened.pop(), at))
    found = [one for one in groups if len(alternatives(text[one[0] + 1 : one[1]])) > 1 or ".." in text[slice(*one)]]
    return min(found, default=None)


def alternatives(inside: str) -> list[str]:
    """Return the texts between the commas outside inner groups."""
    depth, parts = 0, [""]
    for character in inside:
        depth += (character == "{") - (character == "}")
        if character == "," and not depth:
            parts.append("")
        else:
            parts[-1] += character
    return parts


PIECES_MAX: Final = 32
"""Maximum pieces of a word for which the rest from each piece to the end is examined too."""

BOTH: Final = (Access.READ, Access.EDIT)

_SPLIT = late_pattern(r"""[\s=:@,;|&<>()"'`!+#\\^%]+""")
_SPLIT_GLOBS = late_pattern(r"""[\s=:@,;|&<>()\[\]{}"'`!+#\\^%]+""")
_CLUSTER = late_pattern(r"-[A-Za-z0-9]")
_NAME = late_pattern(r"[A-Za-z0-9_-]+")
_EXPANSION = late_pattern(r"\$\{[^}]*\}|\$\([^)]*\)|`[^`]*`|\$[A-Za-z0-9_@*#?$!-]+|[<>]\([^)]*\)")
_FOLDERS_BY_NAME: Final = tuple(
    (late_pattern(rf"\A\$(?:{name}|\{{{name}\}})(?=/|\Z)"), name, meaning)
    for name, meaning in (("HOME", "~"), ("PWD", "."))
)
_STREAM = late_pattern(r"/dev/(?:std(?:in|out|err)|fd/[0-9]+|null|tty|zero|u?random)|-|\.{1,2}|/+")
_WEB = late_pattern(r"https?://", re.IGNORECASE)
_TAKING: Final = frozenset({"xargs", "parallel", "cpio", "pax", "read", "mapfile", "readarray"})
_FROM_INPUT: Final = ("@-", "=-", "--stdin", "-T-")
_SPEAKING: Final = frozenset({"echo", "printf", "true", "false", ":", "sleep", "seq", "kill"})
_EXPRESSIONS: Final = frozenset({"awk", "sed", "jq", "yq", "sqlite", "psql", "perl"})
_OF_OPTIONS: Final = {
    Effect.READ: (Access.READ,), Effect.WRITE: (Access.EDIT,), Effect.OUTPUT: (Access.EDIT,),
}  # fmt: skip
_FOLDERS: Final = frozenset({"-C", "--directory", "--cwd", "--chdir", "--prefix", "--work-tree", "--git-dir", "--dir"})


_NAMING: Final = frozenset({
    "-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "--glob", "--iglob", "--type",
    "--extension", "--exclude-standard",
})  # fmt: skip
"""Options of programs that list files, which choose some of them."""


class LineOfFiles(NamedTuple):
    """Properties of a whole line that affect the words of its commands.

    `assigned` are the variables that the line sets; a `HOME` or `PWD` among them may be any folder. `takes_names` is
    true when one of its commands takes file names from another one, `takes_all` when those may be of any file.
    """

    assigned: frozenset[str] = frozenset()
    takes_names: bool = False
    takes_all: bool = False

    @classmethod
    def of(cls, commands: Sequence[ShellCommand]) -> LineOfFiles:
        assigned = frozenset(one.name for command in commands for one in command.assignments)
        words = [loosen(word) for command in commands for word in command.words] if len(commands) > 1 else []
        takes = any(word.endswith(_FROM_INPUT) or basename(word) in _TAKING for word in words)
        return cls(assigned, takes, takes and any(names_all(form_of(one)) for one in commands))


def names_all(form: NormalForm | None) -> bool:
    """Return whether a command lists or stages every file, also those that git ignores."""
    if form is None or form.names & _NAMING:
        return False
    match form.program, form.path:
        case "git", ("stash",) | ("stash", "push" | "save"):
            return "--all" in form.names
        case "git", ("add",):
            return "--force" in form.names and (
                "--all" in form.names or any(one.text in _HERE for one in form.operands)
            )
        case ("find", _) | ("fd", _):
            return all(one.kind is OperandKind.READ or one.text == "." for one in form.operands)
        case "rg", _:
            return "--files" in form.names
        case _:
            return False


_HERE: Final = frozenset({".", "./", "*", ":/"})


class Named(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that a word may name, as a shell glob, with the possible accesses.

    `is_sure` is true when the program works on files and the word, or the value of an option in it, is this path.
    """

    path: str
    accesses: tuple[Access, ...]
    is_sure: bool = False


def named_files(command: ShellCommand, form: NormalForm | None, line: LineOfFiles) -> tuple[Named, ...]:
    """Return every file that the words and assignments of a command may name, without repeats.

    `form` is the command's normal form, if its program has a table.
    """
    assigned = line.assigned
    found = dict.fromkeys(
        Named(path, BOTH) for one in command.assignments for path in expanded(_known(one.value, assigned))
    )
    names = lookups(command.name or loosen(command.words[0])) if command.words else ()
    if names and (line.takes_names or _SPEAKING.isdisjoint(names)):
        known = next((PROGRAMS[name] for name in names if name in PROGRAMS), None)
        accesses = _accesses(form)
        excused = frozenset() if line.takes_names else _excused(form, names)
        for at, word in enumerate(command.words[1:], 1):
            if at not in excused:
                text = _known(word, assigned)
                found.update(dict.fromkeys(_of_text(text, accesses.get(at, known or BOTH), is_sure=known is not None)))
    return tuple(found)


def folders(command: ShellCommand) -> tuple[str, ...]:
    """Return the folders that options select as the working directory (`git -C x`, `--prefix=x`)."""
    words = [loosen(word) for word in command.words]
    found = [value for word in words if (value := word.partition("=")[2]) and word.partition("=")[0] in _FOLDERS]
    found += [value for word, value in pairwise(words) if word in _FOLDERS]
    return (*found, *(word[2:] for word in words if word.startswith("-C") and word[2:]))


def _excused(form: NormalForm | None, names: Sequence[str]) -> frozenset[int]:
    if form is None:
        return frozenset()
    bare = (OperandKind.NAME, OperandKind.TASK, OperandKind.PROGRAM)
    found = [one.at for one in form.operands if one.kind in bare and _NAME.fullmatch(one.text)]
    found += [one.at for one in form.operands if one.kind is OperandKind.URL and _WEB.match(one.text)]
    if _EXPRESSIONS.isdisjoint(names):
        found += [one.at for one in form.operands if one.kind is OperandKind.TEXT]
        found += [
            one.at if one.value_at is None else one.value_at
            for one in form.options
            if one.effect is Effect.PLAIN and one.value and " " in one.value and "@" not in one.value
        ]
    return frozenset((*form.path_at, *found))


def _accesses(form: NormalForm | None) -> dict[int, tuple[Access, ...]]:
    """Return the possible accesses to the file in each word, as far as the program's table specifies them."""
    if form is None or form.edits:
        return {}
    found = {}
    for option in form.options:
        if option.value and option.effect in _OF_OPTIONS:
            for at in (option.at, option.value_at):
                found[at] = BOTH if at in found else _OF_OPTIONS[option.effect]
    found.update((one.at, (Access.READ,) if one.kind is OperandKind.READ else BOTH) for one in form.operands)
    return {at: accesses for at, accesses in found.items() if at is not None}


def _of_text(text: str, accesses: tuple[Access, ...], *, is_sure: bool) -> Iterator[Named]:
    """Yield the word itself, values attached to an option, and every piece that may be a path."""
    if _STREAM.fullmatch(text):
        return
    option = text.startswith("-")
    either = BOTH if option else accesses
    for word in expanded(text):
        if not option:
            yield Named(word, accesses, is_sure)
        if value := word.partition("=")[2]:
            yield Named(value, either, is_sure)
        if _CLUSTER.match(word):
            yield from (Named(rest, BOTH) for rest in _glued(word))
        yield from (Named(piece, either) for piece in _pieces(word))


def _glued(text: str) -> Iterator[str]:
    """Yield possible values after the letters of `-abcVALUE`."""
    for at in range(2, min(len(text), PIECES_MAX)):
        yield text[at:]
        if not text[at].isalnum():
            return


def _pieces(text: str) -> tuple[str, ...]:
    """Return the parts between characters that are rare in paths, and the text before and after each such character."""
    found: list[str] = []
    for split in (_SPLIT, _SPLIT_GLOBS):
        places = list(split.finditer(text))
        if not places:
            continue
        found += split.split(text)
        if len(places) <= PIECES_MAX:
            found += [text[place.end() :] for place in places]
            found += [text[: place.start()] for place in places]
    return tuple(one for one in dict.fromkeys(found) if one and not _STREAM.fullmatch(one))


def _known(word: Word, assigned: frozenset[str]) -> str:
    """Return the word with `UNKNOWN` for each expansion; a word that is a single expansion is returned unchanged."""
    text = loosen(word)
    if word.resolved is not None:
        return text
    for start, name, meaning in _FOLDERS_BY_NAME:
        if name not in assigned:
            text = start.sub(meaning, text)
    replaced = _EXPANSION.sub(UNKNOWN, text)
    return text if replaced == UNKNOWN else replaced


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

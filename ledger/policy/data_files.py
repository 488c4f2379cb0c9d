"""Reader of the tables of this package, which are written in TOML and compiled into one file by `ledger.policy.compiling`.

Each entry is checked against the type that holds it. An invalid table is a defect of this package, so reading it fails
as a whole: `TableError` names the file and the entry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.errors import PolicyError

COMPILED: Final = Path(__file__).with_name("tables.jsonl")
_ALIASES: Final = "aliases"
_Entry = TypeVar("_Entry")


class TableError(PolicyError):
    """An invalid data file; the message names the file, or the table in it."""


class WordSet(frozenset[str]):
    """Words of one string, separated by blanks and line ends, each written once."""


class WordList(tuple[str, ...]):
    """Words of one string, as in `WordSet`, whose order matters."""

    __slots__ = ()


class _Lines(msgspec.Struct, frozen=True):
    """The first line of the compiled file: the lines of files by their path below `ledger`, and of programs by name."""

    files: dict[str, int]
    programs: dict[str, int]


@cache
def _compiled() -> tuple[_Lines, list[bytes]]:
    lines = COMPILED.read_bytes().split(b"\n")
    return msgspec.json.decode(lines[0], type=_Lines), lines


def data_file(place: str) -> dict[str, Any]:
    """Return the contents of a file by its path below `ledger`."""
    numbers, lines = _compiled()
    return msgspec.json.decode(lines[numbers.files[place]], type=dict[str, Any])


def program_lines() -> dict[str, int]:
    """Return the line of the compiled file that has a program's table, by each name of a program."""
    return _compiled()[0].programs


def read_line(kind: type[_Entry], number: int) -> _Entry:
    """Return the table on a line of the compiled file."""
    return msgspec.json.decode(_compiled()[1][number], type=kind)


def read_file(kind: type[_Entry], place: str) -> _Entry:
    """Convert the contents of a file, as `read_entry`. Raises TableError."""
    return read_entry(kind, data_file(place), place)


def read_entry(kind: type[_Entry], value: object, place: str) -> _Entry:
    """Convert a value to a type with `WordSet`, `WordList` and `LatePattern` among its members. Raises TableError."""
    try:
        return msgspec.convert(value, kind, dec_hook=_from_string)
    except msgspec.ValidationError as error:
        raise TableError(f"{place}: {error}") from None


def read_entries(kind: type[_Entry], tables: Mapping[str, Any], place: str) -> dict[str, _Entry]:
    """Convert each table to a type, under its name and its `aliases`. Raises TableError."""
    found: dict[str, _Entry] = {}
    for name, table in tables.items():
        entry: object = table
        names: tuple[str, ...] = (name,)
        if isinstance(table, dict) and _ALIASES in table:
            entry = {key: value for key, value in table.items() if key != _ALIASES}
            names = (name, *read_entry(WordList, table[_ALIASES], f"{place}: `{name}`: {_ALIASES}"))
        read = read_entry(kind, entry, f"{place}: `{name}`")
        for spelt in names:
            if spelt in found:
                raise TableError(f"{place}: `{spelt}` is listed twice")
            found[spelt] = read
    return found


def _from_string(kind: type, value: object) -> object:
    if not isinstance(value, str):
        raise TypeError(f"Expected `str`, got `{type(value).__name__}`")
    if kind not in (WordSet, WordList):
        return late_pattern(value)
    words = value.split()
    if len(set(words)) != len(words):
        twice = next(word for at, word in enumerate(words) if word in words[:at])
        raise ValueError(f"`{twice}` is listed twice")
    return kind(words)


class LateEntries(Mapping[str, _Entry]):
    """The entries of a data file, read when one is first looked up: most programs that import the rules judge none.

    A look-up raises TableError for an invalid file.
    """

    def __init__(self, kind: type[_Entry], place: str) -> None:
        self._kind, self._place = kind, place

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        return read_entries(self._kind, data_file(self._place), self._place)

    def __getitem__(self, name: str) -> _Entry:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

"""Reader of the tables of this package, which are written in TOML and compiled into one file by `tests.policy.compiling`.

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


Span = tuple[int, int]
"""The beginning and end of a table, in bytes after the first line of the compiled file."""


class TableIndex(msgspec.Struct, frozen=True):
    """The first line of the compiled file: where files are, by their path below `ledger`, and programs, by each name."""

    files: dict[str, Span]
    programs: dict[str, Span]


@cache
def _compiled() -> tuple[TableIndex, memoryview]:
    content = COMPILED.read_bytes()
    first = content.index(b"\n") + 1
    return msgspec.json.decode(content[:first], type=TableIndex), memoryview(content)[first:]


def data_file(place: str) -> dict[str, Any]:
    """Return the contents of a file by its path below `ledger`."""
    return read_span(dict[str, Any], _compiled()[0].files[place])


def program_spans() -> dict[str, Span]:
    """Return where the compiled file has the tables of programs, by each name of a program."""
    return _compiled()[0].programs


def read_span(kind: type[_Entry], span: Span) -> _Entry:
    """Return a table of the compiled file."""
    return msgspec.json.decode(_compiled()[1][slice(*span)], type=kind)


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

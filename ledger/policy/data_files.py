"""Reader of the data files of this package: TOML tables, each entry checked against the type that holds it.

An invalid file is a defect of this package, so reading it fails as a whole: `TableError` names the file and the entry.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cached_property
from importlib.resources import files
from typing import Any, Final, TypeVar

import msgspec

from ledger.policy.errors import PolicyError

_ALIASES: Final = "aliases"
_Entry = TypeVar("_Entry")


class TableError(PolicyError):
    """An invalid data file; the message names the file, or the table in it."""


class WordSet(frozenset[str]):
    """Words of one string, separated by blanks and line ends, each written once."""


class WordList(tuple[str, ...]):
    """Words of one string, as in `WordSet`, whose order matters."""

    __slots__ = ()


def data_file(package: str, name: str) -> dict[str, Any]:
    """Return the contents of a data file of a package. Raises TableError."""
    return parse_toml((files(package) / name).read_text(encoding="utf-8"), name)


def parse_toml(text: str, place: str) -> dict[str, Any]:
    """Return the contents of a text, in which no key stands twice. Raises TableError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{place} is not valid TOML: {error}") from None


def read_entry(kind: type[_Entry], value: object, place: str) -> _Entry:
    """Convert a value to a type with `WordSet`, `WordList` and `re.Pattern` among its members. Raises TableError."""
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
        try:
            return re.compile(value)
        except re.error as error:
            raise ValueError(f"`{value}` is not a regular expression: {error}") from None
    words = value.split()
    twice = next((word for at, word in enumerate(words) if word in words[:at]), None)
    if twice is not None:
        raise ValueError(f"`{twice}` is listed twice")
    return kind(words)


class LateEntries(Mapping[str, _Entry]):
    """The entries of a data file, read when one is first looked up: most programs that import the rules judge none.

    A look-up raises TableError for an invalid file.
    """

    def __init__(self, kind: type[_Entry], package: str, name: str) -> None:
        self._source = (kind, package, name)

    @cached_property
    def _entries(self) -> dict[str, _Entry]:
        kind, package, name = self._source
        return read_entries(kind, data_file(package, name), name)

    def __getitem__(self, name: str) -> _Entry:
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

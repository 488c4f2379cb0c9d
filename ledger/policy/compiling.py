"""Compiler of the tables, which are written in TOML, into the one file that programs read.

`python -m ledger.policy.compiling` writes it. A test compares it with its sources.
"""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Final

import msgspec

from ledger.policy.data_files import COMPILED, TableIndex
from ledger.policy.shell.forms.nodes import Arity, Effect
from ledger.policy.shell.forms.notation import check_names, parse_toml, read_always, read_tables
from ledger.policy.shell.tables.operands import FILE as OPERANDS
from ledger.policy.shell.tables.operands import read_programs

_LEDGER: Final = Path(__file__).parents[1]
_FOLDERS: Final = ("masks/shapes", "policy/claude", "policy/shell/tables")
_PROGRAMS: Final = "policy/shell/programs"
_ALWAYS: Final = f"{_PROGRAMS}/always.toml"
_USUAL: Final = [Effect.PLAIN, Arity.NONE]


def _texts(folder: str) -> dict[str, str]:
    return {f"{folder}/{file.name}": file.read_text("utf-8") for file in sorted((_LEDGER / folder).glob("*.toml"))}


def compiled() -> bytes:
    """Return the compiled file: an index, then a table on each line. Raises TableError."""
    files = {place: parse_toml(text, place) for folder in _FOLDERS for place, text in _texts(folder).items()}
    read_programs(files[OPERANDS]["programs"])  # each entry is checked here, and not by every program that reads it
    tables = _texts(_PROGRAMS)
    programs = [*read_always(tables.pop(_ALWAYS)), *(node for text in tables.values() for node in read_tables(text))]
    check_names(programs, "program tables: the program")
    nodes = [_short(msgspec.to_builtins(node, order="deterministic")) for node in programs]
    lines = [msgspec.json.encode(table) + b"\n" for table in (*files.values(), *nodes)]
    ends = list(accumulate(map(len, lines)))
    spans = list(pairwise([0, *ends]))
    named = zip(programs, spans[len(files) :], strict=True)
    index = TableIndex(
        dict(zip(files, spans, strict=False)),
        {name: span for node, span in named for name in (node.name, *node.aliases)},
    )
    return b"".join([msgspec.json.encode(index), b"\n", *lines])


def _short(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without the effect and arity of options with the usual ones, which come last."""
    if "listed" in table:
        table["listed"] = [[names] if usual == _USUAL else [names, *usual] for names, *usual in table["listed"]]
    if "below" in table:
        table["below"] = [_short(one) for one in table["below"]]
    return table


if __name__ == "__main__":
    COMPILED.write_bytes(compiled())

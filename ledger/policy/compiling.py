"""Compiler of the tables, which are written in TOML, into the one file that programs read.

`python -m ledger.policy.compiling` writes it. A test compares it with its sources.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from ledger.policy.data_files import COMPILED
from ledger.policy.shell.forms.notation import check_names, parse_toml, read_tables

_LEDGER: Final = Path(__file__).parents[1]
_FOLDERS: Final = ("masks/shapes", "policy/claude", "policy/shell/tables")
_PROGRAMS: Final = "policy/shell/programs"


def _texts(folder: str) -> dict[str, str]:
    return {f"{folder}/{file.name}": file.read_text("utf-8") for file in sorted((_LEDGER / folder).glob("*.toml"))}


def compiled() -> bytes:
    """Return the compiled file: the numbers of lines by name, then a table on each line. Raises TableError."""
    files = {place: parse_toml(text, place) for folder in _FOLDERS for place, text in _texts(folder).items()}
    programs = [node for text in _texts(_PROGRAMS).values() for node in read_tables(text)]
    check_names(programs, "program tables: the program")
    lines = [msgspec.json.encode(table) for table in files.values()]
    lines += [msgspec.json.encode(node, order="deterministic") for node in programs]
    numbers = {
        "files": {place: number for number, place in enumerate(files, 1)},
        "programs": {
            name: number for number, node in enumerate(programs, len(files) + 1) for name in (node.name, *node.aliases)
        },
    }
    return b"\n".join([msgspec.json.encode(numbers), *lines, b""])


if __name__ == "__main__":
    COMPILED.write_bytes(compiled())

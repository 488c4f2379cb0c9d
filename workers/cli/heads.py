"""A file of heads: the last entry of each stream at one time. Kept elsewhere, it proves a cut or rewritten end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import msgspec

from ledger.core.errors import InputError
from ledger.core.regular_files import private_file, read_regular
from ledger.log.verify import Head
from ledger.stores.port import Position, StreamKey
from workers.presentation.text import json_line

FORMAT: Final = 1
FILE_BYTES_MAX: Final = 512 * 1024 * 1024
"""The size limit: at about 150 bytes a head, three million streams."""

_HEADER: Final = "permission-ledger heads"


class _Header(msgspec.Struct, forbid_unknown_fields=True):
    file: str
    format: int


class _Line(msgspec.Struct, forbid_unknown_fields=True):
    stream: Annotated[str, msgspec.Meta(pattern="^(session|project|access|policy):.")]
    id: Annotated[str, msgspec.Meta(pattern="^[0-9]+-[0-9]+$")]
    hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


def write_heads(file: Path, heads: Iterable[tuple[StreamKey, Head]]) -> None:
    """Write one JSON object a line, a header first. Raises InputError."""
    rows: list[Mapping[str, Any]] = [{"file": _HEADER, "format": FORMAT}]
    rows += [{"stream": key.name, "id": str(head.position), "hash": head.hash} for key, head in heads]
    try:
        # The old file may be the only proof of an end that is cut off by now: it stays until the new one is complete.
        with private_file(file) as written:
            written.writelines(f"{json_line(row)}\n".encode() for row in rows)
    except OSError as error:
        raise InputError(f"`{file}` cannot be written: {error.strerror}") from error


def read_heads(file: Path) -> dict[StreamKey, Head]:
    """Read a file of heads. Raises InputError with the number of the wrong line."""
    try:
        lines = read_regular(file, FILE_BYTES_MAX).splitlines()
    except OSError as error:
        raise InputError(f"`{file}` cannot be read: {error.strerror}") from error
    _check_header(file, lines[0] if lines else b"")
    return dict(_read_line(file, number, text) for number, text in enumerate(lines[1:], 2))


def _check_header(file: Path, text: bytes) -> None:
    try:
        header = msgspec.json.decode(text, type=_Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"`{file}` is not a file of heads: {error}") from error
    if header.file != _HEADER or header.format != FORMAT:
        raise InputError(f"`{file}` is not a file of heads that this version can read")


def _read_line(file: Path, number: int, text: bytes) -> tuple[StreamKey, Head]:
    try:
        line = msgspec.json.decode(text, type=_Line)
        return StreamKey.parse(line.stream), Head(Position.parse(line.id), line.hash)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise InputError(f"`{file}` line {number}: {error}") from error

r"""Whole streams as lines of JSON: what an export and a file of the archive are made of. Pure.

{"stream": "session:ses_1"}
{"id": "1795260143882-1", "d": "{\"v\":1,…}", "x": "{…}"}    an entry: its payload, and its content if it has any
{"end": "session:ses_1", "entries": 1, "hash": "…"}     the hash that the next entry would bear as `prev`
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec

from ledger.core.errors import DamageError
from ledger.log.verify import head_of
from ledger.stores.port import Entry, StreamKey

FORMAT: Final = 1
HEADER: Final = "permission-ledger export"

EntryId = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,19}-[1-9][0-9]{0,18}$")]
StreamName = Annotated[str, msgspec.Meta(pattern="^(session|project|policy):[^ ]+$")]


class HeaderLine(msgspec.Struct, forbid_unknown_fields=True):
    """The first line of a file."""

    file: str = HEADER
    format: int = FORMAT


class BeginLine(msgspec.Struct, forbid_unknown_fields=True):
    """The line before the entries of a stream."""

    stream: StreamName


class EntryLine(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """An entry: `d` and `x` are the text of exactly its bytes in UTF-8."""

    id: EntryId
    d: str
    x: str | None = None

    def entry(self) -> Entry:
        """Return the entry as it was stored."""
        ms, _, version = self.id.partition("-")
        return Entry(int(ms), int(version), self.d.encode(), None if self.x is None else self.x.encode())


class EndLine(msgspec.Struct, forbid_unknown_fields=True):
    """The line after the entries of a stream."""

    end: StreamName
    entries: int
    hash: str


class CompleteLine(msgspec.Struct, forbid_unknown_fields=True):
    """The last line of a file."""

    complete: bool
    streams: int


_lines: Final = msgspec.json.Encoder()
_begin: Final = msgspec.json.Decoder(BeginLine)
_entry: Final = msgspec.json.Decoder(EntryLine)
_end: Final = msgspec.json.Decoder(EndLine)


def entry_line(key: StreamKey, entry: Entry) -> EntryLine:
    """Return the line of an entry. Raises DamageError for bytes that no version has written."""
    try:
        content = None if entry.content is None else entry.content.decode()
        return EntryLine(f"{entry.ms}-{entry.version}", entry.payload.decode(), content)
    except UnicodeDecodeError as error:
        raise DamageError(
            f"stream `{key.name}` version {entry.version} is not UTF-8", stream=key.name, version=entry.version
        ) from error


def end_line(key: StreamKey, last: Entry) -> EndLine:
    """Return the line behind the last entry of a stream."""
    return EndLine(key.name, last.version, head_of(last).hash)


def stream_lines(key: StreamKey, entries: Sequence[Entry]) -> bytes:
    """Return the lines of a stream, which has entries. Raises DamageError as `entry_line`."""
    lines: list[Any] = [BeginLine(key.name)]
    lines += [entry_line(key, one) for one in entries]
    lines.append(end_line(key, entries[-1]))
    return _lines.encode_lines(lines)


def streams_in(lines: bytes) -> Iterator[tuple[str, list[Entry]]]:
    """Iterate over the streams of whole lines, whose entries nobody has verified. Raises ValueError for other lines."""
    name, entries = "", list[Entry]()
    for line in lines.splitlines():
        if line.startswith(b'{"id":') and name:
            entries.append(_entry.decode(line).entry())
        elif line.startswith(b'{"stream":') and not name:
            name = _begin.decode(line).stream
        elif line.startswith(b'{"end":') and name:
            end = _end.decode(line)
            if (end.end, end.entries) != (name, len(entries)):
                raise ValueError(f"`{name}` does not end as it began")
            yield name, entries
            name, entries = "", []
        elif name or not line.startswith((b'{"file":', b'{"complete":')):
            raise ValueError("a line is out of place")
    if name:
        raise ValueError(f"`{name}` has no end")

"""The manifest beside a file of the archive: which streams the file has, and the hashes of their entries. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Final

import msgspec

from ledger.core import codec
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.log.archive.frames import FrameSlice
from ledger.log.exported import EntryId
from ledger.log.verify import Head, head_of
from ledger.stores.port import Entry, Position, StreamKey

MANIFEST: Final = "permission-ledger archive"
FORMAT: Final = 1

_Digest = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
_Bytes = Annotated[int, msgspec.Meta(ge=0)]


class ArchivedStream(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A stream of a file. `first` and `last` are entry ids, `hash` is the hash that the next entry would have as `prev`.

    `sha256` is `entries_digest`; `at` is the place in the file. `redacted` are the versions whose content was taken out.
    """

    stream: str
    versions: Annotated[int, msgspec.Meta(ge=1)]
    first: EntryId
    last: EntryId
    hash: _Digest
    sha256: _Digest
    at: tuple[_Bytes, _Bytes, _Bytes, _Bytes]
    redacted: tuple[int, ...] = ()

    @property
    def key(self) -> StreamKey:
        return StreamKey.parse(self.stream)

    @property
    def head(self) -> Head:
        return Head(Position.parse(self.last), self.hash)

    @property
    def place(self) -> FrameSlice:
        return FrameSlice(*self.at)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of a file of the archive. `sha256` and `size_bytes` are the file's, `written_ms` is server time.

    `replaces` are the files from which all of these streams came, the oldest first: each was written anew without
    something.
    """

    manifest: str = MANIFEST
    format: int = FORMAT
    file: str
    sha256: _Digest
    entries: int
    size_bytes: int
    written_ms: int
    streams: tuple[ArchivedStream, ...]
    replaces: tuple[str, ...] = ()

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)


_REDACTED: Final = b'"redacted"'
"""Is in every payload of a `redacted`, and in few others."""

_decoder = msgspec.json.Decoder(Manifest)


def decode_manifest(data: bytes, file: str) -> Manifest:
    """Return the manifest of a file. Raises DamageError for any other content."""
    try:
        found = _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DamageError(f"the manifest of the archive's file `{file}` cannot be read: {error}", file=file) from error
    if (found.manifest, found.format, found.file) != (MANIFEST, FORMAT, file):
        raise DamageError(f"the manifest of the archive's file `{file}` is of another file or format", file=file)
    return found


def archived_stream(key: StreamKey, entries: Sequence[Entry], place: FrameSlice) -> ArchivedStream:
    """Return the line of a manifest for a stream, which has entries."""
    last = entries[-1]
    return ArchivedStream(
        stream=key.name,
        versions=last.version,
        first=str(entries[0].position),
        last=str(last.position),
        hash=head_of(last).hash,
        sha256=entries_digest(entries),
        at=place,
        redacted=tuple(sorted(_redacted_in(entries))),
    )


def _redacted_in(entries: Sequence[Entry]) -> set[int]:
    """Return the versions whose content was taken out, as the stream itself records."""
    found: set[int] = set()
    for entry in entries:
        if _REDACTED in entry.payload:
            event = codec.decode(entry.payload).event
            if isinstance(event, Redacted):
                found.update(event.versions)
    return found


def entries_digest(entries: Sequence[Entry]) -> str:
    r"""Return the lower-case hex SHA-256 over all entries: `<id> LF <bytes of d> LF <bytes of x, or -> LF`, `d`, `x`."""
    digest = sha256()
    for ms, version, payload, content in entries:
        size = b"-" if content is None else b"%d" % len(content)
        digest.update(b"%d-%d\n%d\n%b\n%b%b" % (ms, version, len(payload), size, payload, content or b""))
    return digest.hexdigest()

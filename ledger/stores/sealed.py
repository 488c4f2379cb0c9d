"""Sealed streams: the entries are in a file of the archive, and the server holds a stub under the stream's own key.

The stub is of another type than a stream, so that no program, however old, begins a second history under that key.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from ledger.core.commitments import after_entry
from ledger.core.errors import DamageError, InputError, NewerSchemaError, SealedError
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import ENTRY_MS_MAX, TIME_MS_MAX
from ledger.core.times import format_time
from ledger.stores.port import Entry, Position, StreamKey

STUB_BYTES: Final = 250
"""The longest stub."""

FILE_CHARS: Final = 100
"""The longest name of a file of the archive."""

VERSION_MAX: Final = 2**63 - 1

SEALING_MS: Final = 600_000
"""The time after `Seal.sealed_ms` in which a server takes the stub; an older file of no stub is never named by one."""

CLOSED_MS: Final = 2 * SEALING_MS
"""The time for which a server remembers that a file takes no stubs."""

FILE_SUFFIX: Final = ".jsonl.zst"

FILE_DIGEST_BYTES: Final = 12
"""The beginning of the SHA-256 of a file of the archive, in the file's name."""

_LONG_FORMAT: Final = 1
_SHORT_FORMAT: Final = 2
_HASH: Final = late_pattern(r"[0-9a-f]{64}", re.ASCII)
_DIGEST: Final = late_pattern(rf"-([0-9a-f]{{{2 * FILE_DIGEST_BYTES}}}){re.escape(FILE_SUFFIX)}\Z", re.ASCII)
_FILE: Final = late_pattern(r"[^\x00-\x1f\x7f/\\]+(/[^\x00-\x1f\x7f/\\]+)*")


class Seal(msgspec.Struct, frozen=True):
    """The place of a sealed stream: its last entry, the hash of that entry, its file, and the time of sealing.

    `hash` is that of `ledger.log.verify.Head`. `file` is relative to the archive's root. `sealed_ms` is server time.
    """

    head: Position
    hash: str
    file: str
    sealed_ms: int

    def __post_init__(self) -> None:
        if not (0 <= self.head.ms <= ENTRY_MS_MAX and 1 <= self.head.version <= VERSION_MAX):
            raise InputError(f"`{self.head}` is no entry that a stream can end with")
        if not _HASH.fullmatch(self.hash):
            raise InputError(f"the hash `{self.hash[:80]}` is not 64 lower-case hexadecimal digits")
        if not 0 <= self.sealed_ms <= TIME_MS_MAX:
            raise InputError(f"the time of sealing, {self.sealed_ms} ms, is out of range; use 0 to {TIME_MS_MAX}")
        _check_file(self.file)


class StreamHead(NamedTuple):
    """The last entry of a stream, and its seal if it is sealed."""

    at: Position
    seal: Seal | None = None


def _check_file(name: str) -> None:
    if len(name) > FILE_CHARS:
        raise InputError(f"the file `{name[:40]}…` has {len(name)} characters; at most {FILE_CHARS} are possible")
    if not _FILE.fullmatch(name) or any(part in (".", "..") for part in name.split("/")):
        raise InputError(f"the file `{name}` is not a name below the archive's root; use names and `/` between them")


def archive_file(written_ms: int, digest: bytes) -> str:
    """Return the name of a file of the archive by its day, its time and the beginning of its SHA-256.

    Such as `2026/11/24/1795512345678-5f3a….jsonl.zst`.
    """
    return (
        f"{format_time(written_ms)[:10].replace('-', '/')}/{written_ms}-{digest[:FILE_DIGEST_BYTES].hex()}{FILE_SUFFIX}"
    )


class Stub(NamedTuple):
    """A seal as a server holds it: two small values, which together have at most STUB_BYTES.

    `file` is the name of the file, or the digest in it, where the rest of the name follows from the time of sealing.
    """

    seal: bytes
    file: bytes

    @property
    def size_bytes(self) -> int:
        return len(self.seal) + len(self.file)


class _Members(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The members of `Stub.seal`, in the order in which they are written; at most 63 bytes.

    `format` is 1 where `Stub.file` is a name, and 2 where it is a digest.
    """

    format: int
    ms: int
    version: int
    hash: bytes
    sealed_ms: int


def encode_seal(seal: Seal) -> Stub:
    """Return the stub. Raises InputError where it would have more than STUB_BYTES."""
    digest = _digest_in(seal.file, seal.sealed_ms)
    written = _LONG_FORMAT if digest is None else _SHORT_FORMAT
    members = _Members(written, *seal.head, bytes.fromhex(seal.hash), seal.sealed_ms)
    stub = Stub(msgspec.msgpack.encode(members), digest or seal.file.encode())
    if stub.size_bytes > STUB_BYTES:
        raise InputError(
            f"the stub of the file `{seal.file}` has {stub.size_bytes} bytes; at most {STUB_BYTES} are possible: use a "
            "shorter name, or one of ASCII characters"
        )
    return stub


def decode_seal(key: StreamKey, stub: Stub) -> Seal:
    """Return what a stub says. Raises DamageError for anything that is no stub, NewerSchemaError for a later format."""
    if stub.size_bytes > STUB_BYTES:
        raise broken_stub(key, f"it has {stub.size_bytes} bytes, more than {STUB_BYTES}")
    try:
        match msgspec.msgpack.decode(stub.seal):
            case [int(number), *_] if number > _SHORT_FORMAT:
                raise NewerSchemaError(
                    f"stream `{key.name}` was sealed by a newer version (format {number}): upgrade this installation",
                    stream=key.name,
                )
            case [1 | 2 as number, *_] as written:
                held = msgspec.convert(written, _Members)
                file = stub.file.decode() if number == _LONG_FORMAT else _file_of(stub.file, held.sealed_ms)
                return Seal(Position(held.ms, held.version), held.hash.hex(), file, held.sealed_ms)
            case _:
                raise broken_stub(key, "it is of no known format")
    except (msgspec.MsgspecError, UnicodeDecodeError, InputError) as error:
        raise broken_stub(key, str(error)) from error


def _digest_in(file: str, sealed_ms: int) -> bytes | None:
    """Return the digest in a file's name, if the rest of the name follows from the time of sealing."""
    found = _DIGEST.search(file)
    digest = None if found is None else bytes.fromhex(found[1])
    return digest if digest is not None and archive_file(sealed_ms, digest) == file else None


def _file_of(digest: bytes, sealed_ms: int) -> str:
    if len(digest) != FILE_DIGEST_BYTES:
        raise InputError(f"the digest of its file has {len(digest)} bytes instead of {FILE_DIGEST_BYTES}")
    if not 0 <= sealed_ms <= TIME_MS_MAX:
        raise InputError(f"the time of sealing, {sealed_ms} ms, is out of range; use 0 to {TIME_MS_MAX}")
    return archive_file(sealed_ms, digest)


def broken_stub(key: StreamKey, why: str) -> DamageError:
    """Return the error for a key of a stream that holds neither a stream nor a whole stub."""
    return DamageError(
        f"the stub of the sealed stream `{key.name}` is broken ({why}); its entries are in the archive, so bring them "
        "back from there",
        stream=key.name,
    )


def sealed_error(key: StreamKey, seal: Seal) -> SealedError:
    """Return the error of what needs the entries of a sealed stream."""
    return SealedError(
        f"{key.kind} `{key.id}` is sealed: its {seal.head.version} events are in the archive's file `{seal.file}`",
        key=key,
        seal=seal,
        stream=key.name,
        file=seal.file,
        head=str(seal.head),
        sealed_ms=seal.sealed_ms,
    )


def check_sealable(key: StreamKey) -> None:
    """Raise InputError for a stream that other streams are judged by, which is never sealed."""
    if key.kind != "session":
        raise InputError(f"stream `{key.name}` cannot be sealed: only sessions are")


def check_entries(key: StreamKey, seal: Seal, entries: Sequence[Entry]) -> None:
    """Raise DamageError unless the entries can be those that were sealed: all of them, up to the seal's head."""
    if not entries or entries[-1].position != seal.head:
        found = f"end with {entries[-1].position}" if entries else "are none"
        raise _other_entries(key, f"they {found}, and {seal.head} was the last one")
    before = 0, 0
    for entry in entries:
        if entry.version != before[1] + 1 or entry.ms < before[0]:
            raise _other_entries(key, f"{entry.position} follows {before[0]}-{before[1]}")
        before = entry.ms, entry.version
    last = entries[-1]
    if after_entry(last.ms, last.version, last.payload) != seal.hash:
        raise _other_entries(key, f"{last.position} has another hash")


def _other_entries(key: StreamKey, why: str) -> DamageError:
    return DamageError(f"the entries for stream `{key.name}` are not those that were sealed: {why}", stream=key.name)

"""A list of passkeys kept elsewhere: the trust anchors of `verify --passkeys`."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ledger.access.passkeys.state import Passkey
from ledger.core.errors import InputError
from ledger.core.events import Actor
from ledger.core.times import parse_time


class _Line(msgspec.Struct):
    """A row of `passkey list --json`, with the members needed here."""

    credential_id: str
    person: str
    public_key: str
    rp_id: str
    name: str = ""
    removed_at: str | None = None


def read_passkeys(file: Path) -> dict[str, Passkey]:
    """Return the passkeys of a file by their ids. Raises InputError with the number of the wrong line."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"`{file}` cannot be read: {error.strerror}") from error
    found = [_read(file, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    return {passkey.credential_id: passkey for passkey in found}


def _read(file: Path, number: int, text: bytes) -> Passkey:
    try:
        line = msgspec.json.decode(text, type=_Line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"`{file}` line {number} is not a passkey: {error}; write the file with `passkey list --all --json`"
        ) from error
    return Passkey(
        credential_id=line.credential_id,
        person=line.person,
        name=line.name,
        public_key=line.public_key,
        rp_id=line.rp_id,
        by=Actor("local", str(file)),
        at_ms=0,
        removed_ms=None if line.removed_at is None else parse_time(line.removed_at),
    )

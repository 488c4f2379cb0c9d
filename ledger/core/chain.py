"""The hash chain, which reveals an edited history.

`prev` of an entry is the lower-case hex SHA-256 of what comes before it:

* version 1: `permission-ledger LF <kind of stream>:<its id>`
* an entry of an earlier append: `<entry id> LF <payload>`
* an earlier entry of the same append: `<version> LF <payload>`, because its time was not known yet; this form is valid
  only between entries of the same millisecond
"""

from __future__ import annotations

from hashlib import sha256


def genesis(kind: str, stream_id: str) -> str:
    """Return `prev` of a stream's first entry."""
    return sha256(f"permission-ledger\n{kind}:{stream_id}".encode()).hexdigest()


def after_entry(ms: int, version: int, payload: bytes) -> str:
    """Return `prev` of the entry that follows an entry already in the log."""
    return sha256(b"%d-%d\n%b" % (ms, version, payload)).hexdigest()


def within_append(version: int, payload: bytes) -> str:
    """Return `prev` of the entry that follows an entry of the same append."""
    return sha256(b"%d\n%b" % (version, payload)).hexdigest()


def follows(prev: str, ms: int, before_ms: int, before_version: int, before_payload: bytes) -> bool:
    """Return whether an entry of time `ms` with this `prev` follows the entry before it."""
    # Entries of the same millisecond are most likely of the same append.
    if ms == before_ms and prev == within_append(before_version, before_payload):
        return True
    return prev == after_entry(before_ms, before_version, before_payload)

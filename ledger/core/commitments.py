"""Digests of the log: the hash chain, which reveals an edited history, and commitments to content. Pure.

`prev` of an entry is the lower-case hex SHA-256 of what comes before it:

* version 1: `permission-ledger LF <kind of stream>:<its id>`
* an entry of an earlier append: `<entry id> LF <payload>`
* an earlier entry of the same append: `<version> LF <payload>`, because its time was not known yet; this form is valid
  only between entries of the same millisecond

Digests of content that is not in the payload are keyed with the content's salt, so that nobody can confirm a guess. The
salt lies with the content (the field `x` of an entry). A reader that has the content keys a plain digest and compares;
without the content, the digest says nothing.
"""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from hashlib import sha256
from typing import Final

from ledger.core.late_patterns import late_pattern

SALT_BYTES: Final = 16

_SALT: Final = late_pattern("[A-Za-z0-9_-]{21}[AQgw]")
"""The last character of base64url has two bits here; the others are zero, so that no salt has two spellings."""

_HEX_CHARS: Final = 64
"""Hexadecimal digits of a SHA-256."""

_SHORT: Final = late_pattern("[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]")

_SHORT_CHARS: Final = 43
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_STANDARD: Final = bytes.maketrans(b"-_", b"+/")

_BLOCK_BYTES: Final = 64
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


def is_salt(text: str) -> bool:
    """Return whether a text is a salt."""
    return _SALT.fullmatch(text) is not None


def as_text(data: bytes) -> str:
    """Return bytes in base64url without padding."""
    # `urlsafe_b64encode` takes three times as long, for each event that is written.
    return b2a_base64(data).translate(_URL_SAFE, b"=\n").decode()


def _of_text(text: str) -> bytes:
    # `urlsafe_b64decode` takes three times as long, for each request that is read.
    return a2b_base64(text.encode("ascii").translate(_STANDARD) + b"=" * (-len(text) % 4))


def commitment_bytes(content: bytes) -> bytes:
    """Return the commitment to an entry's content as it stands in a payload."""
    # The 44th character is padding.
    return b2a_base64(sha256(content).digest(), newline=False)[:_SHORT_CHARS].translate(_URL_SAFE)


def commits_to(commitment: object, content: bytes) -> bool:
    """Return whether a commitment is to this content."""
    return isinstance(commitment, str) and is_commitment_to(commitment.encode(errors="replace"), content)


def is_commitment_to(commitment: bytes, content: bytes) -> bool:
    """Return what `commits_to` does, of a commitment as it stands in a payload."""
    return commitment_bytes(content) == commitment


def short_digest(digest: str) -> str | None:
    """Return a SHA-256 (lower-case hex) in base64url; None for a text that is none."""
    if len(digest) != _HEX_CHARS or digest.strip("0123456789abcdef"):
        return None
    return as_text(bytes.fromhex(digest))


def long_digest(digest: str) -> str:
    """Return a SHA-256 in base64url as lower-case hex; any other text as it is."""
    return _of_text(digest).hex() if _SHORT.fullmatch(digest) else digest


def keyed(digest: str, salt: str) -> str:
    """Return HMAC-SHA256 (lower-case hex) of a SHA-256 (hex) under a salt."""
    # RFC 2104 in four steps: `hmac.digest` takes twice as long, before every ask.
    key = _of_text(salt).ljust(_BLOCK_BYTES, b"\0")
    inner = sha256(key.translate(_INNER) + bytes.fromhex(digest)).digest()
    return sha256(key.translate(_OUTER) + inner).hexdigest()


def same_digest(plain: str, recorded: str, salt: str) -> bool:
    """Return whether a plain digest is the one that was recorded under this salt."""
    return keyed(plain, salt) == recorded


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

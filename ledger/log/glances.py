"""A glance at how the payloads of a stream begin, without reading JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

from ledger.core import codec
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import PAGE_COUNT
from ledger.stores.port import Entry

_SCHEMAS: Final = "|".join(str(schema) for schema in range(codec.FIRST_SCHEMA, codec.SCHEMA_VERSION + 1))

_BEGINNING: Final = late_pattern(
    rf'\{{"v":({_SCHEMAS}),"id":"([^"\\]+)","prev":"(.{{64}})","actor":\{{[^{{}}\\]*\}},'
    r'(?:"x":"(.{43})",)?"event":\{"type":"([a-z_]+)"'.encode(),
    re.DOTALL,
)
"""The members of a payload before those of its event, as `ledger.core.codec` writes them.

Texts in JSON have a backslash before a quotation mark, so that without any backslash no text can look like a member.
`prev` and commitment are compared with those computed, so their characters are not looked at here.
"""

_EVENT: Final = b'"event"'
_WITH_RULES: Final = frozenset((b"session_opened", b"policy_changed", b"rules_stored"))

PayloadBeginning: TypeAlias = tuple[bytes, bytes, bytes, bytes | None, bytes]
"""The beginning of a payload: schema, event id, `prev`, commitment (None without one), and type of the event."""


def may_spell_otherwise(text: bytes) -> bool:
    """Return whether JSON has characters by number, with which a member's name can be spelt in another way."""
    # One character is found ten times as fast as two.
    return b"\\" in text and b"\\u" in text


def beginnings_of(entries: Sequence[Entry]) -> list[PayloadBeginning] | None:
    """Return how each payload begins; None if one begins in another way, or may have a second event."""
    match = _BEGINNING.match
    found: list[Any] = []
    for start in range(0, len(entries), PAGE_COUNT):
        payloads = [entry.payload for entry in entries[start : start + PAGE_COUNT]]
        text = b"\n".join(payloads)
        # Of two members of one name, readers take the last one.
        if may_spell_otherwise(text) or text.count(_EVENT) != len(payloads):
            return None
        for payload in payloads:
            if (beginning := match(payload)) is None:
                return None
            found.append(beginning.groups())
    return found


def with_rules(entries: Sequence[Entry], beginnings: Sequence[PayloadBeginning]) -> list[Entry]:
    """Return the entries of events that may have rules, or name them."""
    return [entry for entry, begun in zip(entries, beginnings, strict=True) if begun[4] in _WITH_RULES]

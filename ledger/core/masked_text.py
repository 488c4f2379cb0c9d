"""The form of a mask, the text that is stored in place of a secret: `{secret:github:3f9c2a81d0b4}`. Pure.

It is plain ASCII without a character that a wildcard gives a meaning. A text with a mask is not the text that was
asked, so a judgement of it is never an allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.core.late_patterns import late_pattern

FINGERPRINT_CHARS: Final = 12

OPENING: Final = "{secret:"
"""The beginning of every mask; a text without it has none."""

MASK: Final = late_pattern(r"\{secret:[a-z][a-z0-9-]{0,31}:[0-9a-f]{12}\}")


def mask_text(kind: str, fingerprint: str) -> str:
    """Return the mask of a secret of a kind; `fingerprint` has `FINGERPRINT_CHARS` hexadecimal digits."""
    return f"{OPENING}{kind}:{fingerprint}}}"


def holds_mask(value: Any) -> bool:
    """Return whether a JSON value has a mask in one of its texts, names of members included."""
    if type(value) is str:
        return OPENING in value and MASK.search(value) is not None
    if value is None:
        return False
    if isinstance(value, (list, tuple)):
        return any(map(holds_mask, value))
    return isinstance(value, Mapping) and any(holds_mask(name) or holds_mask(member) for name, member in value.items())

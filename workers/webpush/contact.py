"""The e-mail address for a push service's operator, which stands in every signature (RFC 8292, section 2.1)."""

from __future__ import annotations

import re
from typing import Final

from ledger.core.errors import InputError

_ADDRESS: Final = re.compile(r"[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,63}")


def check_contact(text: str) -> str:
    """Return the address without `mailto:`. Raises InputError."""
    address = text.removeprefix("mailto:")
    if _ADDRESS.fullmatch(address) is None:
        raise InputError(f"the contact `{text[:100]}` is not an e-mail address; write it like `ops@example.com`")
    return address

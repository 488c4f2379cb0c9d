"""The parts of an address. Everything that reads addresses from outside reads them here, or checks their form itself."""

from __future__ import annotations

from typing import Final
from urllib.parse import SplitResult, urlsplit

_NO_ADDRESS: Final = urlsplit("")


def split_address(text: str) -> SplitResult:
    """Return the parts of an address; parts without scheme and host for a text that is none. Never raises.

    None are `http://[::1`, a port above 65535, and a host that Unicode's normal form ends early.
    """
    try:
        parts = urlsplit(text)
        parts.port  # noqa: B018 - raises for a port that is none
    except ValueError:
        return _NO_ADDRESS
    return parts

"""A salt of known value, and events without theirs."""

from __future__ import annotations

from typing import Any, Final

from msgspec.structs import replace

from ledger.core.commitments import keyed
from ledger.session.commands import Ask

SALT: Final = "5a17" * 5 + "5A"


def unsalted(event: Any) -> Any:
    """Return an event as it was before it was written, with a detail that has no salt."""
    detail = getattr(event, "detail", None)
    return event if detail is None else replace(event, detail=replace(detail, salt=""))


def salted(event: Any) -> Any:
    """Return an event as it is read from the log when it was written with `SALT`."""
    detail = getattr(event, "detail", None)
    return event if detail is None or detail.salt else replace(event, detail=replace(detail, salt=SALT))


def recorded_digest(ask: Ask) -> str:
    """Return the digest with which an ask is recorded and shown."""
    return keyed(ask.question.digest, ask.salt)

"""The index of deadlines, made wrong."""

from __future__ import annotations

from typing import Final

from ledger import Ledger
from ledger.stores.port import NOTHING_DUE, Due
from tests.support.store_calls import positions

WRONG: Final[dict[str, Due | str]] = {
    "missing": NOTHING_DUE,
    "never": Due(None),
    "too late": Due(10**14),
    "too early": Due(5),
}


async def set_hint(ledger: Ledger, session: str, to: Due | str) -> None:
    """As if a writer had left another hint: it is corrected as of the session's last event."""
    (seen_ms,) = await ledger.store.due_of([session])
    (head,) = await positions(ledger.store, [(await ledger.attach(session)).stream.key])
    await ledger.store.correct_due(session, seen_ms, to, at=head)

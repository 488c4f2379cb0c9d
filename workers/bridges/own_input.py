"""The input that a call runs with where a person changed it: the asker's own texts in place of masked secrets."""

from __future__ import annotations

import json

from workers.transport.errors import BridgeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def runnable(edited: dict[str, Any] | None, own: Any) -> dict[str, Any] | None:
    """Return a changed input as it may run. Raises BridgeError for a masked secret that `own` does not have."""
    if edited is None or "{secret:" not in json.dumps(edited):
        return edited
    from ledger.core.errors import InputError  # noqa: PLC0415 - slow to import, and rarely needed
    from ledger.masks.own_input import with_own_texts  # noqa: PLC0415 - the same

    try:
        made: dict[str, Any] = with_own_texts(edited, own)
    except InputError as error:
        raise BridgeError(error.text) from error
    return made

"""Facts of an agent's session: ids made from its own, its home directory, and the input that a call runs with."""

from __future__ import annotations

import json
import os

from workers.transport.place import BridgeError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ID_CHARS_MAX = 200


def id_of(text: str) -> str:
    """Return the text as an id: white space and invisible characters become `_`; a long text keeps its end."""
    shown = "".join(one if one.isprintable() and not one.isspace() else "_" for one in text)
    return shown if len(shown) <= ID_CHARS_MAX else "…" + shown[1 - ID_CHARS_MAX :]


def project_of(folder: str | None) -> str | None:
    """Return the project of an agent that works in a folder: that folder."""
    return None if not folder else id_of(folder)


def home_of_agent() -> str | None:
    """Return the home directory of the agent's user on this machine; None without one."""
    found = os.path.expanduser("~")  # noqa: PTH111 - pathlib is slow to import
    return found if found.startswith("/") else None


def new_id(prefix: str) -> str:
    """Return a unique id, for a call without an id of its own."""
    return f"{prefix}_{os.urandom(12).hex()}"


def folder_name(session: str) -> str:
    """Return a session's folder name: its id if that is a plain name, else in hexadecimal."""
    plain = session.replace("-", "").replace("_", "").isalnum() and session.isascii()
    return session if plain else f"hex-{session.encode('utf-8', 'surrogatepass').hex()}"[:250]


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

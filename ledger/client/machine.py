"""Facts about this machine for policies, and its user's name."""

from __future__ import annotations

import getpass
import os
import socket
from pathlib import Path

from ledger.policy.disk import DiskFacts
from ledger.stores.urls import default_home, embedded_folder


def machine_facts() -> DiskFacts:
    """Return the facts of this machine's files, and the folders of the ledger's data."""
    return DiskFacts(own_folders())


def own_folders() -> tuple[str, ...]:
    """Return the real paths of the data folders: the default one, and that of an embedded server in the environment."""
    found = {_real(default_home())}
    url = os.environ.get("PERMISSION_LEDGER_URL", "")
    if url.startswith("embedded:"):
        found.add(_real(embedded_folder(url)))
    return tuple(sorted(found))


def _real(folder: Path) -> str:
    try:
        return str(folder.expanduser().resolve())
    except (OSError, RuntimeError, ValueError):
        return str(folder.absolute())


def default_actor_name() -> str:
    """Return `user@host`."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"

"""Clean shutdown of a data folder's server that has no users left."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ledger.core.regular_files import FileLock, is_held
from ledger.stores.embedded import launch, probe
from ledger.stores.embedded.address import forget_socket
from ledger.stores.embedded.errors import EmbeddedServerError, explained
from ledger.stores.embedded.folder import DataFolder, open_folder, real_path
from ledger.stores.embedded.patience import Patience, holding

if TYPE_CHECKING:
    from pathlib import Path

STOP_TIMEOUT_S: Final = 10.0
"""The limit on a server's shutdown, including its last writes."""


def stop(folder: Path, *, timeout_s: float = STOP_TIMEOUT_S, spares_kept: bool = False) -> bool:
    """Shut down a server that was kept, or left by a killed user.

    Return True when no server runs any more, False when it still has users: it then ends with the last of them.
    With `spares_kept` a kept server stays, too. Raises EmbeddedServerError when it does not end in time.
    """
    with explained(folder):
        if not DataFolder(real_path(folder)).server_lock.exists():
            return True
        files = open_folder(folder)
        with holding(files.start_lock, Patience(timeout_s)):
            if spares_kept and files.kept.exists():
                return False
            files.kept.unlink(missing_ok=True)
            users = FileLock(files.users_lock)
            try:
                if not users.try_exclusive():
                    return False
                shut_down(files, timeout_s)
            finally:
                users.close()
    return True


def end_unused(folder: Path) -> bool:
    """Shut a server down that has no users and is not kept; return whether it still runs. The guard of `launch` calls it."""
    with suppress(EmbeddedServerError):
        stop(folder, spares_kept=True)
    return is_running(folder)


def is_running(folder: Path) -> bool:
    """Return whether a server of this data folder runs; starts none, and makes no folder."""
    lock = DataFolder(real_path(folder)).server_lock
    return lock.exists() and is_held(lock)


def shut_down(folder: DataFolder, timeout_s: float) -> None:
    """Shut the server down; the caller holds `start.lock` and is the only user."""
    patience = Patience(timeout_s)
    refusal: str | None = None
    while is_held(folder.server_lock):
        socket = folder.socket()
        # Repeated until it has ended: a server that was just launched does not listen yet.
        refusal = probe.ask_to_shut_down(socket, timeout_s) if socket else None
        if not patience.pause():
            pid = folder.pid()
            text = f"the server of `{folder.path}` does not end; end it with `kill {pid or '…'}`"
            log = folder.log_tail()
            raise EmbeddedServerError(
                launch.with_log(text, log), folder=str(folder.path), pid=pid, refusal=refusal, log=log
            )
    forget_last_socket(folder)
    folder.kept.unlink(missing_ok=True)


def forget_last_socket(folder: DataFolder) -> None:
    socket = folder.socket()
    if socket:
        forget_socket(folder.path, socket)
        folder.address.unlink(missing_ok=True)

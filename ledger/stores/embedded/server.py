"""A real Redis or Valkey for one data folder, shared by all processes that use it and stopped with the last.

Three kernel locks in the folder, released by the kernel when their holder ends:

* `start.lock`, exclusive and brief: serializes joining, starting, leaving and stopping;
* `users.lock`, shared: a user that can upgrade it to exclusive is the last one;
* `server.lock`, exclusive, inherited by the server process: it is free exactly when no server runs.

Users that are all killed leave nobody who would stop it: the guard that its starter started does (`launch.guard`).
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Self

from ledger.core.regular_files import FileLock, is_held
from ledger.stores.embedded import launch, probe
from ledger.stores.embedded.errors import AbandonedError, EmbeddedServerError, explained
from ledger.stores.embedded.folder import (
    DataFolder,
    choose_socket,
    forget_socket,
    log_tail,
    open_folder,
    real_path,
    set_log_aside,
    socket_url,
    write_whole,
)
from ledger.stores.embedded.launch import ServerBinary, find_binary
from ledger.stores.embedded.probe import Patience, holding

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

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
            log = log_tail(folder.log)
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


START_TIMEOUT_S: Final = 10.0
"""The limit on a start without progress; a server that is loading its data makes progress."""

GIVE_UP_TIMEOUT_S: Final = 1.0
"""The limit on waiting for the server of a failed or cancelled start to end."""

_log = logging.getLogger(__name__)


class EmbeddedServer:
    """One user of the server of a data folder, as a plain or an asynchronous context manager.

    `keep` lets the server outlive its users, until `stop` is called on the folder or the machine shuts down.
    Entering raises EmbeddedServerError.
    """

    def __init__(self, folder: Path, *, keep: bool = False, start_timeout_s: float = START_TIMEOUT_S) -> None:
        self._path = folder
        self._keep = keep
        self._start_timeout_s = start_timeout_s
        self._folder: DataFolder | None = None
        self._users: FileLock | None = None
        self._socket: Path | None = None
        self._abandoned = threading.Event()
        self._thread: ThreadPoolExecutor | None = None
        # The server launched by this user: the program, and the offset of its lines in the log.
        self._launched: tuple[ServerBinary, int] | None = None
        self._guard: int | None = None

    @property
    def url(self) -> str:
        """Return `unix:///path/to.sock`, valid while the server is held."""
        if self._socket is None:
            raise AssertionError("an embedded server has a URL only while it is held")
        return socket_url(self._socket)

    def open(self) -> None:
        """Join the folder's server, starting it if none runs; return when it answers."""
        if self._users is not None:
            raise AssertionError("this user holds the server already")
        self._launched = None
        with explained(self._path):
            self._folder = open_folder(self._path)
            try:
                self._join(self._folder)
                self._socket = self._wait_ready(self._folder)
            except BaseException:
                self.close(timeout_s=GIVE_UP_TIMEOUT_S)
                raise

    def close(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Leave; the last user to leave shuts the server down unless it is kept.

        A server that does not end is left running and logged, never raised: the work of the block is done.
        """
        users, self._users, self._socket = self._users, None, None
        if self._folder is None or users is None:
            return
        try:
            # Leaving must work after a cancelled start as well, so it has a Patience of its own.
            with holding(self._folder.start_lock, Patience(timeout_s)):
                is_last = users.try_exclusive()
                if is_last and not self._keep and not self._folder.kept.exists():
                    shut_down(self._folder, timeout_s)
        except (OSError, EmbeddedServerError) as error:
            _log.warning("the embedded server of `%s` was not shut down: %s", self._folder.path, error)
        finally:
            users.close()
            self._let_go_of_guard()

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        self._abandoned.clear()
        # One thread, so that a close always runs after its open.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="embedded-server")
        opening = asyncio.get_running_loop().run_in_executor(self._thread, self._open_unless_abandoned)
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            self._abandoned.set()
            await self._close_in_thread()
            raise
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close_in_thread()

    async def revive(self) -> None:
        """Restart the server if it died while it was held. Raises EmbeddedServerError when that is not possible."""
        if self._thread is not None and self._users is not None:
            await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._thread, self._revive))

    def _revive(self) -> None:
        if self._folder is None or self._users is None:
            return
        self._launched = None
        with explained(self._path):
            self._join(self._folder)
            self._socket = self._wait_ready(self._folder)
        self._tell_revived()

    def _tell_revived(self) -> None:
        """Log the restart, in the process that did it."""
        if self._launched is not None:
            _log.warning("the embedded server of `%s` had died; it was started again", self._path)

    def _open_unless_abandoned(self) -> None:
        try:
            self.open()
        except (AbandonedError, EmbeddedServerError):
            if not self._abandoned.is_set():  # otherwise the caller has gone
                raise

    async def _close_in_thread(self) -> None:
        thread = self._thread
        if thread is None:
            return
        closing = asyncio.get_running_loop().run_in_executor(thread, self.close)
        thread.shutdown(wait=False)
        # A cancellation here only ends the waiting: the thread continues and releases the locks.
        await asyncio.shield(closing)

    def _patience(self) -> Patience:
        return Patience(self._start_timeout_s, self._abandoned)

    def _join(self, folder: DataFolder) -> None:
        with holding(folder.start_lock, self._patience()):
            self._users = self._users or FileLock(folder.users_lock)
            if not self._users.try_shared():
                raise AssertionError("nobody holds users.lock alone without holding start.lock")
            self._launch_unless_alive(folder)
            if self._keep:
                folder.kept.touch(0o600)

    def _launch_unless_alive(self, folder: DataFolder) -> None:
        server_lock = FileLock(folder.server_lock)
        try:
            if not server_lock.try_exclusive():
                return
            binary = find_binary()
            folder.kept.unlink(missing_ok=True)
            forget_last_socket(folder)
            socket = choose_socket(folder.path)
            write_whole(folder.address, os.fsencode(socket))
            self._launched = (binary, set_log_aside(folder.log))
            launch.launch(binary, folder, socket, server_lock)
        finally:
            server_lock.close()

    def _wait_ready(self, folder: DataFolder) -> Path:
        patience = self._patience()
        loaded_bytes = 0
        while True:
            socket = folder.socket()
            info = probe.ask_info(socket) if socket else None
            if socket and info and not info.is_loading:
                folder.record_engine(str(info))
                if self._launched:
                    self._let_go_of_guard()
                    self._guard = launch.guard(folder, info.pid)
                return socket
            if info and info.loaded_bytes > loaded_bytes:
                loaded_bytes = info.loaded_bytes
                patience.renew()
            if info is None and not is_held(folder.server_lock):
                self._start_again(folder)
            if not patience.pause():
                raise self._not_ready(folder, info)

    def _let_go_of_guard(self) -> None:
        """Close the descriptor by which a guard knows that this user is there; it ends with its server."""
        held, self._guard = self._guard, None
        if held is not None:
            os.close(held)

    def _start_again(self, folder: DataFolder) -> None:
        """Handle a server that ended during the start: ours is a failed start, another user's is replaced by ours."""
        if self._launched:
            binary, log_start = self._launched
            raise launch.start_failure(folder, binary, folder.last_engine(), log_tail(folder.log, log_start))
        self._join(folder)

    def _not_ready(self, folder: DataFolder, info: probe.ServerInfo | None) -> EmbeddedServerError:
        state = "stopped reading its data" if info else "does not answer"
        pid = folder.pid()
        way_out = f"end it with `kill {pid}` and try again" if pid else "try again"
        text = f"the server of `{folder.path}` {state} (waited {self._start_timeout_s:g} s); {way_out}"
        log = log_tail(folder.log)
        return EmbeddedServerError(launch.with_log(text, log), folder=str(folder.path), pid=pid, log=log)


def embedded_server(folder: Path, *, keep: bool = False, start_timeout_s: float = START_TIMEOUT_S) -> EmbeddedServer:
    """Use the folder's server for the length of a `with` or an `async with` block.

    Raises EmbeddedServerError on entering: no server program, a folder that cannot be used, a server that does not
    start or makes no progress for `start_timeout_s` seconds.
    """
    return EmbeddedServer(folder, keep=keep, start_timeout_s=start_timeout_s)

"""Looks at an embedded server: a client on the standard library alone (a full one takes 0.3 s to import), and polling."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ledger.core.regular_files import FileLock
from ledger.stores.embedded.errors import AbandonedError, EmbeddedServerError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

POLL_INTERVAL_S: Final = 0.003
"""The interval of polls; a server is up within some 35 ms."""


class Patience:
    """A limit in seconds on waiting without progress."""

    def __init__(self, limit_s: float, abandoned: threading.Event | None = None) -> None:
        self.limit_s = limit_s
        self._abandoned = abandoned or threading.Event()
        self._until_s = time.monotonic() + limit_s

    def renew(self) -> None:
        """Restart the limit after progress."""
        self._until_s = time.monotonic() + self.limit_s

    def pause(self) -> bool:
        """Wait for one poll interval; return False when the limit is reached.

        Raises AbandonedError when the caller has given up.
        """
        if self._abandoned.wait(POLL_INTERVAL_S):
            raise AbandonedError
        return time.monotonic() < self._until_s


@contextmanager
def holding(path: Path, patience: Patience) -> Iterator[None]:
    """Hold the lock exclusively for the block.

    Raises EmbeddedServerError when other holders do not release it in time.
    """
    lock = FileLock(path)
    try:
        while not lock.try_exclusive():
            if not patience.pause():
                text = (
                    f"another process has been starting or stopping the server of `{path.parent}`"
                    f" for {patience.limit_s:g} s; end that process, or try again"
                )
                raise EmbeddedServerError(text, folder=str(path.parent))
        yield
    finally:
        lock.close()


ANSWER_TIMEOUT_S: Final = 1.0
RECEIVE_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """The INFO fields of a running server."""

    engine: str
    version: str
    pid: int
    is_loading: bool
    loaded_bytes: int

    def __str__(self) -> str:
        return f"{self.engine} {self.version}"


def ask_info(path: Path) -> ServerInfo | None:
    """Return the INFO of the server at this socket; None while none answers."""
    try:
        with _connected(path) as connection:
            connection.sendall(b"INFO server persistence\r\n")
            return _parsed(_read_bulk(connection))
    except OSError:
        return None


def ask_to_shut_down(path: Path, timeout_s: float) -> str | None:
    """Send SHUTDOWN; return None when it was accepted or no server answers, else the server's refusal."""
    try:
        with _connected(path) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(b"SHUTDOWN\r\n")
            # An accepted SHUTDOWN has no reply; the connection closes.
            refusal = connection.recv(RECEIVE_BYTES)
    except OSError:
        return None
    return refusal.decode(errors="replace").strip() or None


def _connected(path: Path) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection


def _read_bulk(connection: socket.socket) -> str:
    with connection.makefile("rb") as answer:
        head = answer.readline()
        if not head.startswith(b"$"):
            raise ConnectionError(head.decode(errors="replace").strip() or "the server closed the connection")
        return answer.read(int(head[1:])).decode(errors="replace")


def _parsed(info: str) -> ServerInfo:
    fields = dict(line.split(":", 1) for line in info.splitlines() if ":" in line)
    # Valkey also reports a redis_version, with which it is compatible.
    engine = fields.get("server_name", "redis")
    return ServerInfo(
        engine=engine,
        version=fields.get(f"{engine}_version", fields["redis_version"]),
        pid=int(fields["process_id"]),
        is_loading=fields.get("loading", "0") != "0",
        loaded_bytes=int(fields.get("loading_loaded_bytes", "0")),
    )

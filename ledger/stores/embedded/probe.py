"""A minimal client on the standard library alone: a full one takes 0.3 s to import."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

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

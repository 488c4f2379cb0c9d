"""The process of a hook as it sees it, and its requests to the gateway, with a watch on the reader of the hook's answer.

A hook that waited its grace in vain leaves the mark of an outage, and later hooks do not wait. The mark is an empty file
of the data folder; its time is that of the last failure. It only shortens a wait.
"""

from __future__ import annotations

import json
import os
import select
from contextlib import suppress
from time import monotonic, time

try:
    import _socket as socket  # the module without the enums around it, which take longer to import than all else here
except ImportError:
    import socket  # type: ignore[no-redef]

from workers.transport.place import (
    ADDRESS,
    ANSWER_SECONDS,
    BODY_BYTES_MAX,
    CONNECT_SECONDS,
    GatewayRefusalError,
    UnreachableError,
    data_folder,
    find_place,
    trace_headers,
    unreachable,
)
from workers.transport.trusted import digest_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ledger.core.regular_files import MayOpen
    from workers.transport.place import ServerAddress

PAUSE_SECONDS = 0.1
LOOK_SECONDS = 0.5
_READ_BYTES = 65536
_AWAY = (502, 503, 504)
"""Answers of a gateway, or a proxy before it, that cannot be used yet."""

_GONE = select.POLLERR | select.POLLHUP | select.POLLNVAL


class ReaderGoneError(Exception):
    """The process that started the hook does not read its answer any more: it died, or gave up."""


ENTRYPOINT = "CLAUDE_CODE_ENTRYPOINT"
"""The variable in which Claude Code tells its hooks how it was started."""


class HookProcess:
    """The environment, folder and streams of a hook's own process. For the hooks that it serves, the gateway has a subclass."""

    ends_with = "asker_died"
    """The cause of a request's end when nobody reads the answer any more."""

    def __init__(self) -> None:
        self.entrypoint = os.environ.get(ENTRYPOINT)
        self.folder = os.environ.get("CLAUDE_PROJECT_DIR")
        """The folder of Claude Code's project."""
        self.may_open: MayOpen | None = None
        """The test of a file that an event or a call names; None where each may be opened."""

    def call(
        self,
        method: str,
        path: str,
        body: dict[str, Any] | None,
        grace: float,
        patience: float = 0,
        *,
        watched: bool = True,
        look: Callable[[], None] | None = None,
    ) -> dict[str, Any]:
        """Make one exchange, retried for `grace` seconds. Raises GatewayRefusalError, UnreachableError.

        It is tried once while the mark of a hook that waited in vain stands.
        `watched`: raises ReaderGoneError when nobody reads our answer any more. `look` is called repeatedly meanwhile, and
        may raise to end the wait.
        """
        payload = b"" if body is None else json.dumps(body).encode()
        mark = OutageMark(grace)
        lost_at = None
        while True:
            cause: Exception
            try:
                answer = self._exchange(method, path, payload, ANSWER_SECONDS + patience, look, watched=watched)
            except GatewayRefusalError as error:
                if error.status not in _AWAY:
                    mark.remove()
                if not error.is_temporary:
                    raise
                cause = error
            except (UnreachableError, OSError, EOFError) as error:
                cause = error
            else:
                mark.remove()
                return answer
            now = monotonic()
            lost_at = lost_at or now
            if now + PAUSE_SECONDS > lost_at + grace or mark.stands():
                mark.set()
                raise UnreachableError(unreachable(cause)) from cause
            self._pause(PAUSE_SECONDS)

    def _exchange(
        self, method: str, path: str, payload: bytes, limit: float, look: Callable[[], None] | None, *, watched: bool
    ) -> dict[str, Any]:
        return _exchange(method, path, payload, limit, look, watched=watched)

    def _pause(self, seconds: float) -> None:
        _wait_for_reader(seconds)

    def on_end(self, ended: Callable[[], None]) -> None:
        """Call `ended`, and end, when the client ends this process: one that interrupts the turn needs no answer."""
        import signal  # noqa: PLC0415 - only when somebody must be waited for

        def stop(_number: int, _frame: object) -> None:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            ended()
            os._exit(2)

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)


def _exchange(
    method: str, path: str, payload: bytes, limit: float, look: Callable[[], None] | None, *, watched: bool
) -> dict[str, Any]:
    place = find_place()
    connection = _connect(place)
    try:
        token = f"authorization: Bearer {place.token}\r\n" if place.token else ""
        trace = "".join(f"{name}: {value}\r\n" for name, value in trace_headers(os.environ).items())
        head = (
            f"{method} {path} HTTP/1.1\r\nhost: {place.host_header}\r\n{token}{trace}content-type: application/json\r\n"
            f"content-length: {len(payload)}\r\nconnection: close\r\n\r\n"
        )
        connection.sendall(head.encode() + payload)
        status, answer = _parsed(_read_all(connection, monotonic() + limit, look, watched=watched))
    finally:
        connection.close()
    return accepted(status, answer)


def accepted(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the answer. Raises GatewayRefusalError for a refusal."""
    if status >= 400:
        raise GatewayRefusalError(status, answer)
    return answer


def _connect(place: ServerAddress) -> Any:
    if place.path is not None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(place.path)
        return connection
    if place.tls:
        import ssl  # noqa: PLC0415 - slow to import, and only gateways elsewhere have it
        from socket import create_connection  # noqa: PLC0415

        plain = create_connection((place.host, place.port), CONNECT_SECONDS)
        return ssl.create_default_context().wrap_socket(plain, server_hostname=place.host)
    problem: OSError = OSError(f"`{place.host}` has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(place.host, place.port, 0, socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        connection.settimeout(CONNECT_SECONDS)
        try:
            connection.connect(address)
        except OSError as error:
            problem = error
            connection.close()
        else:
            return connection
    raise problem


def _read_all(connection: Any, until: float, look: Callable[[], None] | None, *, watched: bool) -> bytes:
    """Read until the gateway closes. Raises EOFError when that takes too long, ReaderGoneError."""
    pieces: list[bytes] = []
    size = 0
    while True:
        if not getattr(connection, "pending", int)():  # TLS may have read more than it gave us
            _wait_for(connection.fileno(), until, look, watched=watched)
        piece = connection.recv(_READ_BYTES)
        if not piece:
            return b"".join(pieces)
        size += len(piece)
        if size > BODY_BYTES_MAX:
            raise EOFError("its answer is too long")
        pieces.append(piece)


def _wait_for(descriptor: int, until: float, look: Callable[[], None] | None, *, watched: bool) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    if watched:
        poll.register(1, 0)
    while (left := until - monotonic()) > 0:
        if look is not None:
            look()
            left = min(left, LOOK_SECONDS)
        for ready, what in poll.poll(left * 1000):
            if ready == descriptor:
                return
            if what & _GONE:
                raise ReaderGoneError("the process that started the hook has ended")
    raise EOFError("it did not answer in time")


def _wait_for_reader(seconds: float) -> None:
    poll = select.poll()
    poll.register(1, 0)
    if any(what & _GONE for _, what in poll.poll(seconds * 1000)):
        raise ReaderGoneError("the process that started the hook has ended")


def _parsed(text: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = text.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").lower().split("\r\n")
    words = lines[0].split(" ", 2)
    if len(words) < 2 or not words[0].startswith("http/1.") or not words[1].isdecimal():
        raise EOFError("the connection was lost")
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name == "content-length" and value.strip() != str(len(body)):
            raise EOFError("the connection was lost")
        if name == "transfer-encoding":
            raise EOFError("its answer is chunked, which this hook does not support")
    try:
        found = json.loads(body) if body else {}
    except ValueError:
        raise EOFError("its answer is not JSON") from None
    return int(words[1]), found if isinstance(found, dict) else {"answer": found}


def quoted(text: str) -> str:
    """Quote a text for a path: all but unreserved characters as bytes in hexadecimal."""
    safe = "-._~"
    return "".join(
        chr(byte) if chr(byte).isascii() and (chr(byte).isalnum() or chr(byte) in safe) else f"%{byte:02X}"
        for byte in text.encode("utf-8", "surrogatepass")
    )


def say(text: str) -> None:
    """Write the hook's answer in one write."""
    data = text.encode()
    while data:
        data = data[os.write(1, data) :]


MARK_SECONDS = 600.0
"""The time a mark counts after the last failure. Later the gateway may have been back, unseen by a hook."""

_MARKING = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class OutageMark:
    """The mark for one grace, in seconds; a hook without a grace needs none."""

    def __init__(self, grace: float) -> None:
        about = f"{os.geteuid()} {grace:g} {os.environ.get(ADDRESS, '')}"
        self._path = f"{data_folder()}/outage-{digest_of(about.encode())[:16]}" if grace else None

    def stands(self) -> bool:
        """Return whether a hook waited in vain a short time ago. A time in the future is no such time."""
        if self._path is None:
            return False
        try:
            return 0 <= time() - os.lstat(self._path).st_mtime <= MARK_SECONDS
        except OSError:
            return False

    def set(self) -> None:
        """Leave the mark, or renew it. Without a folder to write to the next hook waits, too."""
        if self._path is None:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)  # noqa: PTH103,PTH120 - pathlib is slow
            descriptor = os.open(self._path, _MARKING, 0o600)
            try:
                now = time()
                os.utime(descriptor, (now, now))
            finally:
                os.close(descriptor)

    def remove(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)  # noqa: PTH108 - pathlib is slow

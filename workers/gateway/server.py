"""The gateway process: uvicorn on a TCP address, a unix socket or both, until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import uvicorn
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from ledger import Ledger
from ledger.core.errors import InputError, SetupError
from workers.gateway.app import make_app
from workers.gateway.authentication import TRANSPORT
from workers.gateway.gateway import Gateway
from workers.gateway.names import LOOPBACK, Names, names_of, with_slashes_in_ids
from workers.gateway.own_rules import follow_while_waiting
from workers.gateway.problems import PROBLEM_JSON, problem_body
from workers.gateway.settings import GatewaySettings

HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)
"""Headers of responses that are no page: no caching, no framing, no guessing of types. A page sets its own."""


def with_edge(app: ASGIApp, names: Names) -> ASGIApp:
    """Return the application restricted to its own host names, with these headers where it sets none."""

    async def at_edge(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP:
            await app(scope, receive, send)
            return

        async def completed(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = completed_headers(message.get("headers", ()))
            await send(message)

        if _is_called_by_name(scope, names):
            await app(scope, receive, completed)
        else:
            await _refuse(scope, completed)

    return at_edge


def completed_headers(headers: Any) -> list[tuple[bytes, bytes]]:
    """Return the headers of a response, completed with the missing ones of HEADERS."""
    own = [(bytes(name), bytes(value)) for name, value in headers]
    there = {name.lower() for name, _ in own}
    return own + [one for one in HEADERS if one[0] not in there]


def _is_called_by_name(scope: Scope, names: Names) -> bool:
    hosts = _hosts(scope)
    return len(hosts) == 1 and names.has(hosts[0], on_socket=scope.get("client") is None)


def _hosts(scope: Scope) -> list[str]:
    return [value.decode("latin-1") for name, value in scope["headers"] if name == b"host"]


async def _refuse(scope: HTTPScope, send: Any) -> None:
    hosts = _hosts(scope)
    said = f"`{hosts[0]}` is not a name of this gateway" if len(hosts) == 1 else "the request has no single `Host`"
    text = f"{said}; use an address that `serve` prints, or start it with --public-url or --host for that name"
    status, body = problem_body("WRONG_HOST", text)
    content = msgspec.json.encode(body)
    headers = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", b"%d" % len(content))]
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else content})


ARRIVE_SECONDS: Final = 60.0
"""Time limit for a whole request to arrive; waiting for an answer is not limited by it."""

HEAD_BYTES_MAX: Final = 64 * 1024
"""Size limit of the address and all headers, besides what arrives with their first bytes."""


LINGER_SECONDS: Final = 2.0
LINGER_BYTES_MAX: Final = 16 * 1024 * 1024
"""Size limit of what a refused caller may go on sending. Closing a connection over unread bytes resets it, and a reset
discards a response that the caller has not read yet.
"""


class Protocol(HttpToolsProtocol):
    """The protocol, which also tells the application about the connection."""

    _timer: asyncio.TimerHandle | None = None
    _is_arriving = False
    _in_head = False
    _head_bytes = 0
    _is_refused = False
    _unread_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._await_rest()

    def connection_lost(self, exc: Exception | None) -> None:
        self._all_there()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            self._discard(data)
            return
        was_in_head = self._in_head
        super().data_received(data)
        if not self._is_arriving:
            self._all_there()
            return
        self._await_rest()
        if was_in_head and self._in_head:
            self._head_bytes += len(data)
            if self._head_bytes > HEAD_BYTES_MAX:
                self._refuse("HEAD_TOO_LARGE", f"the address and headers are larger than {HEAD_BYTES_MAX} bytes")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {TRANSPORT: self.transport}  # type: ignore[dict-item]
        self._is_arriving = self._in_head = True
        self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._is_arriving = False
        super().on_message_complete()

    def _await_rest(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(ARRIVE_SECONDS, self._too_slow)

    def _all_there(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._refuse("TIMEOUT", f"no complete request came within {ARRIVE_SECONDS:g} s")

    def _refuse(self, code: str, detail: str) -> None:
        """Send the refusal and close, unless a response was started already."""
        cycle: RequestResponseCycle | None = self.cycle
        answering = cycle is not None and cycle.response_started and not cycle.response_complete
        if answering or self.transport.is_closing():
            self.transport.close()
            return
        self._say(code, detail)
        self._hang_up()

    def send_400_response(self, msg: str) -> None:
        """Answer a message that is not HTTP."""
        self._say("MALFORMED", msg.rstrip(".").lower())
        self.transport.close()

    def _say(self, code: str, detail: str) -> None:
        status, body = problem_body(code, detail)
        content = msgspec.json.encode(body)
        length = b"%d" % len(content)
        own = [(b"content-type", PROBLEM_JSON.encode()), (b"content-length", length), (b"connection", b"close")]
        lines = [b"HTTP/1.1 %d %b" % (status.value, status.phrase.encode())]
        lines += [b"%b: %b" % header for header in completed_headers(own)]
        self.transport.write(b"\r\n".join([*lines, b"", content]))

    def _hang_up(self) -> None:
        """Close our side and read on for a moment, so that the caller can read the response."""
        self._is_refused = True
        self._all_there()
        self.transport.write_eof()
        self.transport.resume_reading()
        self._timer = self.loop.call_later(LINGER_SECONDS, self.transport.close)

    def _discard(self, data: bytes) -> None:
        self._unread_bytes += len(data)
        if self._unread_bytes > LINGER_BYTES_MAX:
            self.transport.close()


_LISTEN: Final = "0A"
_PROC: Final = Path("/proc")


class ListeningProcess(NamedTuple):
    """A process and the name of its program."""

    pid: int
    name: str


def listener_on(port: int) -> ListeningProcess | None:
    """Return the first process found; None when there is none, or when it belongs to another user."""
    sockets = {f"socket:[{row[9]}]" for row in _listening(port)}
    if not sockets:
        return None
    pids = (int(one.name) for one in _PROC.iterdir() if one.name.isdecimal())
    return next((ListeningProcess(pid, _name_of(pid)) for pid in pids if sockets & _files_of(pid)), None)


def users_listening_on(port: int) -> set[int]:
    """Return the users whose programs listen on a port of this machine; empty also where the system does not tell."""
    return {int(row[7]) for row in _listening(port)}


def _listening(port: int) -> list[list[str]]:
    """Return the rows of the kernel's tables of sockets."""
    found = []
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            found += [line.split() for line in (_PROC / "net" / table).read_text().splitlines()[1:]]
    return [row for row in found if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port]


def _files_of(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        for one in (_PROC / str(pid) / "fd").iterdir():
            found.add(str(one.readlink()))
    except OSError:
        # The process has ended meanwhile, or belongs to another user.
        return found
    return found


def _name_of(pid: int) -> str:
    try:
        return (_PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return "?"


BACKLOG: Final = 2048
GRACE_SECONDS: Final = 3
"""Time limit for open requests to end after the gateway was told to stop."""

KEEP_ALIVE_SECONDS: Final = 75
"""Idle time of a connection before it is closed: an agent may think for a minute between two asks."""


class ListenAddress(msgspec.Struct, frozen=True):
    """An address to listen on: a host and a port (0: any that is free), or the path of a unix socket."""

    host: str | None = None
    port: int = 0
    path: Path | None = None

    @property
    def is_local(self) -> bool:
        """Return whether only this machine can connect to it."""
        return self.path is not None or self.host in LOOPBACK


def parse_address(text: str) -> ListenAddress:
    """Parse `HOST:PORT`, `[::1]:PORT`, `:PORT` or `unix:PATH`. Raises InputError."""
    if text.startswith("unix:"):
        if not text.removeprefix("unix:"):
            raise InputError(f"`{text}` names no socket; write it like `unix:/run/permission-ledger.sock`")
        return ListenAddress(path=Path(text.removeprefix("unix:")).absolute())
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise InputError(
            f"`{text}` is not an address; write it like `127.0.0.1:8420` or `unix:/run/permission-ledger.sock`"
        )
    return ListenAddress(host=host.strip("[]") or "127.0.0.1", port=int(port))


def listen(address: ListenAddress) -> socket.socket:
    """Return a listening socket. Raises SetupError when it cannot be opened."""
    try:
        return _unix(address.path) if address.path is not None else _tcp(str(address.host), address.port)
    except OSError as error:
        text = f"cannot listen on {_told(address)}: {error.strerror or error}"
        raise SetupError(f"{text}{_used_by(address, error)}", hint=_way_out(error)) from error


def _used_by(address: ListenAddress, error: OSError) -> str:
    if error.errno != errno.EADDRINUSE or address.path is not None:
        return ""
    process = listener_on(address.port)
    return "" if process is None else f", by process {process.pid} (`{process.name}`)"


def _way_out(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "stop the program there, or choose another address: `--listen HOST:PORT`, port 0 for any that is free"
    return "choose another address: `--listen HOST:PORT` or `--listen unix:PATH`"


def _tcp(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    with _closed_on_error(socket.socket(family, kind, protocol)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(where)
        listener.listen(BACKLOG)
    return listener


def _unix(path: Path) -> socket.socket:
    """Return a listening unix socket for our own user alone. A socket file without a listener is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_socket() and not _answers(path):
        path.unlink()
    with _closed_on_error(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as listener:
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    return listener


@contextmanager
def _closed_on_error(listener: socket.socket) -> Iterator[socket.socket]:
    try:
        yield listener
    except OSError:
        listener.close()
        raise


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def _told(address: ListenAddress) -> str:
    return f"`{address.path}`" if address.path is not None else f"`{address.host}:{address.port}`"


def url_of(listener: socket.socket) -> str:
    """Return the address for clients: `http://127.0.0.1:8420`, or `unix:/path`."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"


async def run(
    ledger: Ledger,
    settings: GatewaySettings,
    listeners: Sequence[socket.socket],
    stop: asyncio.Event,
    ready: Callable[[Gateway], None] = lambda _: None,
) -> None:
    """Serve until `stop` is set; `ready` is called once requests are accepted. Raises StoreError."""
    gateway = Gateway(ledger, settings, listeners)
    await gateway.start()
    paths = [Path(name) for one in listeners if isinstance(name := one.getsockname(), str)]
    server = _Server(
        uvicorn.Config(
            with_edge(with_slashes_in_ids(make_app(gateway)), names_of(listeners, settings.public_url, settings.hosts)),
            http=Protocol,
            # Other senders could write anything into these headers.
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            backlog=BACKLOG,
        )
    )
    serving = asyncio.create_task(server.serve(sockets=list(listeners)), name="serve http")
    following = asyncio.create_task(follow_while_waiting(gateway), name="follow rule files")
    stopping = asyncio.create_task(stop.wait(), name="stop serving")
    starting = asyncio.create_task(server.takes_requests.wait(), name="begin serving")
    try:
        await asyncio.wait((serving, starting), return_when=asyncio.FIRST_COMPLETED)
        if not serving.done():
            ready(gateway)
            await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
        gateway.stop()
        server.should_exit = True
        await serving
    finally:
        for task in (stopping, starting, following):
            task.cancel()
        with suppress(asyncio.CancelledError):
            await following
        await gateway.close()
        for path in paths:
            path.unlink(missing_ok=True)


class _Server(uvicorn.Server):
    """uvicorn's server, which reports when it is started and leaves signals to us."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.takes_requests = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install no signal handlers: ours are installed already and stop the server."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.takes_requests.set()

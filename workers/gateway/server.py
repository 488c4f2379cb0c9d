"""The gateway process: uvicorn on a TCP address, a unix socket or both, until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
import uvicorn

from ledger import Ledger
from ledger.core.errors import InputError, SetupError
from workers.gateway.app import make_app
from workers.gateway.gateway import Gateway
from workers.gateway.names import LOOPBACK, names_of
from workers.gateway.own_rules import follow_while_waiting
from workers.gateway.protocol import Protocol, with_edge
from workers.gateway.settings import GatewaySettings
from workers.gateway.slashes import with_slashes_in_ids

_LISTEN: Final = "0A"
_PROC: Final = Path("/proc")


class ListeningProcess(NamedTuple):
    """A process and the name of its program."""

    pid: int
    name: str


def listener_on(port: int) -> ListeningProcess | None:
    """Return the first process found; None when there is none, or when it belongs to another user."""
    sockets = {f"socket:[{inode}]" for table in ("tcp", "tcp6") for inode in _inodes(_PROC / "net" / table, port)}
    if not sockets:
        return None
    pids = (int(one.name) for one in _PROC.iterdir() if one.name.isdecimal())
    return next((ListeningProcess(pid, _name_of(pid)) for pid in pids if sockets & _files_of(pid)), None)


def _inodes(table: Path, port: int) -> list[str]:
    try:
        rows = [line.split() for line in table.read_text().splitlines()[1:]]
    except OSError:
        return []
    return [row[9] for row in rows if row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port]


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

"""Real servers for tests, on unix sockets, with the settings of the embedded server unless a test says otherwise."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from ledger.stores.embedded.folder import socket_url
from ledger.stores.embedded.launch import SETTINGS
from ledger.stores.embedded.probe import ServerInfo, ask_info
from tests.support.programs import EMBEDDED, binary_named
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    StartServer = Callable[..., "RealServer"]

NOT_DURABLE: Final = {"appendonly": "no"}
"""Options of servers whose data no test reads again."""


class RealServer:
    """One server process on a unix socket, which a test may kill and start again on the same data."""

    def __init__(self, folder: Path, binary: str = EMBEDDED, options: Mapping[str, str] | None = None) -> None:
        self.folder = folder
        self.binary = binary_named(binary)
        self.options = {**SETTINGS, **(options or {})}
        # Paths of test folders are often too long for a socket.
        self._short = Path(tempfile.mkdtemp(prefix="pl-"))
        self.socket = self._short / "server.sock"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return socket_url(self.socket)

    @property
    def pid(self) -> int:
        assert self._process, "the server is not running"
        return self._process.pid

    @property
    def log(self) -> str:
        return (self.folder / "server.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the server; return when it has read its data and answers."""
        assert self._process is None, "the server is running already"
        self.folder.mkdir(parents=True, exist_ok=True)
        options = {**self.options, "unixsocket": str(self.socket)}
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self.binary.path, *(part for name, value in options.items() for part in (f"--{name}", value))],
                cwd=self.folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        wait_until(self._is_ready, f"{self.binary} in {self.folder}")

    def stop(self) -> None:
        """Stop the server as an operator does; harmless when it is not running."""
        if self._process:
            self._process.terminate()
            self._ended()

    def kill9(self) -> None:
        """Kill the server with SIGKILL; it writes nothing more."""
        assert self._process, "the server is not running"
        self._process.kill()
        self._ended()

    def restart(self) -> None:
        self.stop()
        self.start()

    def remove(self) -> None:
        if self._process:
            self.kill9()
        shutil.rmtree(self._short, ignore_errors=True)

    def _is_ready(self) -> ServerInfo | None:
        assert self._process
        assert self._process.poll() is None, f"{self.binary} ended while it was starting:\n{self.log}"
        info = ask_info(self.socket)
        return info if info and info.pid == self._process.pid and not info.is_loading else None

    def _ended(self) -> None:
        assert self._process
        self._process.wait(timeout=60)
        self._process = None


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """One server for all tests of an xdist worker; each test uses keys of its own or flushes."""
    server = RealServer(tmp_path_factory.mktemp("shared-server"), options=NOT_DURABLE)
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="session")
def other_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], RealServer]]:
    """One server of each other kind for all tests of an xdist worker, started on first use."""
    servers: dict[str, RealServer] = {}

    def server(name: str) -> RealServer:
        if name not in servers:
            started = RealServer(tmp_path_factory.mktemp(name), name, NOT_DURABLE)
            started.start()
            servers[name] = started
        return servers[name]

    yield server
    for one in servers.values():
        one.remove()


@pytest.fixture
def start_server(tmp_path: Path) -> Iterator[StartServer]:
    """Start private servers: `start_server("name", binary="embedded", options={…})`."""
    servers: list[RealServer] = []

    def start(name: str = "server", *, binary: str = EMBEDDED, options: Mapping[str, str] | None = None) -> RealServer:
        server = RealServer(tmp_path / name, binary, options)
        servers.append(server)
        server.start()
        return server

    yield start
    for server in servers:
        server.remove()

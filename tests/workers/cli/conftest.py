"""Every test of the command line runs on a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from tests.support.command_line import CommandLine
from tests.support.servers import RealServer


@pytest.fixture(scope="session")
def durable_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server with the embedded server's own settings, so that no command has anything to warn of."""
    server = RealServer(tmp_path_factory.mktemp("durable-server"))
    try:
        server.start()
        yield server
    finally:
        server.remove()


@pytest.fixture
def server(durable_server: RealServer) -> RealServer:
    with redis.Redis.from_url(durable_server.url) as client:
        client.flushall()
    return durable_server


@pytest.fixture
def ledger(server: RealServer) -> CommandLine:
    """`permission-ledger` as typed in a shell whose PERMISSION_LEDGER_URL names an empty server."""
    return CommandLine(server.url)


@pytest.fixture
def server_without_file(shared_server: RealServer) -> CommandLine:
    """The same on a server that would lose data."""
    with redis.Redis.from_url(shared_server.url) as client:
        client.flushall()
    return CommandLine(shared_server.url)


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """`git status` is allowed, `rm` denied, and all else asked."""
    file = tmp_path / "opencode.json"
    file.write_text('{"permission": {"bash": {"*": "ask", "git status": "allow", "rm *": "deny"}}}')
    return file

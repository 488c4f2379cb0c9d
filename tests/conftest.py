"""The stores and servers that the tests run on."""

from __future__ import annotations

import atexit
import gc
import os
import signal
from collections.abc import AsyncIterator, Callable, Generator
from itertools import count

import pytest
import redis
from redis.asyncio import Redis

from ledger.stores.embedded.launch import BINARY_VARIABLE
from ledger.stores.redis.store import RedisStore
from ledger.stores.store import Store
from ledger.testing import TestClock
from tests import parts
from tests.support import closing_lines, cluster_warnings, profile, second_tries
from tests.support.backends import BACKENDS, SERVER, Backend, Operator, as_redis
from tests.support.clusters import Cluster, shared_cluster
from tests.support.command_line import CommandLine
from tests.support.programs import CLUSTER, EMBEDDED, MEMORY, binary_named, servers_to_test
from tests.support.servers import RealServer, other_servers, shared_server, start_server

__all__ = ["other_servers", "shared_cluster", "shared_server", "start_server"]

profile.load()

_numbers = count()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--simulation-seed",
        type=int,
        default=None,
        help="run this simulation only; a failing one names its seed",
    )
    parser.addoption(
        "--agents",
        action="store_true",
        help="run the journeys of real agents too (tests/agents), which installs them from npm",
    )
    parser.addoption(
        "--slow",
        action="store_true",
        help="with --agents: the journeys too that wait for minutes",
    )


def pytest_configure(config: pytest.Config) -> None:
    # A process started in the background of a shell ignores Ctrl-C, and so would all processes that the tests start.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)

    # The PATH may hold any server; the tests use the same one on every machine.
    os.environ.setdefault(BINARY_VARIABLE, str(binary_named(EMBEDDED).path))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    parts.mark(items)
    cluster_warnings.let_through(items)
    second_tries.allow(items)


def pytest_collection_finish() -> None:
    # Frozen objects stay: a collection after a test of a cluster then looks only at that test's own objects.
    gc.collect()
    gc.freeze()


def pytest_unconfigure() -> None:
    # What stays frozen as the interpreter ends is never freed, and bindings list all of it as leaked.
    gc.unfreeze()
    atexit.unregister(gc.freeze)  # of the commands that ran in this process


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    yield
    cluster_warnings.collect_after(item)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep what a failed test left behind from being collected while its report is made.

    Python 3.11 gives up on parsing a source when a finalizer that parses another one runs meanwhile, and the report of
    the failure would be lost for an error of pytest's own.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_report_header() -> str:
    return f"ledger stores: {', '.join(servers_to_test())} (each started once a worker)"


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    second_tries.tell(terminalreporter)
    closing_lines.tell(terminalreporter)


@pytest.fixture(autouse=True)
def data_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give processes of the test a data folder of their own: what another test saw of a server is no history of it."""
    folder = tmp_path_factory.getbasetemp() / f"data-{next(_numbers)}"
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))


@pytest.fixture(autouse=True)
def commands_as_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give each command of a test with the marker `process` a process of its own."""
    if request.node.get_closest_marker("process"):
        monkeypatch.setattr(CommandLine, "as_process", True)


@pytest.fixture
def clock() -> TestClock:
    """The server's clock, which the test moves."""
    return TestClock()


@pytest.fixture
def server(shared_server: RealServer) -> RealServer:
    """A real server without data."""
    return emptied(shared_server)


@pytest.fixture
async def admin(server: RealServer) -> AsyncIterator[Operator]:
    """A client for changes to the real server behind the ledger's back."""
    async with Redis.from_url(server.url, protocol=2) as client:
        yield Operator(client)


@pytest.fixture(params=BACKENDS)
def backend_name(request: pytest.FixtureRequest) -> str:
    """The name of a backend: every test that needs a store runs on all of them."""
    name: str = request.param
    return name


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Cluster:
    """A real cluster without data."""
    shared_cluster.flush()
    return shared_cluster


@pytest.fixture
def storage(backend_name: str, request: pytest.FixtureRequest) -> RealServer | Cluster | None:
    """The real server or cluster, or None for the memory."""
    if backend_name == MEMORY:
        return None
    if backend_name == CLUSTER:
        cluster: Cluster = request.getfixturevalue("cluster")
        return cluster
    if backend_name == SERVER:
        server: RealServer = request.getfixturevalue("server")
        return server
    start: Callable[[str], RealServer] = request.getfixturevalue("other_servers")
    return emptied(start(backend_name))


def emptied(server: RealServer) -> RealServer:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    return server


@pytest.fixture
async def backend(storage: RealServer | Cluster | None, clock: TestClock) -> AsyncIterator[Backend]:
    """Opens any number of stores that share one storage and the test's clock."""
    backend = Backend(storage, clock)
    yield backend
    await backend.close()


@pytest.fixture
async def live_backend(storage: RealServer | Cluster | None) -> AsyncIterator[Backend]:
    """As `backend`, on the server's own clock."""
    backend = Backend(storage, None)
    yield backend
    await backend.close()


@pytest.fixture
async def store(backend: Backend) -> Store:
    return await backend.open()


@pytest.fixture
async def server_backend(server: RealServer, clock: TestClock) -> AsyncIterator[Backend]:
    """As `backend`, on a real server only: for events that a memory store does not have."""
    backend = Backend(server, clock)
    yield backend
    await backend.close()


@pytest.fixture
async def server_store(server_backend: Backend) -> RedisStore:
    return as_redis(await server_backend.open())


@pytest.fixture
async def live_server_store(server: RealServer) -> AsyncIterator[RedisStore]:
    """A store on the real server, on the server's own clock."""
    backend = Backend(server, None)
    yield as_redis(await backend.open())
    await backend.close()

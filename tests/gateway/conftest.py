"""Gateways on real servers, for the tests of this folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ledger import Ledger
from ledger.stores.embedded import stop
from ledger.testing import TestClock
from tests.gateway.callers import Caller, Served, in_process, served
from tests.journeys.processes import Stage
from tests.support.promtool import promtool_left_out
from tests.support.servers import RealServer

collect_ignore = [] if promtool_left_out() is None else ["test_monitoring_rules.py"]


@pytest.fixture
def sockets() -> Iterator[Path]:
    """A folder for unix sockets, whose paths must be short."""
    folder = Path(tempfile.mkdtemp(prefix="pl-gw-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
async def ledger(server: RealServer, clock: TestClock) -> AsyncIterator[Ledger]:
    """A ledger on a real server, on the test's clock."""
    async with Ledger.connect(server.url, clock=clock) as ledger:
        yield ledger


@pytest.fixture
async def gateway(ledger: Ledger) -> AsyncIterator[Served]:
    async with in_process(ledger) as one:
        yield one


@pytest.fixture
async def gateway_on_socket(ledger: Ledger, sockets: Path) -> AsyncIterator[Served]:
    """As `gateway`, on a unix socket: for event streams, and where connections and their limits are the subject."""
    async with served(ledger, sockets / "gateway.sock") as one:
        yield one


@pytest.fixture
async def agent(gateway: Served) -> Caller:
    """An agent that brings no rules of its own."""
    return await gateway.caller("agent", "worker")


@pytest.fixture
async def ann(gateway: Served) -> Caller:
    """A person who answers."""
    return await gateway.caller("approver", "ann")


@pytest.fixture
async def admin_caller(gateway: Served) -> Caller:
    return await gateway.caller("admin", "root")


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data")
    yield stage
    stage.close()
    stop(stage.folder.path)

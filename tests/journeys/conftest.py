"""A data folder for each journey; its processes and its server are ended after it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledger.stores.embedded import stop
from tests.journeys.processes import Stage
from tests.support.browsers import browser_left_out
from tests.support.gateways import RunningGateway
from tests.support.servers import RealServer

collect_ignore = [] if browser_left_out() is None else ["test_first_hour.py", "test_second_day.py"]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data")
    yield stage
    stage.close()
    stop(stage.folder.path)


@pytest.fixture
def gateway(server: RealServer) -> Iterator[RunningGateway]:
    """A gateway that serves pages and logs all that it does."""
    running = RunningGateway(server, "--log-level", "debug", with_pages=True)
    try:
        running.start()
        yield running
    finally:
        running.close()

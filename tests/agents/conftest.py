"""Journeys of real clients: run by `make test-agents` only, each marked with the client that it drives."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents import frameworks
from tests.agents.clients import CLIENTS, OFFLINE_VARIABLE, installed, is_offline, left_out
from tests.support.gateways import gateway

__all__ = ["gateway"]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`make test` needs no client and no network."""
    return None if config.getoption("--agents") else True


def client_of(item: pytest.Item) -> str:
    marker = item.get_closest_marker("agents")
    assert marker, f"{item.nodeid} must say which client it drives: @pytest.mark.agents(NAME)"
    name: str = marker.args[0]
    assert name in {*CLIENTS, frameworks.NAME}, f"{item.nodeid}: `{name}` is none of {', '.join(CLIENTS)}"
    return name


def _frameworks_left_out() -> list[str]:
    return [frameworks.NAME] if is_offline() and not frameworks.is_installed() else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(item.path).is_relative_to(Path(__file__).parent)]
    missing = {*left_out(), *_frameworks_left_out()}
    dropped = [item for item in here if client_of(item) in missing]
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=dropped)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("Real clients")
    said = "LEFT OUT: not installed" if _frameworks_left_out() else "their examples ran"
    terminalreporter.write_line(f"Python frameworks (requirements/agents.txt): {said}")
    missing = left_out()
    for name, client in CLIENTS.items():
        said = f"LEFT OUT: not installed, and {OFFLINE_VARIABLE}=1" if name in missing else "its journeys ran"
        terminalreporter.write_line(f"{name} ({client.package} {client.version}): {said}")


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Path:
    """The client that the test is marked with, installed."""
    return installed(client_of(request.node))

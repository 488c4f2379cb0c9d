"""Journeys of real clients: run only by `make test-agents`, each marked with the client that it drives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.agents import frameworks
from tests.agents.clients import CLIENTS, installed, is_offline, why_left_out
from tests.support.browsers import browser_left_out
from tests.support.gateways import RunningGateway, ann, let_bridges_find
from tests.support.servers import RealServer

__all__ = ["ann"]

collect_ignore = [] if browser_left_out() is None else ["test_sign_in_provider.py"]

DRIVEN: Final = pytest.StashKey[dict[str, str | None]]()
"""The requested clients, and the reason when one is left out."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore these files in `make test`, which needs no client and no network."""
    return None if config.getoption("--agents") else True


def clients_of(item: pytest.Item) -> tuple[str, ...]:
    """Return the clients that a test requires."""
    marker = item.get_closest_marker("agents")
    assert marker, f"{item.nodeid} must say which clients it drives: @pytest.mark.agents(NAME, …)"
    names: tuple[str, ...] = marker.args
    if "older" in marker.kwargs and _version(item) == marker.kwargs["older"]:
        names = (marker.kwargs["older"], *names[1:])
    for name in names:
        assert name in {*CLIENTS, frameworks.NAME}, f"{item.nodeid}: `{name}` is none of {', '.join(CLIENTS)}"
    return names


def _version(item: pytest.Item) -> str | None:
    """Return the client of the version that a test is run with."""
    callspec = getattr(item, "callspec", None)
    return None if callspec is None else callspec.params.get("program")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """`agents("claude", older="claude-older")`: run the test once with each."""
    marker = metafunc.definition.get_closest_marker("agents")
    if marker and "older" in marker.kwargs and "program" in metafunc.fixturenames:
        metafunc.parametrize("program", [marker.args[0], marker.kwargs["older"]], indirect=True)


def _why_left_out(name: str) -> str | None:
    if name == frameworks.NAME:
        return "not installed" if is_offline() and not frameworks.is_installed() else None
    return why_left_out(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--agents"):
        return
    here = [item for item in items if Path(item.path).is_relative_to(Path(__file__).parent)]
    slow = [item for item in here if item.get_closest_marker("slow") and not config.getoption("--slow")]
    dropped = slow + [item for item in here if any(map(_why_left_out, clients_of(item)))]
    items[:] = [item for item in items if item not in dropped]
    config.hook.pytest_deselected(items=dropped)
    driven = [name for item in here if item not in slow for name in clients_of(item)]
    config.stash[DRIVEN] = {name: _why_left_out(name) for name in driven}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    asked_for = terminalreporter.config.stash.get(DRIVEN, {})
    if asked_for:
        terminalreporter.section("Real clients")
    for name, why in sorted(asked_for.items()):
        label = CLIENTS[name].label if name in CLIENTS else "requirements/agents.txt"
        terminalreporter.write_line(f"{name} ({label}): {'its journeys ran' if why is None else f'LEFT OUT: {why}'}")


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Path:
    """The client that the test is marked with, installed."""
    return installed(clients_of(request.node)[0])


@pytest.fixture
def gateway(server: RealServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningGateway]:
    """A gateway as people start it, in a process that a journey may kill."""
    running = RunningGateway(server)
    let_bridges_find(running, monkeypatch)
    try:
        running.start()
        yield running
    finally:
        running.close()

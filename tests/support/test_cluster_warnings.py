"""Warnings of connections that a test of a cluster drops are not reported in the next test."""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Iterator

import pytest

from tests.support import cluster_warnings


class Dropped:
    """An object in a cycle whose finalizer warns, so that only a collection triggers it."""

    def __init__(self, name: str) -> None:
        self.itself = self
        self.name = name

    def __del__(self) -> None:
        warnings.warn(f"unclosed {self.name}", ResourceWarning, stacklevel=1)


Dropped.__del__.__qualname__ = "AbstractConnection.__del__"


class Other(Dropped):
    """An object of another kind whose finalizer fails."""

    def __del__(self) -> None:
        raise RuntimeError(self.name)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The messages that reach pytest."""
    messages: list[str] = []
    gc.collect()
    with monkeypatch.context() as patch:
        patch.setattr(sys, "unraisablehook", lambda message: messages.append(str(message.exc_value)))
        yield messages


@pytest.mark.cluster
def test_what_its_client_drops_is_collected_in_silence(request: pytest.FixtureRequest, told: list[str]) -> None:
    Dropped("connection")
    cluster_warnings.collect_after(request.node)
    gc.collect()
    assert told == []


@pytest.mark.cluster
def test_any_other_failed_end_is_told(request: pytest.FixtureRequest, told: list[str]) -> None:
    Other("lost")
    cluster_warnings.collect_after(request.node)
    assert told == ["lost"]

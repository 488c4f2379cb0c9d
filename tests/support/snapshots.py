"""Snapshots that are written after few events, for tests of what begins with one."""

from __future__ import annotations

from types import ModuleType

import pytest

from ledger.log import fresh_folds, snapshots
from projections import engine


def write_snapshots_every(events: int, monkeypatch: pytest.MonkeyPatch, *more: ModuleType) -> None:
    """Have snapshots written every so many events, whatever they take; `more` are further modules that look for them."""
    monkeypatch.setattr(snapshots, "_EVENT_BYTES", 1024 * 1024)
    for module in (snapshots, engine, fresh_folds, *more):
        monkeypatch.setattr(module, "SNAPSHOT_EVERY_EVENTS", events)

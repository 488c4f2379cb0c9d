"""Marks of an outage made by an agent in the data folder: they shorten a wait, and do nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest

from workers.bridges.hooks import exchange
from workers.bridges.hooks.exchange import OutageMark
from workers.transport.place import UnreachableError

GRACE: Final = 30.0


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("PERMISSION_LEDGER_HOME", str(tmp_path / "data"))
    OutageMark(GRACE).set()
    [path] = (tmp_path / "data").iterdir()
    return path


def answered(*_said: Any, **_more: Any) -> dict[str, Any]:
    return {"outcome": "denied"}


def lost(*_said: Any, **_more: Any) -> dict[str, Any]:
    raise ConnectionRefusedError


def test_a_forged_mark_does_not_keep_a_hook_from_a_gateway_that_answers(
    mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "_exchange", answered)
    assert exchange.HookProcess().call("POST", "/v1/sessions/s/asks", {}, GRACE) == {"outcome": "denied"}
    assert not mark.exists()


def test_a_forged_mark_is_no_answer(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mark.write_text('{"outcome": "allowed"}')
    monkeypatch.setattr(exchange, "_exchange", lost)
    with pytest.raises(UnreachableError):
        exchange.HookProcess().call("POST", "/v1/sessions/s/asks", {}, GRACE)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe", "no folder"])
def test_what_stands_in_its_place_is_neither_followed_nor_waited_for(mark: Path, tmp_path: Path, kind: str) -> None:
    theirs = tmp_path / "theirs"
    theirs.write_text("kept")
    os.utime(theirs, (1, 1))
    mark.unlink()
    if kind == "link":
        mark.symlink_to(theirs)
    elif kind == "folder":
        mark.mkdir()
    elif kind == "pipe":
        os.mkfifo(mark)
    else:
        mark.parent.rmdir()
        mark.parent.write_text("a file")
    OutageMark(GRACE).set()
    OutageMark(GRACE).remove()
    assert (theirs.read_text(), theirs.stat().st_mtime) == ("kept", 1)


def test_a_mark_is_its_users_alone(mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert mark.stat().st_mode & 0o777 == 0o600
    assert OutageMark(GRACE).stands()
    monkeypatch.setattr(os, "geteuid", lambda: 4242)
    assert not OutageMark(GRACE).stands()

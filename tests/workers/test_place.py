"""Spelling of a command for a person who is to type it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.runtime.place import LedgerPlace, command_name


def made(folder: Path) -> Path:
    folder.mkdir()
    program = folder / "permission-ledger"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def test_a_command_that_the_shell_would_not_find_is_told_with_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr("sys.argv", [str(made(tmp_path / "a folder")), "up"])
    assert command_name() == f"'{tmp_path}/a folder/permission-ledger'"


def test_a_command_that_the_shell_finds_is_told_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = made(tmp_path / "bin")
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setattr("sys.argv", [str(program), "up"])
    assert command_name() == "permission-ledger"
    home = tmp_path / "data"
    assert LedgerPlace(None, home).command() == f"PERMISSION_LEDGER_HOME={home} permission-ledger"


def test_started_in_another_way_it_is_told_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/somewhere/workers/cli/__main__.py", "up"])
    assert command_name() == "permission-ledger"

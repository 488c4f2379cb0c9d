"""Projects that a person trusts: their files, and the list of trusted files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from workers.transport.trusted import PROJECT_FILE, digest_of_file, trust_file


class TrustedProject:
    """A folder with `permission-ledger.toml` and one rule file of a dialect, which `trust` trusts as they are."""

    def __init__(self, folder: Path, dialect: str, rules: Any) -> None:
        self.folder = folder
        self.dialect = dialect
        self.file = folder / PROJECT_FILE
        self.rules = folder / f"{dialect}.json"
        folder.mkdir(parents=True, exist_ok=True)
        self.file.write_text(f'rules = ["{dialect}={self.rules.name}"]\n')
        self.write(rules)
        self.trust()

    def write(self, rules: Any) -> None:
        self.rules.write_text(json.dumps(rules))

    def trust(self) -> None:
        named = {str(self.rules): digest_of_file(str(self.rules))}
        _change({str(self.file): {"sha256": digest_of_file(str(self.file)), "named": named}})

    def untrust(self) -> None:
        _change({str(self.file): None})


def _change(records: dict[str, Any]) -> None:
    path = Path(trust_file())
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    files = json.loads(path.read_text())["files"] if path.exists() else {}
    files |= records
    path.touch(mode=0o600)
    path.write_text(json.dumps({"files": {name: one for name, one in files.items() if one is not None}}))


def of_its_own(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Put the list of trusted files of this process and its children below a folder."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.delenv("PERMISSION_LEDGER_CONFIG", raising=False)


def rewritten_unseen(file: Path, content: bytes) -> None:
    """Write other content of the same size into the same file, and set its time back."""
    status = file.stat()
    assert len(content) == status.st_size
    with file.open("r+b") as stream:
        stream.write(content)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))

"""Wheels of this checkout: unchanged, and with the changes that a later version might bring.

The later version differs in the two things that versions may change on one server: the schema of an event
(`ledger.core.codec.SCHEMA_OF`) and the text of a script, whose hash is its version.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from zipfile import ZipFile

from tests.support.processes import ROOT

SOURCES: Final = ("ledger", "projections", "workers", "permission_ledger.py", "pyproject.toml", "README.md", "LICENSE")

VERSION: Final = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


@dataclass(frozen=True)
class Change:
    """A change of one file: `old`, which occurs once, becomes `new`."""

    file: str
    old: str
    new: str


LATER: Final = (
    Change("pyproject.toml", f'\nversion = "{VERSION}"', '\nversion = "99.0.0"'),
    # Only the later version understands cancelling.
    Change("ledger/core/codec.py", "SCHEMA_VERSION: Final = FIRST_SCHEMA", "SCHEMA_VERSION: Final = 2"),
    Change(
        "ledger/core/codec.py",
        "SCHEMA_OF: Final[Mapping[type, int]] = {}",
        "SCHEMA_OF: Final[Mapping[type, int]] = {Cancelled: 2}",
    ),
    Change("ledger/core/codec.py", "import Actor, Asked, Detail,", "import Actor, Asked, Cancelled, Detail,"),
    Change("ledger/stores/redis/append.lua", "-- Compare-and-append:", "-- Of the later version. Compare-and-append:"),
    Change("ledger/stores/redis/project.lua", "#!lua\n", "#!lua\n-- Of the later version.\n"),
)


@dataclass(frozen=True)
class Build:
    """One version, unpacked where its processes import it."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        # The checkout comes after it, for the tests' own programs; the working folder is not on the path.
        return {"PYTHONPATH": os.pathsep.join((str(self.folder), str(ROOT))), "PYTHONSAFEPATH": "1"}

    def script(self, name: str) -> str:
        return (self.folder / "ledger" / "stores" / "redis" / name).read_text()


def build(folder: Path, changes: tuple[Change, ...] = ()) -> Build:
    """Build a wheel of the changed sources, without a network, and unpack it."""
    sources, unpacked = folder / "sources", folder / "unpacked"
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, sources / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, sources / name)
    for change in changes:
        file = sources / change.file
        text = file.read_text()
        assert text.count(change.old) == 1, f"`{change.old}` does not stand once in {change.file}"
        file.write_text(text.replace(change.old, change.new))
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder / "wheel")],
        cwd=sources,
        check=True,
        capture_output=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    [wheel] = (folder / "wheel").iterdir()
    with ZipFile(wheel) as archive:
        archive.extractall(unpacked)
    return Build(unpacked)

"""The real clients that the journeys drive: pinned, installed from npm into a folder that is kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

OFFLINE_VARIABLE: Final = "PERMISSION_LEDGER_TEST_OFFLINE"
"""Set to 1, clients that are not installed yet are left out, and that is said; otherwise they fail their tests."""

FOLDER_VARIABLE: Final = "PERMISSION_LEDGER_TEST_CLIENTS"
"""Where clients are installed; the default is a folder of the user's cache."""

INSTALL_SECONDS: Final = 600


class NpmClient(NamedTuple):
    """A program of an npm package. `needs` are programs of this machine that it cannot do without."""

    package: str
    version: str
    program: str
    needs: tuple[str, ...] = ()


CLIENTS: Final[dict[str, NpmClient]] = {
    "claude": NpmClient("@anthropic-ai/claude-code", "2.1.197", "claude"),
    "opencode": NpmClient("opencode-ai", "1.18.33", "opencode", needs=("git",)),
    "codex": NpmClient("@openai/codex", "0.169.0", "codex"),
    "gemini": NpmClient("@google/gemini-cli", "0.61.0", "gemini", ("node",)),
}


def clients_folder() -> Path:
    base = os.environ.get(FOLDER_VARIABLE)
    cache_home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) if base else Path(cache_home) / "permission-ledger" / "clients"


def folder_of(name: str) -> Path:
    return clients_folder() / f"{name}-{CLIENTS[name].version}"


def program_of(name: str) -> Path:
    return folder_of(name) / "node_modules" / ".bin" / CLIENTS[name].program


def is_installed(name: str) -> bool:
    """Whether the pinned version is there, and what it needs."""
    client = CLIENTS[name]
    manifest = folder_of(name) / "node_modules" / client.package / "package.json"
    if not program_of(name).exists() or not manifest.exists():
        return False
    found: str = json.loads(manifest.read_text())["version"]
    return found == client.version and all(shutil.which(need) for need in client.needs)


@cache
def installed(name: str) -> Path:
    """The client's program, installed when it is not there yet; fails with npm's own words when that cannot be done."""
    client = CLIENTS[name]
    if not is_installed(name):
        assert not is_offline(), f"{client.package}@{client.version} is not installed, and {OFFLINE_VARIABLE}=1"
        for need in client.needs:
            assert shutil.which(need), f"{name} needs `{need}`, which is not on this machine"
        npm = shutil.which("npm")
        assert npm, f"npm is not on this machine; {OFFLINE_VARIABLE}=1 leaves the real clients out"
        folder = folder_of(name)
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            npm,
            "install",
            "--no-audit",
            "--no-fund",
            "--prefix",
            str(folder),
            f"{client.package}@{client.version}",
        ]
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False)
        assert done.returncode == 0, f"{' '.join(command)}:\n{done.stderr[-2000:]}"
    return program_of(name)


def is_offline() -> bool:
    return os.environ.get(OFFLINE_VARIABLE) == "1"


def left_out() -> list[str]:
    """The clients whose journeys are not run, because the machine is offline and they are not installed."""
    return [name for name in CLIENTS if is_offline() and not is_installed(name)]

"""Installation of a real client on this machine: from npm, or from its sources when no registry has it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

INSTALL_SECONDS: Final = 600


class InstallError(AssertionError):
    """A client cannot be installed; the text is the installer's message."""


class NpmClient(NamedTuple):
    """A program of an npm package; `program` None is a library, and the program is its folder.

    `needs` are programs that this machine must have. `beside` are packages that it is installed with, such
    as a Node.js newer than the machine's may be; the programs of both are in one folder.
    """

    package: str
    version: str
    program: str | None
    needs: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        return f"{self.package} {self.version}"

    def program_in(self, folder: Path) -> Path:
        modules = folder / "node_modules"
        return modules / self.package if self.program is None else modules / ".bin" / self.program

    def is_installed(self, folder: Path) -> bool:
        wanted = (f"{self.package}@{self.version}", *self.beside)
        return (
            self.program_in(folder).exists()
            and all(_is_there(folder, package) for package in wanted)
            and all(shutil.which(need) for need in self.needs)
        )

    def install(self, folder: Path) -> None:
        """Raises InstallError."""
        for need in self.needs:
            if shutil.which(need) is None:
                raise InstallError(f"{self.package} needs `{need}`, which is not on this machine")
        npm_install(folder, f"{self.package}@{self.version}", *self.beside)


class SourceClient(NamedTuple):
    """A TypeScript program at a commit of a repository, run by bun; `package` of its workspaces is the one that is run."""

    repository: str
    commit: str
    version: str
    bun: str
    package: str
    entry: str

    @property
    def label(self) -> str:
        return f"{self.package} {self.version}, {self.repository} at {self.commit[:12]}"

    def program_in(self, folder: Path) -> Path:
        return folder / "program"

    def is_installed(self, folder: Path) -> bool:
        # Written last, and for this commit.
        return self.program_in(folder).exists() and self.commit in self.program_in(folder).read_text()

    def install(self, folder: Path) -> None:
        """Raises InstallError."""
        source, bun = folder / "source", folder / "node_modules" / ".bin" / "bun"
        # First the step that may fail without a network.
        run(["git", "init", "--quiet", str(source)])
        run(["git", "-C", str(source), "fetch", "--quiet", "--depth", "1", self.repository, self.commit])
        run(["git", "-C", str(source), "checkout", "--quiet", "--force", self.commit])
        npm_install(folder, f"bun@{self.bun}")
        words = ["--frozen-lockfile", "--ignore-scripts", "--production", "--filter", self.package]
        run([str(bun), "install", "--cwd", str(source), *words])
        program = self.program_in(folder)
        program.write_text(f'#!/bin/sh\n# {self.commit}\nexec "{bun}" "{source / self.entry}" "$@"\n')
        program.chmod(0o755)


def _is_there(folder: Path, package: str) -> bool:
    """Return whether `NAME@VERSION` is installed."""
    name, _, version = package.rpartition("@")
    manifest = folder / "node_modules" / name / "package.json"
    return manifest.exists() and json.loads(manifest.read_text())["version"] == version


def npm_install(folder: Path, *packages: str) -> None:
    """Raises InstallError."""
    folder.mkdir(parents=True, exist_ok=True)
    run(["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), *packages])


def run(command: Sequence[str]) -> None:
    """Raises InstallError."""
    if shutil.which(command[0]) is None:
        raise InstallError(f"`{command[0]}` is not on this machine")
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "GIT_TERMINAL_PROMPT": "0"},
        capture_output=True,
        text=True,
        timeout=INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise InstallError(f"{' '.join(command)}:\n{done.stderr[-2000:]}")

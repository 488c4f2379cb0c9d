"""A person's home and project, in which commands read configuration files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.support.command_line import CommandLine, Ran


class Person:
    """An empty home with a project in it; the ledger is in memory unless a file or variable names one."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.project = folder / "shop"
        self.settings = self.home / ".config" / "permission-ledger"
        self.project.mkdir(parents=True)
        self.settings.mkdir(parents=True, mode=0o700)
        self.file = self.project / "permission-ledger.toml"
        self.own = self.settings / "config.toml"
        self.environment = {"HOME": str(self.home), "XDG_CONFIG_HOME": "", "XDG_DATA_HOME": ""}

    def __call__(self, *words: str | Path, code: int | None = None, folder: Path | None = None, **env: str) -> Ran:
        return self._line(folder)(*words, code=code, **env)

    def fed(self, *words: str, text: str) -> Ran:
        """Run a command with this text on its stdin."""
        return self._line(None)(*words, stdin=text)

    @property
    def whole_environment(self) -> dict[str, str]:
        """The environment of this person's processes."""
        return self._line(None).environment

    def _line(self, folder: Path | None) -> CommandLine:
        return CommandLine("", self.environment, folder or self.project)

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def trust(self) -> None:
        self("config", "trust", "--yes", code=0)

    def shown(self, *words: str, **environment: str) -> dict[str, tuple[Any, str]]:
        """Return the value and source of each setting."""
        rows = self("config", "show", "--json", *words, code=0, folder=None, **environment).rows
        return {".".join(filter(None, (row["table"], row["name"]))): (row["value"], row["source"]) for row in rows}

"""The error of configuration files."""

from __future__ import annotations

import click


class ConfigFileError(click.ClickException):
    """A configuration file that cannot be used. It ends the command with the exit code of bad input."""

    code = "CONFIG"

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

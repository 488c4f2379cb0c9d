"""The location of a ledger, for commands that start others on the same one."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ledger.core.errors import InputError
from ledger.core.regular_files import is_held
from ledger.stores.embedded.folder import DataFolder
from ledger.stores.urls import default_home, embedded_folder, redact, url_of_environment

NAME: Final = "permission-ledger"


class LedgerPlace:
    """The location of a ledger: a server's URL, or the data folder of an embedded one."""

    def __init__(self, url: str | None, home: Path | None, *, home_option: str = "--home") -> None:
        """Raise InputError when both are given."""
        if url is not None and home is not None:
            raise InputError(f"give either --url or {home_option}: a data folder has a server of its own")
        named = url or (None if home is not None else url_of_environment())
        self.url = named or f"embedded://{quote(str((home or default_home()).absolute()))}"
        self.folder = embedded_folder(self.url).absolute() if self.url.startswith("embedded://") else None
        self._is_default = home is None and named is None and "PERMISSION_LEDGER_HOME" not in os.environ

    @property
    def data_folder(self) -> Path:
        """Return the folder of what this machine notes of the ledger: the embedded server's, or the default one."""
        return self.folder or default_home().absolute()

    @property
    def environment(self) -> dict[str, str]:
        """Return the variables by which a process of ours uses the same ledger."""
        folder = {} if self.folder is None else {"PERMISSION_LEDGER_HOME": str(self.folder)}
        return {"PERMISSION_LEDGER_URL": self.url, **folder}

    @property
    def was_running(self) -> bool:
        """Return whether another process already runs the folder's embedded server."""
        if self.folder is None:
            return False
        lock = DataFolder(self.folder).server_lock
        return lock.exists() and is_held(lock)

    def described(self) -> str:
        """Return the server as text for a person; an embedded one has been started by then."""
        if self.folder is None:
            return redact(self.url)
        engine = DataFolder(self.folder).last_engine() or "embedded server"
        return f"{engine}, embedded, in {self.folder}"

    def prefix(self) -> str:
        """Return the environment or options before a command that make it use the same ledger."""
        if self._is_default:
            return ""
        if self.folder is not None:
            return f"PERMISSION_LEDGER_HOME={shlex.quote(str(self.folder))} "
        return f"PERMISSION_LEDGER_URL={shlex.quote(redact(self.url))} "

    def command(self) -> str:
        """Return the command a person would type here for this program and the same ledger."""
        return f"{self.prefix()}{command_name()}"


def command_name() -> str:
    """Return `permission-ledger`, or its path if the shell would not find it: a checkout's `.venv/bin`."""
    typed = Path(sys.argv[0])
    if typed.name != NAME or shutil.which(NAME) is not None:
        return NAME
    return shlex.quote(str(typed))

"""`up`: everything that a ledger on one machine needs, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from ledger import Ledger
from ledger.errors import InputError
from ledger.stores.embedded.folder import DataFolder
from ledger.stores.embedded.locks import is_held
from ledger.stores.opening import default_home, embedded_folder, redact
from workers.children import Kept, own_command, own_environment
from workers.serving import stopping_on_signals

WORKERS: Final = ("expiry", "projector")

Say = Callable[[str], None]


class Place:
    """Where the ledger is: a server by its URL, or the embedded one of a data folder."""

    def __init__(self, url: str | None, home: Path | None) -> None:
        """Raises InputError when both are given."""
        if url is not None and home is not None:
            raise InputError("give either --url or --home: a data folder has a server of its own")
        named = url or (None if home is not None else os.environ.get("PERMISSION_LEDGER_URL"))
        self.url = named or f"embedded://{quote(str((home or default_home()).absolute()))}"
        self.folder = embedded_folder(self.url).absolute() if self.url.startswith("embedded://") else None
        self._is_default = home is None and named is None and "PERMISSION_LEDGER_HOME" not in os.environ

    @property
    def was_running(self) -> bool:
        """Whether the folder's embedded server is somebody's already."""
        if self.folder is None:
            return False
        lock = DataFolder(self.folder).server_lock
        return lock.exists() and is_held(lock)

    def described(self) -> str:
        """The server for a person; embedded ones have been started by then."""
        if self.folder is None:
            return redact(self.url)
        engine = DataFolder(self.folder).last_engine() or "embedded server"
        return f"{engine}, embedded, in {self.folder}"

    def prefix(self) -> str:
        """What stands before a command, so that it finds the same ledger."""
        if self._is_default:
            return ""
        if self.folder is not None:
            return f"PERMISSION_LEDGER_HOME={shlex.quote(str(self.folder))} "
        return f"PERMISSION_LEDGER_URL={shlex.quote(redact(self.url))} "


async def up(place: Place, say: Say) -> None:
    """Run server and workers until SIGTERM or Ctrl-C. Raises StoreError or SetupError when the server is not fit."""
    with stopping_on_signals() as stop:
        was_running = place.was_running
        # Held as long as we are up: an embedded server lives while it is held.
        async with Ledger.connect(place.url):
            say("permission-ledger is up")
            say("")
            say(f"  server     {place.described()}" + (" (was running already)" if was_running else ""))
            await _keep_workers(place, say, stop)
    say("permission-ledger is down")


async def _keep_workers(place: Place, say: Say, stop: asyncio.Event) -> None:
    running: dict[str, int] = {}
    all_run = asyncio.Event()

    def started(name: str, pid: int) -> None:
        again = name in running
        running[name] = pid
        if again:
            say(f"  {name:<9}  started again, process {pid}")
        if len(running) == len(WORKERS):
            all_run.set()

    def kept(name: str) -> Kept:
        command = own_command("worker", name, "--with-parent", str(os.getpid()))
        # Not on the command line, where everybody on the machine could read a password in it.
        return Kept(name, command, {**own_environment(), "PERMISSION_LEDGER_URL": place.url}, started)

    tasks = [asyncio.create_task(kept(name).run(), name=f"keep {name}") for name in WORKERS]
    try:
        await all_run.wait()
        for name in WORKERS:
            say(f"  {name:<9}  worker, process {running[name]}")
        for line in _how_to_use(place.prefix()):
            say(line)
        await stop.wait()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _how_to_use(prefix: str) -> list[str]:
    return [
        "",
        "Try, in another terminal:",
        f"  {prefix}permission-ledger ask ses_1 bash 'git push' --always 'git push *'",
        f"  {prefix}permission-ledger pending",
        f"  {prefix}permission-ledger reply REQUEST once",
        "",
        "Ctrl-C ends it; what was asked and answered stays.",
    ]

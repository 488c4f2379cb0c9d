"""`up`: everything that a ledger on one machine needs, until Ctrl-C."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Final

from ledger import Ledger
from workers.children import Kept, own_command, own_environment
from workers.place import Place
from workers.serving import stopping_on_signals

WORKERS: Final = ("expiry", "projector")

Say = Callable[[str], None]


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

"""One worker as a process: until a signal stops it, or its parent is gone.

A process that stays must not mix the version it began with and one that is installed while it runs, so all code that
judges is imported at once, with the data files it reads. Commands import that code where they use it, because it takes
a fifth of the time of a short one.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Final

from ledger import Ledger
from ledger.masks.shape_tables import place_shapes, provider_shapes
from ledger.policy.dialects import DIALECTS
from ledger.policy.shell.forms.nodes import known_programs
from ledger.policy.shell.tables import ARGUMENTS, effects
from ledger.session.would_run.odd_characters import look_alikes
from workers.runtime.history import watched_history
from workers.runtime.place import LedgerPlace

_IMPORTED_LATE: Final = (
    "ledger.client.policies",
    "ledger.client.session",
    "ledger.policy.consulted",
    "ledger.policy.covers",
    "ledger.policy.danger",
    "ledger.policy.effects",
    "ledger.policy.offers",
    "ledger.policy.shell.operands",
    "ledger.session.decide",
    "ledger.session.freezing",
    "ledger.session.would_run.description",
)
"""The modules that functions import."""


def import_judging() -> None:
    """Import every dialect, and everything that asks, answers and shows requests; read their tables."""
    for name in _IMPORTED_LATE:
        import_module(name)
    tuple(DIALECTS.values())
    tuple(ARGUMENTS)
    for read in (effects, known_programs, provider_shapes, place_shapes, look_alikes):
        read()


Work = Callable[[Ledger, asyncio.Event], Awaitable[None]]
"""A worker's work on a ledger, until the event is set."""

PARENT_SECONDS: Final = 1.0
"""The interval at which a worker checks that its parent is alive."""


@contextmanager
def stopping_on_signals() -> Iterator[asyncio.Event]:
    """Yield an event that SIGTERM and Ctrl-C set, instead of ending the process in the middle of its work."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        yield stop
    finally:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.remove_signal_handler(number)


async def serve(work: Work, url: str | None, *, parent: int | None = None, masks: bool | None = None) -> None:
    """Do a worker's work at a URL; `masks` is that of `Ledger.connect`. Raises the errors of connecting: StoreError, SetupError, InputError."""
    import_judging()
    with stopping_on_signals() as stop:
        watching = asyncio.create_task(_stop_without(parent, stop), name="watch parent") if parent else None
        try:
            place = LedgerPlace(url, None)
            async with Ledger.connect(url, masks=masks) as ledger, watched_history(ledger.store, place):
                await work(ledger, stop)
        finally:
            if watching is not None:
                watching.cancel()


async def _stop_without(parent: int, stop: asyncio.Event) -> None:
    """Stop when the parent was killed: the process then has another parent."""
    while os.getppid() == parent:  # noqa: ASYNC110 - the kernel tells nobody
        await asyncio.sleep(PARENT_SECONDS)
    stop.set()

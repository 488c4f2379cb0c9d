"""The traces of dead processes: their children, keys that nothing ends, and feed lines that nobody acknowledges."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from bench.place import Place
from bench.soak.memory import marked_processes
from ledger.stores.port import StreamKey
from projections.lag import FedLag

PASSING: Final = (":turn:", ":inbox", ":lease:", ":askers:", ":sealing:", ":redact:")
"""Parts of the names of keys that must end by themselves: each carries an expiry."""

LOOK_SECONDS: Final = 0.5

NO_EXPIRY: Final = -1


async def came(is_so: Callable[[], Awaitable[bool]], seconds: float) -> bool:
    """Wait for what notifies nobody; return whether it came within `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not await is_so():  # noqa: ASYNC110 - views, hints and other programs notify nobody
                await asyncio.sleep(LOOK_SECONDS)
            return True
    return False


async def keys_without_end(place: Place) -> list[str]:
    """Return the keys of leases, turns and half-done work that have no expiry."""
    left: list[str] = []
    async for names in place.keys_of_server():
        passing = [name for name in names if any(part in name for part in PASSING)]
        lives = await asyncio.gather(*(place.floor.send("PTTL", name) for name in passing))
        left += [name for name, life in zip(passing, lives, strict=True) if life == NO_EXPIRY]
    return sorted(set(left))


async def until_nothing_is_due(place: Place, seconds: float) -> bool:
    """Wait until no request and no claim has a deadline, by the workers alone; return whether that came."""

    async def is_quiet() -> bool:
        return not await place.ledger.store.due(None, 1) and not await FedLag(place.ledger.store).all()

    return await came(is_quiet, seconds)


async def outlived(mark: str, seconds: float) -> list[int]:
    """Wait until no process has a text in its environment; return those that still run after `seconds`.

    A child that a killed process had just started ends when it has imported its modules, which takes long on a busy machine.
    """

    async def is_alone() -> bool:
        return not marked_processes(mark)

    await came(is_alone, seconds)
    return marked_processes(mark)


async def until_sealed(place: Place, seconds: float) -> bool:
    """Wait until an archiver has sealed a session; return whether one did."""

    async def is_any_sealed() -> bool:
        async for session in place.ledger.sessions():
            if (await place.ledger.store.heads([StreamKey("session", session)]))[0].seal is not None:
                return True
        return False

    return await came(is_any_sealed, seconds)

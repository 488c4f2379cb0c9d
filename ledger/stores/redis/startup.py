"""Retries at a process's start: a primary may fail over, or a server may still be loading its data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from ledger.core.errors import SetupError, StoreError
from ledger.core.limits import GIVE_UP_SECONDS
from ledger.stores.redis.refusals import Refusal

T = TypeVar("T")

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.25


async def when_ready(meet: Callable[[], Awaitable[T]], *, others_take_over: bool) -> T:
    """Return the result of `meet`, retried for GIVE_UP_SECONDS where waiting may help. Raises StoreError, SetupError.

    A SetupError is raised at once, and so is an unreachable server that no other replaces: the URL is probably wrong.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + GIVE_UP_SECONDS
    told = False
    while True:
        try:
            return await meet()
        except SetupError:
            raise
        except StoreError as error:
            if not (others_take_over or _only_not_ready(error)) or loop.time() + PAUSE_SECONDS > give_up:
                raise
            if not told:
                log.warning("%s; waiting up to %g s for it", error.text, GIVE_UP_SECONDS)
                told = True
        await asyncio.sleep(PAUSE_SECONDS)


def _only_not_ready(error: BaseException | None) -> bool:
    """Return whether an error was caused by a server that is up but not ready yet."""
    while error is not None:
        if isinstance(error, Refusal) and error.will_pass:
            return True
        error = error.__cause__
    return False

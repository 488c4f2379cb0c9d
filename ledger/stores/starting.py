"""A process may come at a bad moment: while a primary fails over, or while a server is still loading its data."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TypeVar

from redis.exceptions import RedisError

from ledger.core.errors import SetupError, StoreError
from ledger.core.limits import GIVE_UP_SECONDS
from ledger.stores.refusals import is_passing

T = TypeVar("T")

log = logging.getLogger(__name__)

PAUSE_SECONDS = 0.25


async def when_ready(meet: Callable[[], Awaitable[T]], *, others_take_over: bool) -> T:
    """What `meet` gives, tried for GIVE_UP_SECONDS where waiting may help. Raises StoreError, SetupError at once.

    Where no other server takes over, one that cannot be reached is an error at once: most likely the URL is wrong.
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
    """Whether it comes from a server that is there, and says that it will be ready."""
    while error is not None:
        if isinstance(error, RedisError) and is_passing(error):
            return True
        error = error.__cause__
    return False

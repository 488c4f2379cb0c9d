"""A store on Redis or Valkey: one server, the primary that sentinels name, or a cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

from ledger.core.errors import SetupError, StoreError
from ledger.core.limits import GIVE_UP_SECONDS
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability
from ledger.stores.keys import Keys
from ledger.stores.port import Listener
from ledger.stores.redis.append_calls import AppendCalls
from ledger.stores.redis.deployment import Deployment, check_server, read_partitions, record_deployment
from ledger.stores.redis.feeds import Feeds
from ledger.stores.redis.hints import Hints
from ledger.stores.redis.refusals import Refusal
from ledger.stores.redis.rewrites import Rewriting
from ledger.stores.redis.sealing import Stubs
from ledger.stores.redis.servers import Revive, Servers, WakeUps
from ledger.stores.redis.views import Views

T = TypeVar("T")

log = logging.getLogger(__name__)

PAUSE_SECONDS: Final = 0.25
"""The pause before a server is asked again that is not ready yet."""


class RedisStore(Hints, Feeds, Views, Stubs, Rewriting, Deployment):
    """A store over Redis servers, which several stores and processes may share."""

    def __init__(
        self,
        servers: Servers,
        *,
        partition_count: int | None = None,
        clock: Clock | None = None,
        revive: Revive | None = None,
        durability: Durability | None = None,
    ) -> None:
        super().__init__(servers, clock=clock, revive=revive, durability=durability)
        self._wanted_partitions = partition_count
        self._wake_ups: WakeUps | None = None

    async def start(self) -> None:
        self._keys = Keys(await when_ready(self._meet, others_take_over=self._servers.others_take_over))
        self._append_calls = AppendCalls(self._keys, self._clock, moved_by_a_test=self._test_clock is not None)
        self._wake_ups = self._servers.wake_ups(self._keys, self._revive)
        await self.now_ms()

    async def _meet(self) -> int:
        """Check the servers, and return the deployment's partition count; recorded where it is a new one."""
        for server in await self.everywhere():
            await check_server(partial(self.command_at, server), self._durability)
        found = await read_partitions(self.command, self._wanted_partitions)
        if found is None:
            await record_deployment(self.command, self._wanted_partitions)
            found = await read_partitions(self.command, self._wanted_partitions)
            assert found is not None, "it was just recorded"
        return found

    async def close(self) -> None:
        self._is_closed = True
        self._revive = None
        if self._wake_ups is not None:
            await self._wake_ups.close()
        await self._link.close()
        await self._sure_link.close()
        await self._servers.close()

    async def subscribe(self, partition: int, listener: Listener) -> None:
        assert self._wake_ups is not None, "start() comes first"
        self._wake_ups.listen(listener)
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await self._wake_ups.subscribe(partition)
        except TimeoutError:
            # A wake-up is a hint: without it the sweep finds the new entries, later.
            log.warning("cannot subscribe to the wake-ups of partition %s (is SSUBSCRIBE allowed?)", partition)


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

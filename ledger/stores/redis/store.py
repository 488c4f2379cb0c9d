"""A store on Redis or Valkey: one server, the primary that sentinels name, or a cluster."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from ledger.core.limits import GIVE_UP_SECONDS
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability
from ledger.stores.keys import Keys
from ledger.stores.port import Listener
from ledger.stores.redis.append_calls import AppendCalls
from ledger.stores.redis.deployment import Deployment, check_server, read_partitions, record_deployment
from ledger.stores.redis.feeds import Feeds
from ledger.stores.redis.freeze_flags import FreezeFlags
from ledger.stores.redis.hints import Hints
from ledger.stores.redis.rewrites import Rewriting
from ledger.stores.redis.sealing import Sealing
from ledger.stores.redis.servers import Revive, Servers, WakeUps
from ledger.stores.redis.startup import when_ready
from ledger.stores.redis.views import Views

log = logging.getLogger(__name__)


class RedisStore(FreezeFlags, Hints, Feeds, Views, Sealing, Rewriting, Deployment):
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

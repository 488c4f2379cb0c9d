"""Hints on a Redis or Valkey server: earliest deadlines and leases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ledger.core.events import Presence
from ledger.stores.port import NOTHING_DUE, Due, Place, Position, StreamKey
from ledger.stores.redis.link import Argument
from ledger.stores.redis.replies import clients_of, lease_of, leases_of, score_of
from ledger.stores.redis.script import Script
from ledger.stores.redis.stubs import Stubs

_CORRECT_DUE = Script.named("correct_due.lua")


class Hints(Stubs):
    """The sessions by earliest deadline, and the leases of clients and askers."""

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        limit: Argument = "+inf" if until_ms is None else until_ms
        keys = self.keys.all_due if partitions is None else map(self.keys.due, partitions)
        replies = await self.ask(
            [("ZRANGE", key, "-inf", limit, "BYSCORE", "LIMIT", 0, count, "WITHSCORES") for key in keys]
        )
        found = [
            (score_of(at), session.decode())
            for one in replies
            if one
            for session, at in zip(one[::2], one[1::2], strict=True)
        ]
        found.sort()
        return [(session, _ms_of(at)) for at, session in found[:count]]

    async def due_of(self, sessions: Sequence[str]) -> list[int | str | None]:
        keys = [self.keys.due(self.partition_of(StreamKey("session", one))) for one in sessions]
        scores = await self.ask([("ZSCORE", key, one) for key, one in zip(keys, sessions, strict=True)])
        return [NOTHING_DUE if score is None else _ms_of(score_of(score)) for score in scores]

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        key = StreamKey("session", session)
        keys = self.keys.of_append(key)
        new: Argument = ""
        if isinstance(to, Due):
            new = "inf" if to.ms is None else to.ms
        seen: Argument = "inf" if seen_ms is None else "" if seen_ms == NOTHING_DUE else seen_ms
        await self.evaluate_on(key, _CORRECT_DUE, (keys.due, keys.stream), (session, seen, new, str(at)))

    async def renew_lease(self, place: Place, client: Presence, lease_ms: int) -> None:
        key = self.keys.lease(place)
        member = lease_of(client)
        time, members = await self.ask((("TIME",), ("ZRANGE", key, 0, -1)))
        now_ms = self._observe_time(time)
        renamed = [one for one in leases_of(client.client_id, members) if one != member]
        await self.ask(
            (
                ("ZADD", key, now_ms + lease_ms, member),
                *((("ZREM", key, *renamed),) if renamed else ()),
                ("ZREMRANGEBYSCORE", key, "-inf", now_ms),
                # A key lives at least as long as its longest lease; GT alone has no effect on a key without a TTL.
                ("PEXPIRE", key, lease_ms * 2, "NX"),
                ("PEXPIRE", key, lease_ms * 2, "GT"),
            )
        )

    async def drop_lease(self, place: Place, client_id: str) -> None:
        key = self.keys.lease(place)
        gone = leases_of(client_id, await self.command("ZRANGE", key, 0, -1))
        if gone:
            await self.command("ZREM", key, *gone)

    async def leases(self, place: Place) -> tuple[Presence, ...]:
        return (await self.leases_of((place,)))[0]

    async def leases_of(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        since = f"({self._clock.now_ms()}"
        read = [("ZRANGE", self.keys.lease(place), since, "+inf", "BYSCORE") for place in places]
        return [clients_of(members) for members in await self.ask(read)]


def _ms_of(score: float) -> int | None:
    return None if score == math.inf else int(score)

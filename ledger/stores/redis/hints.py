"""Hints on a Redis or Valkey server: earliest deadlines and leases."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ledger.core.events import Presence
from ledger.stores.port import NOTHING_DUE, Due, Place, Position, StreamKey
from ledger.stores.redis.appends import Appends
from ledger.stores.redis.link import Argument
from ledger.stores.redis.replies import clients_of, lease_of, score_of
from ledger.stores.redis.script import Script

_CORRECT_DUE = Script.named("correct_due.lua")


class Hints(Appends):
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

    async def lease(self, place: Place, client: Presence, lease_ms: int, *, alone: bool = False) -> bool:
        sent: tuple[Argument, ...] = (client.client_id, lease_of(client), lease_ms, "1" if alone else "")
        script = self.append_calls.clocked("lease.lua")
        done, now_ms = await self.evaluate(
            script, (self.keys.lease(place),), (*sent, *self.append_calls.clock_arguments())
        )
        self._clock.observe(now_ms)
        return bool(done)

    async def leases(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        since = f"({self._clock.now_ms()}"
        read = [("ZRANGE", self.keys.lease(place), since, "+inf", "BYSCORE") for place in places]
        return [clients_of(members) for members in await self.ask(read)]


def _ms_of(score: float) -> int | None:
    return None if score == math.inf else int(score)

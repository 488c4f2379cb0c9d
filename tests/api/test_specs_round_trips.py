"""The round trips of one ask: the server's time is read when the event is written, never beforehand."""

from __future__ import annotations

from collections import Counter

from redis.asyncio import Redis

from ledger import Ledger
from tests.support.servers import RealServer


async def calls(onlooker: Redis) -> Counter[str]:
    """Return how often the server ran each command so far, those of scripts included."""
    stats = await onlooker.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): int(one["calls"]) for name, one in stats.items()})


async def test_the_time_is_asked_for_by_the_append_itself_and_by_nothing_before_it(
    server: RealServer, onlooker: Redis
) -> None:
    rules = [{"permission": "read", "pattern": "*", "action": "allow"}]
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=rules)
        await session.ask("read", ["a.txt"])
        before = await calls(onlooker)
        for number in range(10):
            await session.ask("read", [f"{number}.txt"])
        used = await calls(onlooker) - before
    assert (used["evalsha"], used["xadd"], used["time"]) == (10, 20, 10), used

"""Questions of a scrape, and of an overview of the deployment, to the server."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from ledger import Ledger
from projections import queries
from projections.lag import overview
from tests.support.backends import as_redis
from workers.gateway import request_search
from workers.gateway.request_search import FreshViews


async def commands_of(ledger: Ledger, work: Callable[[], Awaitable[object]]) -> int:
    """Return the number of commands that the server ran for some work."""
    before = await _commands(ledger)
    await work()
    return await _commands(ledger) - before


async def _commands(ledger: Ledger) -> int:
    info: bytes = await as_redis(ledger.store).command("INFO", "stats")
    (line,) = [one for one in info.decode().splitlines() if one.startswith("total_commands_processed:")]
    return int(line.partition(":")[2])


async def test_a_scrape_and_an_overview_cost_the_same_whatever_the_number_of_sessions(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_search, "LOOK_EVERY_SECONDS", 0.0)
    views, store = FreshViews(ledger), ledger.store

    async def scrape() -> queries.Totals:
        await views.of_everything()
        return await queries.totals(store)

    costs = []
    for count in (3, 60):
        for number in range(count):
            await (await ledger.session(f"ses_{count}_{number}")).submit("bash", ["ls"])
        assert (await scrape()).pending == (3 if count == 3 else 63)
        await scrape()  # It sees that the views are up to date, and looks at these lines no more.
        costs.append((await commands_of(ledger, scrape), await commands_of(ledger, lambda: queries.totals(store))))
        assert (await overview(store)).behind == {}
    assert costs[0] == costs[1]
    assert costs[0][1] <= store.partition_count + 1, "one command a partition, and the one that counts them"

"""Sealing by the memory of the server: it ends where the server uses less."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis

from ledger import InputError, Ledger
from ledger.stores.port import StreamKey
from tests.support.servers import RealServer
from workers.upkeep.archiving import MEASURED_COUNT, parse_size, used_bytes, while_above

BALLAST_BYTES = 20_000_000


async def keys(count: int) -> AsyncIterator[StreamKey]:
    for number in range(count):
        yield StreamKey("session", f"ses_{number}")


async def test_sessions_are_taken_until_the_server_uses_no_more_than_that(server: RealServer) -> None:
    with redis.Redis.from_url(server.url) as client:
        async with Ledger.connect(server.url, entry_points=False) as ledger:
            bound = await used_bytes(ledger) + BALLAST_BYTES // 2
            assert [key async for key in while_above(ledger, keys(3), bound)] == []
            client.setrange("ballast", BALLAST_BYTES, "x")  # made on the server, so that no buffer of a client holds it
            taken = 0
            async for _ in while_above(ledger, keys(3 * MEASURED_COUNT), bound):
                taken += 1
                if taken == MEASURED_COUNT:
                    client.delete("ballast")
            assert taken == MEASURED_COUNT


@pytest.mark.parametrize(("text", "size"), [("5", 5), ("512MB", 512_000_000), ("2gb", 2 * 10**9), ("1kB", 1000)])
def test_a_size_has_a_unit_or_none(text: str, size: int) -> None:
    assert parse_size(text, "size") == size


@pytest.mark.parametrize("text", ["", "0", "-1", "2 GB", "2GiB", "1.5GB", "²MB"])
def test_another_text_is_no_size(text: str) -> None:
    with pytest.raises(InputError, match="512MB"):
        parse_size(text, "size")

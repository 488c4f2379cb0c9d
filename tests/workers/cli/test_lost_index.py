"""The index of deadlines is lost: commands say so, `rebuild` and the expiry worker make it anew, and requests end in time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import redis

from ledger import Ledger, Timeouts
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.support.waiting import wait_until
from tests.workers.cli.filling import fill, names

SES = "ses_2"
"""The session of `fill` in which a request waits."""


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def lose_index(client: redis.Redis) -> None:
    assert client.delete(*names(client, "*}:due"))


def lose_views(client: redis.Redis) -> None:
    client.delete(*names(client, "*:view:*"))


def index_of(client: redis.Redis) -> dict[bytes, float]:
    found: dict[bytes, float] = {}
    for key in names(client, "*}:due"):
        members: Any = client.zrange(key, 0, -1, withscores=True)
        found.update(members)
    return found


def finding(ledger: CommandLine, check: str, code: int) -> dict[str, Any]:
    return next(row for row in ledger("doctor", "--json", code=code).rows if row["check"] == check)


def types_of(ledger: CommandLine, session: str) -> list[str]:
    return [row["type"] for row in ledger("log", session, "--json", code=0).rows]


def test_a_rebuild_alone_brings_the_index_back(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    before = index_of(client)
    lose_index(client)
    assert [row["session"] for row in ledger("pending", "--json", code=0).rows] == [SES]
    assert finding(ledger, "deadlines", code=11)["text"].endswith(f"lacks their sessions: {SES}")
    (row,) = ledger("rebuild", "--verify", "--json", code=11).rows
    assert (row["view"], row["key"], row["difference"]["live"]) == ("due", SES, None)
    assert row["difference"]["rebuilt"] == int(before[SES.encode()])
    ledger("rebuild", code=0)
    assert index_of(client) == before
    assert finding(ledger, "deadlines", code=0)["ok"]
    ledger("rebuild", "--verify", code=0)


@pytest.mark.parametrize("score", ["inf", 10**14])
def test_an_entry_that_is_too_late_is_named_and_made_right(
    ledger: CommandLine, client: redis.Redis, score: str | int
) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    before = index_of(client)
    (key,) = names(client, "*}:due")
    client.zadd(key, {SES: score})
    assert SES in finding(ledger, "deadlines", code=11)["text"]
    ledger("rebuild", code=0)
    assert index_of(client) == before


@pytest.mark.parametrize("deep", [(), ("--deep",)], ids=["sample", "deep"])
def test_the_loss_is_named_without_any_view(ledger: CommandLine, client: redis.Redis, deep: tuple[str, ...]) -> None:
    fill(ledger)
    lose_index(client)
    rows = ledger("doctor", *deep, "--json", code=11).rows
    assert [row["check"] for row in rows if not row["ok"]] == ["deadlines"]


async def _ask_briefly(url: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        session = await ledger.session("ses_brief", timeouts=Timeouts(attended=0.5, unattended=0.5))
        await session.submit("bash", ["make"], request_id="r")


@pytest.mark.slow
def test_an_expiry_worker_ends_what_waits_although_the_index_was_lost(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    before = index_of(client)
    asyncio.run(_ask_briefly(ledger.url))
    with ledger.started("worker", "projector"):
        wait_until(lambda: "ses_brief" in str(client.keys("*:view:*:checkpoints")) or _is_viewed(client), "the views")
    lose_index(client)
    with ledger.started("worker", "expiry"):
        wait_until(lambda: "expired" in types_of(ledger, "ses_brief"), "the expiry")
        wait_until(lambda: index_of(client) == before, "the entry of what waits for longer")
    assert finding(ledger, "deadlines", code=0)["ok"]


def _is_viewed(client: redis.Redis) -> bool:
    return any(client.zcard(key) for key in names(client, "*:view:*:waiting")) and all(
        any(client.hexists(key, f"session:{one}") for key in names(client, "*:view:*:checkpoints"))
        for one in ("ses_brief", SES)
    )


@pytest.mark.slow
def test_nothing_pending_is_not_said_where_the_views_are_lost_too(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    with ledger.started("worker", "projector"):
        wait_until(lambda: ledger("rebuild", "--verify", code=0).err.endswith("none differ\n"), "the views")
        wait_until(lambda: client.keys("*:view:*:census"), "the census")
        wait_until(lambda: _counted(client), "all to be counted")
    lose_index(client)
    lose_views(client)
    ran = ledger("pending", code=0)
    assert "the views are not complete" in ran.err
    assert "the views are not complete" in ledger("pending", "--json", code=0).err
    assert "the views are not complete" in ledger("reply", "once", "--yes", code=9).err
    assert finding(ledger, "projector", code=11)["text"] == "the views are gone, although a projector has made them"
    with ledger.started("worker", "projector"):
        wait_until(lambda: ledger("pending", "--json", code=0).rows, "the views")
    ledger("rebuild", code=0)
    assert SES.encode() in index_of(client)
    assert finding(ledger, "projector", code=0)["ok"]


def _counted(client: redis.Redis) -> bool:
    censuses: list[Any] = [client.hgetall(key) for key in names(client, "*:view:*:census")]
    return all(one.get(b"\nbegun") == one.get(b"\ndone") for one in censuses)

"""Processes that start while a server is unavailable wait for it; other failures are reported at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest
import redis

from ledger import Durability, Ledger, SetupError, StoreError
from ledger.stores.redis import store as startup
from ledger.stores.redis.store import check_server, when_ready
from tests.support.clusters import Node, in_step, pair
from tests.support.waiting import wait_until, wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import StartServer

__all__ = ["pair"]

ALLOW: Final = {"permission": {"bash": "allow"}}

SLOW_LOADING: Final = {"key-load-delay": "100"}
"""Microseconds a command that is read from the file: a test is to meet a server that is reading."""

COMMANDS_COUNT: Final = 8 * 1024
"""While it reads, a server looks up after every 1024 commands."""


def is_loading(url: str) -> bool:
    with redis.Redis.from_url(url, protocol=2) as client:
        try:
            return bool(client.info("persistence")["loading"])
        except redis.ConnectionError:
            return False


@pytest.mark.slow
async def test_a_ledger_is_opened_on_a_server_that_is_still_loading(start_server: StartServer) -> None:
    server = start_server(options={"appendonly": "yes"})
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        await (await ledger.session("ses_1", rules=ALLOW)).ask("bash", ["make"])
    with redis.Redis.from_url(server.url) as client, client.pipeline() as filling:
        for number in range(COMMANDS_COUNT):
            filling.set(f"other-{number}", "x")
        filling.execute()
    server.stop()
    server.options.update(SLOW_LOADING)
    restart = asyncio.create_task(asyncio.to_thread(server.start))
    await wait_until_async(lambda: asyncio.to_thread(is_loading, server.url), "the server to be loading")
    async with Ledger.connect(server.url, entry_points=False) as ledger:
        assert not is_loading(server.url)
        assert [session async for session in ledger.sessions()] == ["ses_1"]
    await restart


async def test_a_server_that_is_still_loading_is_waited_for_and_not_taken_at_its_word(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(startup, "PAUSE_SECONDS", 0.01)
    states = iter([b"loading:1\r\naof_enabled:0\r\n", b"loading:1\r\n", b"loading:0\r\naof_enabled:1\r\n"])
    said: dict[str, bytes] = {}

    async def run(*command: bytes | str | float) -> bytes:
        if command[1] == "server":
            said.update(server=b"redis_version:8.0.0\r\n", persistence=next(states))
        return said.get(str(command[1]), b"")

    async def meet() -> int:
        await check_server(run, Durability(wait_aof=True))
        return 1

    assert await when_ready(meet, others_take_over=False) == 1
    assert next(states, None) is None


async def test_who_can_wait_does_so_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "GIVE_UP_SECONDS", 0.05)
    monkeypatch.setattr(startup, "PAUSE_SECONDS", 0.01)
    tries = []

    async def meet() -> int:
        tries.append(1)
        raise StoreError("gone")

    with pytest.raises(StoreError, match="gone"):
        await when_ready(meet, others_take_over=True)
    assert len(tries) > 1
    tries.clear()
    with pytest.raises(StoreError, match="gone"):
        await when_ready(meet, others_take_over=False)
    assert len(tries) == 1


async def test_a_server_that_cannot_hold_a_ledger_is_refused_at_once() -> None:
    tries = []

    async def meet() -> int:
        tries.append(1)
        raise SetupError("too old")

    with pytest.raises(SetupError, match="too old"):
        await when_ready(meet, others_take_over=True)
    assert len(tries) == 1


@pytest.mark.slow
async def test_a_primary_without_the_replicas_it_demands_takes_nothing_and_can_be_read(pair: tuple[Node, Node]) -> None:
    primary, replica = pair
    url = f"redis://{primary.address}"
    primary.run("CONFIG", "SET", "min-replicas-max-lag", "1")
    async with Ledger.connect(url, entry_points=False) as ledger:
        session = await ledger.session("ses_1", rules=ALLOW)
        await session.ask("bash", ["make"], request_id="before")
        replica.kill9()
        wait_until(lambda: primary.info()["connected_slaves"] == "0", "the replica to be missed")
        primary.run("CONFIG", "SET", "min-replicas-to-write", "1")
        with pytest.raises(SetupError, match="the server has fewer replicas than min-replicas-to-write demands"):
            await session.ask("bash", ["make"], request_id="refused")
        async with Ledger.connect(url, entry_points=False) as other:
            events = [event.type async for event in (await other.attach("ses_1")).events(follow_on=False)]
        assert events == ["session_opened", "asked"]
        replica.restart()
        await wait_until_async(lambda: asyncio.to_thread(in_step, primary, replica), "the replica to be in step")
        assert (await session.ask("bash", ["make"], request_id="refused")).outcome == "allowed"

"""A deployment of an older version: upgraded once, by no process while an older one is connected."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
import redis

from ledger.core.errors import SetupError
from ledger.stores.redis.older_processes import CLIENT_NAME
from ledger.stores.redis.store import RedisStore
from tests.stores.test_setup_checks import refusal, started, with_password
from tests.support.servers import RealServer

if TYPE_CHECKING:
    from tests.support.servers import StartServer

OLDER_NAME = "permission-ledger"


@pytest.fixture
def server(start_server: StartServer) -> RealServer:
    return start_server()


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def older_process(server: RealServer) -> redis.Redis:
    """Connect as the processes of versions up to 0.2.0 do."""
    older = redis.Redis.from_url(server.url, client_name=OLDER_NAME)
    older.ping()
    return older


def written_by_older(client: redis.Redis, partitions: int = 12) -> None:
    """Make the record of a deployment that such a process makes."""
    client.hsetnx("pl:config", "partitions", partitions)


def record(client: redis.Redis) -> dict[Any, Any]:
    found: dict[Any, Any] = client.hgetall("pl:config")
    return found


async def test_connections_bear_the_name_of_this_version(server: RealServer, client: redis.Redis) -> None:
    async with started(server.url):
        assert CLIENT_NAME in [one["name"] for one in client.client_list()]


async def test_a_deployment_of_an_older_version_keeps_its_partitions_and_is_upgraded_once(
    server: RealServer, client: redis.Redis
) -> None:
    written_by_older(client)
    async with started(server.url) as first:
        assert first.partition_count == 12
        once = record(client)
        assert once[b"schema"] == b"2"
        assert int(once[b"upgraded_ms"]) == first.upgraded_ms
    async with started(server.url, 12) as second:
        assert (second.partition_count, second.upgraded_ms) == (12, first.upgraded_ms)
    assert record(client) == once


async def test_a_process_does_not_start_beside_an_older_one_and_changes_nothing(
    server: RealServer, client: redis.Redis
) -> None:
    written_by_older(client)
    older = older_process(server)
    error = await refusal(server.url)
    assert isinstance(error, SetupError)
    (found,) = [one for one in client.client_list() if one["name"] == OLDER_NAME]
    assert error.text == (
        f"an older version of permission-ledger is connected to this server (client {found['id']} at {found['addr']}), "
        "and the two cannot run side by side: end its processes (agents, workers, gateways), then start this one again"
    )
    assert error.data["hint"] == "docs/guides/upgrade.md describes the upgrade"
    assert record(client) == {b"partitions": b"12"}
    older.close()
    async with started(server.url) as store:
        assert store.partition_count == 12


async def test_an_older_process_that_came_after_the_upgrade_keeps_others_from_starting(
    server: RealServer, client: redis.Redis
) -> None:
    async with started(server.url):
        older = [older_process(server) for _ in range(7)]
        error = await refusal(server.url)
        assert " and 2 more), and the two cannot run side by side" in error.text
        assert len(error.data["clients"]) == 7
        for one in older:
            one.close()


async def test_an_older_program_that_starts_later_shows_why_it_cannot(server: RealServer, client: redis.Redis) -> None:
    """It reads the number of partitions as an integer, before it does anything else."""
    written_by_older(client)
    async with started(server.url):
        pass
    with pytest.raises(ValueError, match="this ledger was upgraded to schema 2, upgrade this permission-ledger"):
        int(client.hget("pl:config", "partitions"))  # type: ignore[arg-type]


async def test_a_new_deployment_is_not_one_for_older_programs_either(server: RealServer, client: redis.Redis) -> None:
    async with started(server.url, 3):
        pass
    with pytest.raises(ValueError, match="b'3: this ledger was upgraded to schema 2"):
        int(client.hget("pl:config", "partitions"))  # type: ignore[arg-type]


async def test_an_upgrade_that_broke_off_is_completed(server: RealServer, client: redis.Redis) -> None:
    async with started(server.url, 3) as store:
        client.hdel("pl:config", "schema")
        async with started(server.url) as second:
            assert (second.partition_count, second.upgraded_ms) == (3, store.upgraded_ms)
    assert record(client)[b"schema"] == b"2"


async def test_a_deployment_of_a_newer_version_is_refused(server: RealServer, client: redis.Redis) -> None:
    async with started(server.url):
        client.hset("pl:config", "schema", 3)
    error = await refusal(server.url)
    assert (type(error), error.text) == (
        SetupError,
        "this ledger was upgraded to schema 3; upgrade this permission-ledger to use it",
    )


@pytest.fixture
def blind_url(server: RealServer, client: redis.Redis) -> str:
    """The URL of a user that may not list clients."""
    client.execute_command("ACL", "SETUSER", "blind", "on", ">pass", "~*", "&*", "+@all", "-client|list")  # type: ignore[no-untyped-call]
    return with_password(server, "pass", "blind")


async def test_who_may_not_look_for_older_processes_upgrades_nothing(blind_url: str, client: redis.Redis) -> None:
    written_by_older(client)
    error = await refusal(blind_url)
    assert isinstance(error, SetupError)
    assert "give this user the right `+client|list`" in error.text
    assert record(client) == {b"partitions": b"12"}


async def test_who_may_not_look_runs_on_a_deployment_that_is_upgraded(
    blind_url: str, server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    async with started(server.url):
        pass
    with caplog.at_level(logging.ERROR, "ledger"):
        async with started(blind_url) as store:
            assert isinstance(store, RedisStore)
    assert caplog.text == ""

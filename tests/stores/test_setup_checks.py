"""Servers that cannot hold a ledger: refused at the start, with the remedy."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import redis

from ledger.core.errors import InDoubtError, LedgerError, SetupError, StoreError
from ledger.core.limits import PARTITION_COUNT_DEFAULT, PARTITION_COUNT_MAX
from ledger.stores.embedded.folder import socket_url
from ledger.stores.port import START, Append, Appended, AppendResult, Position
from ledger.stores.redis import commands
from ledger.stores.redis.store import RedisStore, refusals, warnings
from ledger.stores.store import append_to
from ledger.stores.urls import open_store
from tests.support.backends import Operator, answer_to, append_of, as_redis, log_of, written
from tests.support.servers import RealServer
from tests.support.tally import Tally, add, tally

if TYPE_CHECKING:
    from tests.support.servers import StartServer

SECRET = "s3cret/with@signs"
SECRET_IN_URL = "s3cret%2Fwith%40signs"


@asynccontextmanager
async def started(url: str, partition_count: int | None = None) -> AsyncIterator[RedisStore]:
    store = as_redis(open_store(url, partition_count=partition_count))
    try:
        await store.start()
        yield store
    finally:
        await store.close()


async def refusal(url: str, partition_count: int | None = None) -> LedgerError:
    """Return the error that refuses to start on this URL."""
    with pytest.raises(LedgerError) as caught:
        async with started(url, partition_count):
            pass
    return caught.value


# --- partitions -------------------------------------------------------------------------------------------------------


async def test_the_first_process_fixes_the_partition_count_for_all(server: RealServer) -> None:
    async with started(server.url, 12) as first, started(server.url) as second, started(server.url, 12) as third:
        assert [store.partition_count for store in (first, second, third)] == [12, 12, 12]


async def test_without_a_wish_a_new_deployment_has_the_usual_number_of_partitions(server: RealServer) -> None:
    async with started(server.url) as store:
        assert store.partition_count == PARTITION_COUNT_DEFAULT


async def test_another_partition_count_is_refused_and_changes_nothing(server: RealServer) -> None:
    async with started(server.url, 12):
        pass
    error = await refusal(server.url, 16)
    assert (type(error), error.code) == (SetupError, "SETUP")
    assert error.text == (
        "this ledger was created with 12 partitions, not 16; the number is fixed for good "
        "(export, create a new one, import)"
    )
    async with started(server.url) as store:
        assert store.partition_count == 12


@pytest.mark.parametrize("count", [0, -1, PARTITION_COUNT_MAX + 1])
async def test_an_impossible_partition_count_is_refused_and_not_fixed(server: RealServer, count: int) -> None:
    assert f"choose 1 to {PARTITION_COUNT_MAX}" in (await refusal(server.url, count)).text
    async with started(server.url, 3) as store:
        assert store.partition_count == 3


async def test_many_processes_that_start_at_once_agree(server: RealServer) -> None:
    stores = [as_redis(open_store(server.url, partition_count=count)) for count in range(1, 9)]
    outcomes = await asyncio.gather(*(store.start() for store in stores), return_exceptions=True)
    assert [type(one) for one in outcomes if one is not None] == [SetupError] * 7
    for store in stores:
        await store.close()


# --- what kind of server ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
async def test_a_server_that_evicts_any_key_is_refused(start_server: StartServer, policy: str) -> None:
    server = start_server(options={"maxmemory-policy": policy})
    error = await refusal(server.url)
    assert isinstance(error, SetupError)
    assert f"maxmemory-policy {policy}" in error.text
    assert "set maxmemory-policy noeviction" in error.text


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ({"redis_version": "6.2.14"}, "redis 6.2.14 is too old; redis 7.0 or newer is needed"),
        ({"redis_version": "5.0"}, "redis 5.0 is too old; redis 7.0 or newer is needed"),
        ({}, "redis 0 is too old; redis 7.0 or newer is needed"),
        (
            {"redis_version": "7.2.4", "valkey_version": "7.1.9"},
            "valkey 7.1.9 is too old; valkey 7.2 or newer is needed",
        ),
    ],
)
def test_an_old_server_is_refused_by_name_and_version(facts: dict[str, str], text: str) -> None:
    assert refusals(facts) == [text]


@pytest.mark.parametrize(
    "facts",
    [
        {"redis_version": "7.0.0"},
        {"redis_version": "8.2.3", "maxmemory_policy": "noeviction"},
        {"redis_version": "10.0.1"},
        {"redis_version": "7.2.4", "valkey_version": "7.2.5", "maxmemory_policy": "volatile-lru"},
        {"redis_version": "7.2.4", "valkey_version": "9.1.2"},
    ],
)
def test_a_server_that_is_new_enough_is_taken(facts: dict[str, str]) -> None:
    assert refusals(facts) == []


@pytest.mark.parametrize(
    ("facts", "word"),
    [
        ({"aof_enabled": "0"}, "appendfsync always"),
        ({"aof_last_write_status": "err"}, "look at its disk"),
        ({"maxmemory_policy": "volatile-lru"}, "maxmemory-policy is volatile-lru"),
    ],
)
def test_what_is_only_risky_is_a_warning(facts: dict[str, str], word: str) -> None:
    (warning,) = warnings(facts)
    assert word in warning


async def test_a_server_that_keeps_nothing_is_warned_of_when_a_store_starts(
    server: RealServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "ledger"):
        async with started(server.url):
            pass
    assert "a crash loses what came after the last snapshot" in caplog.text


async def test_a_read_only_replica_is_refused(start_server: StartServer) -> None:
    primary = start_server("primary")
    async with started(primary.url):
        pass
    # The replica need not be in step to be refused, so it may look for its primary in vain.
    replica = start_server("replica", options={"replicaof": "127.0.0.1 1"})
    error = await refusal(replica.url)
    assert isinstance(error, SetupError)
    assert "this server is a read-only replica; give the URL of the primary" in error.text


async def test_a_primary_that_became_a_replica_takes_no_more_appends(start_server: StartServer) -> None:
    server = start_server()
    async with started(server.url) as store:
        head = await written(store, b"a")
        await store.command("REPLICAOF", "127.0.0.1", 1)
        with pytest.raises(SetupError, match="read-only replica"):
            await append_to(store, append_of(b"b", after=head))
        assert [entry.payload for entry in await log_of(store)] == [b"a"]


# --- who may ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def guarded(start_server: StartServer) -> RealServer:
    server = start_server("guarded")
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", SECRET)
    return server


def with_password(server: RealServer, password: str, user: str = "") -> str:
    return server.url.replace("unix://", f"unix://{user}:{password}@")


async def test_the_right_password_is_taken(guarded: RealServer) -> None:
    async with started(with_password(guarded, SECRET_IN_URL)) as store:
        assert isinstance(await answer_to(store, append_of(b"a")), Appended)


async def test_no_password_is_answered_with_what_to_do(guarded: RealServer) -> None:
    error = await refusal(guarded.url)
    assert isinstance(error, SetupError)
    assert "the server wants a password; put it into the URL" in error.text


@pytest.mark.parametrize("user", ["", "somebody"])
async def test_a_wrong_password_is_refused_and_not_told(guarded: RealServer, user: str) -> None:
    error = await refusal(with_password(guarded, "wr0ng-one", user))
    assert isinstance(error, SetupError)
    assert "the server does not take this user name or password" in error.text
    assert "wr0ng-one" not in f"{error} {error.as_json()}"


async def test_a_user_that_may_not_run_scripts_is_told_so(server: RealServer, admin: Operator) -> None:
    await admin.run("ACL", "SETUSER", "reader", "on", ">pass", "~*", "&*", "+@all", "-evalsha", "-eval")
    try:
        async with started(with_password(server, "pass", "reader")) as store:
            with pytest.raises(SetupError, match="does not let this user run what the ledger needs"):
                await append_to(store, append_of(b"a"))
    finally:
        await admin.run("ACL", "DELUSER", "reader")


async def attempt(store: RedisStore, append: Append) -> AppendResult | LedgerError:
    try:
        return await answer_to(store, append)
    except LedgerError as error:
        return error


# --- servers that run full, hang, or are none -------------------------------------------------------------------------


async def test_a_server_without_memory_refuses_and_keeps_all_it_took(start_server: StartServer) -> None:
    server = start_server()
    async with started(server.url) as store:
        used = next(
            int(line.partition(b":")[2])
            for line in (await store.command("INFO", "memory")).splitlines()
            if line.startswith(b"used_memory:")
        )
        await store.command("CONFIG", "SET", "maxmemory", used + 1_000_000)
        head, payload = START, b"x" * 100_000

        while isinstance(outcome := await attempt(store, append_of(payload, after=head)), Appended):
            head = Position(outcome.ms, head.version + 1)
        assert isinstance(outcome, SetupError)
        assert "raise maxmemory (nothing that was accepted is lost)" in outcome.text
        assert head.version > 0
        assert [entry.version for entry in await log_of(store)] == list(range(1, head.version + 1))
        await store.command("CONFIG", "SET", "maxmemory", 0)
        assert isinstance(await answer_to(store, append_of(payload, after=head)), Appended)


async def test_a_stream_goes_on_after_the_server_had_no_memory(start_server: StartServer) -> None:
    server = start_server()
    async with started(server.url) as store:
        stream = tally(store)
        await stream.submit(add("a"))
        await store.command("CONFIG", "SET", "maxmemory", 1)
        for _ in range(2):
            with pytest.raises(SetupError, match="no memory left"):
                await stream.submit(add("b"))
        assert await stream.refresh() == Tally(("a",), version=1)
        await store.command("CONFIG", "SET", "maxmemory", 0)
        assert (await stream.submit(add("c"))).state == Tally(("a", "c"), version=2)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commands, "GIVE_UP_SECONDS", 0.4)
    monkeypatch.setattr(commands, "ANSWER_SECONDS", 0.1)


async def test_nobody_at_the_address_is_said_so(impatient: None, tmp_path: Path) -> None:
    error = await refusal(socket_url(tmp_path / "nothing.sock"))
    assert (type(error), error.code) == (StoreError, "UNREACHABLE")
    assert "cannot be reached" in error.text
    assert "is it running, and is --url right?" in error.text


@asynccontextmanager
async def listener(answer: bytes) -> AsyncIterator[str]:
    """A listener that is no ledger's server, and sends this to every client."""
    writers: list[asyncio.StreamWriter] = []

    def come(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(answer)

    server = await asyncio.start_server(come, "127.0.0.1", 0)
    yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()
    for writer in writers:
        writer.close()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.9\r\n"])
async def test_a_server_of_another_kind_is_unreachable(impatient: None, answer: bytes) -> None:
    async with listener(answer) as url:
        error = await refusal(url)
    assert (type(error), error.code) == (StoreError, "UNREACHABLE")


async def test_a_server_that_takes_connections_and_says_nothing_is_given_up(impatient: None) -> None:
    async with listener(b"") as url:
        error = await asyncio.wait_for(refusal(url), 60)
    assert (type(error), error.code) == (StoreError, "UNREACHABLE")


async def test_a_server_that_hangs_leaves_an_append_in_doubt_and_comes_back(
    impatient: None, start_server: StartServer
) -> None:
    server = start_server()
    async with started(server.url) as store:
        stream = tally(store)
        await stream.submit(add("a"))
        os.kill(server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(InDoubtError):
                await asyncio.wait_for(stream.submit(add("b")), 60)
            with pytest.raises(StoreError):
                await asyncio.wait_for(stream.refresh(), 60)
        finally:
            os.kill(server.pid, signal.SIGCONT)
        names = (await stream.submit(add("c"))).state.names
        # The server may or may not have received "b" before it resumed.
        assert names in {("a", "b", "c"), ("a", "c")}
        assert await tally(store).refresh() == stream.state

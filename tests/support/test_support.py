"""Tests of the helpers that the other tests use."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import redis

from tests.support.waiting import wait_until, wait_until_async

if TYPE_CHECKING:
    from tests.support.servers import RealServer, StartServer


def test_waiting_returns_what_the_predicate_saw() -> None:
    answers = iter(["", "", "there"])
    assert wait_until(lambda: next(answers), "an answer") == "there"


def test_waiting_too_long_says_for_what_and_what_was_seen() -> None:
    with pytest.raises(AssertionError, match=re.escape("waited 0.01 s for a full list; last seen: []")):
        wait_until(list, "a full list", timeout_s=0.01)


async def _nothing() -> int:
    return 0


async def test_waiting_in_a_loop_takes_functions_and_coroutine_functions() -> None:
    assert await wait_until_async(lambda: 7, "seven") == 7
    with pytest.raises(AssertionError, match=re.escape("waited 0.01 s for something; last seen: 0")):
        await wait_until_async(_nothing, "something", timeout_s=0.01)


def test_a_killed_server_comes_back_with_what_it_acknowledged(start_server: StartServer) -> None:
    server = start_server()
    with redis.Redis.from_url(server.url) as client:
        client.set("key", "value")
        server.kill9()
        server.start()
        assert client.get("key") == b"value"
        server.restart()
        assert client.get("key") == b"value"


def test_options_of_a_test_win_over_the_usual_ones(start_server: StartServer) -> None:
    server = start_server(options={"maxmemory-policy": "allkeys-lru"})
    with redis.Redis.from_url(server.url) as client:
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "allkeys-lru"}


def test_the_shared_server_answers(shared_server: RealServer) -> None:
    with redis.Redis.from_url(shared_server.url) as client:
        assert client.ping() is True

"""Answers read straight from a connection that redis-py has made.

Once connected, the transport is given a protocol of ours, with a hiredis reader of its own: a third of the cost of an
answer through redis-py's `read_response`, and no turn of the loop between the bytes and who waits for them. The stream
to write to is a private attribute of redis-py's connection; where it is missing, there is only the plain way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import InvalidResponse, RedisError, ResponseError


class Answers(asyncio.Protocol):
    """Parses what comes in, and hands on each answer; `lost` is called once, with why there will be no more."""

    def __init__(self, take: Callable[[Any], None], lost: Callable[[BaseException], None]) -> None:
        self._parser = hiredis.Reader(protocolError=InvalidResponse, replyError=BaseParser.parse_error)
        self._take = take
        self._lost: Callable[[BaseException], None] | None = lost

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
            while self._lost is not None and (reply := self._parser.gets()) is not False:
                if isinstance(reply, RedisError) and not isinstance(reply, ResponseError):
                    raise reply  # the server wants no commands now (it is loading, or wants a password)
                self._take(reply)
        except (RedisError, IndexError) as error:
            self._end(error)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(exc or OSError("closed by the server"))

    def _end(self, error: BaseException) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(error)


def writer_of(connection: AbstractConnection) -> asyncio.StreamWriter | None:
    """What to write to a connection with, and whose transport can be taken over; None where there is only the plain way."""
    writer = getattr(connection, "_writer", None)
    return writer if isinstance(writer, asyncio.StreamWriter) else None

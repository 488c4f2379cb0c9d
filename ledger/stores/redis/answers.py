"""Replies read directly from a connection that redis-py has opened.

Once connected, the transport gets a protocol of ours with its own hiredis reader. A reply costs a third of redis-py's
`read_response`, without an event-loop turn between the bytes and the waiter. The writer is a private attribute of
redis-py's connection; where it is missing, the public methods are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import InvalidResponse, RedisError, ResponseError


class ReplyReader(asyncio.Protocol):
    """A protocol that parses replies and delivers each; `lost` is called once, with the reason, at the end."""

    def __init__(self, take: Callable[[Any], None], lost: Callable[[BaseException], None]) -> None:
        self._parser = hiredis.Reader(protocolError=InvalidResponse, replyError=BaseParser.parse_error)
        self._take = take
        self._lost: Callable[[BaseException], None] | None = lost

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
            while self._lost is not None and (reply := self._parser.gets()) is not False:
                if isinstance(reply, RedisError) and not isinstance(reply, ResponseError):
                    raise reply  # the server accepts no commands now (it is loading, or requires a password)
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
    """Return the writer whose transport can be taken over; None where only the public methods can be used."""
    writer = getattr(connection, "_writer", None)
    return writer if isinstance(writer, asyncio.StreamWriter) else None

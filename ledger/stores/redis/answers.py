"""Replies read directly from a connection that redis-py has opened.

Once connected, the transport gets a protocol of ours with its own hiredis reader. A reply costs a third of redis-py's
`read_response`, without an event-loop turn between the bytes and the waiter. The writer is a private attribute of
redis-py's connection; where it is missing, the public methods are used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import repeat
from typing import Any, Final

import hiredis
from redis._parsers.base import BaseParser
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import InvalidResponse, RedisError, ResponseError

_MORE: Final = object()
"""The parser's word for an unfinished reply."""


class ReplyReader(asyncio.Protocol):
    """A protocol that parses replies and delivers those of a read together.

    `lost` is called once, with the reason, at the end.
    """

    def __init__(self, take: Callable[[list[Any]], None], lost: Callable[[BaseException], None]) -> None:
        self._parser = hiredis.Reader(
            protocolError=InvalidResponse, replyError=BaseParser.parse_error, notEnoughData=_MORE
        )
        self._take = take
        self._lost: Callable[[BaseException], None] | None = lost

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed(data)
            replies = list(iter(self._parser.gets, _MORE))
            if any(map(isinstance, replies, repeat(RedisError))):
                replies = self._until_sent_away(replies)
            if replies and self._lost is not None:
                self._take(replies)
        except (RedisError, IndexError) as error:
            self._end(error)

    def _until_sent_away(self, replies: list[Any]) -> list[Any]:
        """Deliver what precedes an error by which the server accepts no commands (it is loading), and raise that."""
        for at, reply in enumerate(replies):
            if isinstance(reply, RedisError) and not isinstance(reply, ResponseError):
                self._take(replies[:at])
                raise reply
        return replies

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

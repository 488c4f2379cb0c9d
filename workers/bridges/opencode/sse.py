"""Server-sent events of OpenCode: `data:` lines of JSON, without names and ids."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any, Final

from workers.transport.wire import HttpConnection, ResponseHead

MESSAGE_BYTES_MAX: Final = 16 * 1024 * 1024
"""The largest event; OpenCode sends whole diffs and outputs in them."""


async def messages(connection: HttpConnection, head: ResponseHead, silence: float) -> AsyncGenerator[Mapping[str, Any]]:
    """Yield the events that are JSON objects. Raises TimeoutError after `silence` seconds without a byte."""
    data: list[bytes] = []
    async for line in _lines(connection, head, silence):
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line and data:
            found = _object(b"\n".join(data))
            data = []
            if found is not None:
                yield found


def _object(content: bytes) -> Mapping[str, Any] | None:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def _lines(connection: HttpConnection, head: ResponseHead, silence: float) -> AsyncGenerator[bytes]:
    pieces = connection.pieces(head)
    rest: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(silence):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        *lines, last = piece.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line]).rstrip(b"\r")
            rest, size = [], 0
        if last:
            rest.append(last)
            size += len(last)
            if size > MESSAGE_BYTES_MAX:
                raise ConnectionError(f"an event of opencode takes more than {MESSAGE_BYTES_MAX} bytes")

"""Server-sent events of an HTTP answer (WHATWG HTML, section 9.2), with JSON objects as data."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any, Final, NamedTuple

EVENT_BYTES_MAX: Final = 16 * 1024 * 1024
"""Limit of one event. OpenCode sends whole diffs and outputs."""

SILENCE_SECONDS: Final = 60.0
"""Time without a byte after which a connection counts as lost: every server writes something each quarter of a minute."""


class ServerSentEvent(NamedTuple):
    """One event: its id, its name and its data."""

    id: str | None
    event: str
    data: dict[str, Any]


async def server_sent_events(pieces: AsyncIterator[bytes]) -> AsyncGenerator[ServerSentEvent]:
    """Yield the events of an answer, whose body comes in pieces; data that are no JSON object are skipped.

    Raises TimeoutError after `SILENCE_SECONDS` without a byte, and ConnectionError for an event of more than
    `EVENT_BYTES_MAX` bytes.
    """
    fields: dict[str, list[str]] = {}
    size = 0
    async for line in _lines(pieces):
        size += len(line)
        if size > EVENT_BYTES_MAX:
            raise _too_large()
        if line:
            name, _, value = line.decode("utf-8", "replace").partition(":")
            fields.setdefault(name, []).append(value.removeprefix(" "))
            continue
        data = _object("\n".join(fields.get("data", ())))
        if data is not None:
            yield ServerSentEvent(fields.get("id", [None])[-1], fields.get("event", ["message"])[-1], data)
        fields, size = {}, 0


def _object(text: str) -> dict[str, Any] | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


async def _lines(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    rest: list[bytes] = []
    size = 0
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                piece = await anext(pieces)
        except StopAsyncIteration:
            return
        *lines, last = piece.split(b"\n")
        for line in lines:
            yield b"".join([*rest, line]).removesuffix(b"\r")
            rest, size = [], 0
        if last:
            rest.append(last)
            size += len(last)
            if size > EVENT_BYTES_MAX:
                raise _too_large()


def _too_large() -> ConnectionError:
    return ConnectionError(f"a server-sent event takes more than {EVENT_BYTES_MAX} bytes")

"""Server-sent events over a real connection, cut into pieces at every possible place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from workers.bridges.opencode import server
from workers.bridges.opencode.server import server_sent_events
from workers.transport.place import parse_place
from workers.transport.wire import HttpConnection

STREAM = (
    b": a comment\r\n\r\n"
    b'id: 7\r\nevent: permission.asked\r\ndata: {"a":\r\ndata: 1}\r\n\r\n'
    b"data: no JSON\n\n"
    b"data: [1]\n\n"
    b'data:{"b": "\xc3\xa9"}\n\n'
    b'data: {"cut": true}\n'
)
EVENTS = [{"a": 1}, {"b": "é"}]


async def received(pieces: Sequence[bytes]) -> list[dict[str, Any]]:
    """Return the events of an answer whose chunks are these pieces."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        writer.writelines([b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces])
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        connection = await HttpConnection.open(parse_place(f"http://127.0.0.1:{port}", None))
        try:
            head = await connection.send("GET", "/", b"", {})
            return [event async for event in server_sent_events(connection.pieces(head))]
        finally:
            await connection.close()


@pytest.mark.parametrize("size", [1, 2, 3, 7, len(STREAM)])
async def test_events_are_the_same_wherever_the_connection_cuts_them(size: int) -> None:
    pieces = [STREAM[at : at + size] for at in range(0, len(STREAM), size)]
    assert await received(pieces) == EVENTS


@pytest.mark.parametrize("piece", [b"data: xxxxxxxxxxxxxxxxxxxx", b"data: xxxxxxxxx\ndata: x\n"])
async def test_an_event_above_the_limit_ends_the_stream(piece: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "EVENT_BYTES_MAX", 16)
    with pytest.raises(ConnectionError, match="more than 16 bytes"):
        await received([piece])

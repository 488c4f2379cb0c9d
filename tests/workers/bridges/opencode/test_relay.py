"""The proxy in front of OpenCode: every byte as it came, in both directions, at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from workers.bridges.opencode.bridge import Relay
from workers.bridges.opencode.server import place_of
from workers.transport.place import BridgeError

LARGE_BYTES = 3_000_000


@pytest.fixture
async def echo() -> AsyncIterator[str]:
    """A server that echoes its input, and ends when its client has ended."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(1000):
            writer.write(piece)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    server.close()


@pytest.fixture
async def port(echo: str) -> AsyncIterator[int]:
    relay = Relay(place_of(echo))
    yield await relay.start("127.0.0.1", 0)
    await relay.close()


async def test_a_piece_is_passed_on_before_the_next_one_comes(port: int) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for piece in (b"data: 1\n\n", b"\x00\xff\r\n"):
        writer.write(piece)
        assert await reader.readexactly(len(piece)) == piece
    writer.close()


async def test_much_goes_through_unchanged_and_a_half_closed_side_still_hears_the_rest(port: int) -> None:
    content = os.urandom(LARGE_BYTES)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    reading = asyncio.create_task(reader.read(-1))
    writer.write(content)
    writer.write_eof()
    assert await reading == content
    writer.close()


async def test_without_a_server_behind_it_a_connection_ends(echo: str) -> None:
    gone = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    target = gone.sockets[0].getsockname()[1]
    gone.close()
    await gone.wait_closed()
    relay = Relay(place_of(f"http://127.0.0.1:{target}"))
    reader, writer = await asyncio.open_connection("127.0.0.1", await relay.start("127.0.0.1", 0))
    assert await reader.read() == b""
    writer.close()
    await relay.close()


async def test_an_address_that_is_taken_is_told(port: int, echo: str) -> None:
    with pytest.raises(BridgeError, match=f"`127.0.0.1:{port}` cannot be listened on"):
        await Relay(place_of(echo)).start("127.0.0.1", port)

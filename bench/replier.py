"""The process that answers: `python -m bench.replier URL SESSIONS`, for the trips of the floor and of the ledger."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from bench.floor import FloorClient
from ledger import Ledger, Session

REQUESTS = "bench:requests"
REPLIES = "bench:replies"


async def read_on(reader: FloorClient, stream: str, take: Callable[[bytes], object]) -> None:
    """Forward the number of every entry that arrives from now on."""
    newest = await reader.send("XREVRANGE", stream, "+", "-", "COUNT", 1)
    last = newest[0][0] if newest else b"0-0"
    while True:
        answer = await reader.send("XREAD", "COUNT", 1000, "BLOCK", 0, "STREAMS", stream, last)
        for _, fields in answer[0][1]:
            take(fields[1])
        last = answer[0][1][-1][0]


async def answer_floor(url: str) -> None:
    writer, reader = await FloorClient.connect(url), await FloorClient.connect(url)
    await read_on(reader, REQUESTS, lambda number: writer.send("XADD", REPLIES, "*", "n", number, "d", b"once"))


async def answer(session: Session, begun: asyncio.Semaphore) -> None:
    """Allow every request of a session once."""
    state = await session.state()
    replies: set[asyncio.Task[object]] = set()
    begun.release()
    async for event in session.events(after=state.version):
        if event.type == "asked":
            request_id = getattr(event.event, "request_id", "")
            task: asyncio.Task[object] = asyncio.create_task(session.reply(request_id, "once", actor="person"))
            replies.add(task)
            task.add_done_callback(replies.discard)


async def main(url: str, count: int) -> None:
    begun = asyncio.Semaphore(0)
    async with Ledger.connect(url, actor="replier", entry_points=False) as ledger, asyncio.TaskGroup() as group:
        group.create_task(answer_floor(url))
        for i in range(count):
            group.create_task(answer(await ledger.attach(f"trip-{i}"), begun))
        for _ in range(count):
            await begun.acquire()
        print("ready", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))

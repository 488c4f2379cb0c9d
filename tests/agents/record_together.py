"""Record all clients on one ledger: `python -m tests.agents.record_together FOLDER WORK [PICTURE]`.

WORK is a folder that does not exist yet, in which all of them work; its path stands in the record, so that `/srv/shop` is a
good one. Writes `together-waiting.jsonl` and `together.jsonl`, as `permission-ledger export` makes them, and a picture of
the inbox while all of them wait.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

from playwright.async_api import async_playwright, expect

from ledger import Ledger
from tests.agents.together import ANSWERS, PROJECT, Together, all_wait
from tests.gateway.inbox.fixtures import ARGUMENTS
from tests.gateway.inbox.visitors import Inbox
from tests.support.browsers import chromium
from tests.support.command_line import CommandLine
from tests.support.gateways import RunningGateway
from tests.support.servers import RealServer

MARGIN_PIXELS: Final = 16
NEVER: Final = {"attended": "none", "unattended": "none", "cap": "none"}
"""Timeouts without expiry: a recording is read for years."""


async def record(gateway: RunningGateway, server: RealServer, folder: Path, work: Path, picture: Path | None) -> None:
    async def opened(session: str, dialect: str, agent: str) -> None:
        bob = gateway.person("bob")
        about = {"project": PROJECT, "cwd": str(work), "agent": agent}
        await bob.open(session, dialect=dialect, timeouts=NEVER, **about)
        await bob.close()

    ann = gateway.person()
    ledger = CommandLine(server.url)
    with tempfile.TemporaryDirectory(prefix="record-") as own:
        together = Together(gateway, Path(own), work, lambda *said: asyncio.run(opened(*said)))
        try:
            await together.start()
            rows = await all_wait(gateway, together)
            await asyncio.to_thread(ledger, "export", "--all", "--out", folder / "together-waiting.jsonl", code=0)
            if picture is not None:
                await photograph(gateway, server, len(rows), picture)
            for name, row in rows.items():
                reply, message = ANSWERS[name]
                said = {} if message is None else {"message": message}
                await ann.reply(together.sessions[name], row["request_id"], reply, **said)
            await together.ended()
            await asyncio.to_thread(ledger, "export", "--all", "--out", folder / "together.jsonl", code=0)
        finally:
            await together.close()
            await ann.close()


async def photograph(gateway: RunningGateway, server: RealServer, count: int, picture: Path) -> None:
    """Take a picture of all pending requests, without the rest of the page."""
    async with (
        AsyncExitStack() as stack,
        async_playwright() as playwright,
        Ledger.connect(server.url) as ledger,
        await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS) as browser,
    ):
        inbox = Inbox(ledger, browser, gateway.page_url, stack)
        visitor = await inbox.visit("ann", viewport={"width": 1200, "height": 2600})
        await expect(visitor.page.locator("article.card")).to_have_count(count)
        box = await visitor.page.locator("article.card").last.bounding_box()
        assert box is not None
        width, height = box["x"] + box["width"] + MARGIN_PIXELS, box["y"] + box["height"] + MARGIN_PIXELS
        await visitor.page.screenshot(path=picture, clip={"x": 0, "y": 0, "width": width, "height": height})
        await inbox.close()


def main() -> None:
    folder, work = Path(sys.argv[1]), Path(sys.argv[2])
    picture = Path(sys.argv[3]) if len(sys.argv) > 3 else None
    with tempfile.TemporaryDirectory(prefix="pl-") as data:
        server = RealServer(Path(data))
        server.start()
        gateway = RunningGateway(server, with_pages=True)
        try:
            gateway.start()
            asyncio.run(record(gateway, server, folder, work, picture))
        finally:
            gateway.close()
            server.stop()


if __name__ == "__main__":
    main()

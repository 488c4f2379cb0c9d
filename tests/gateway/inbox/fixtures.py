"""A real browser, and a gateway that it reaches: the fixtures of every test that looks at a page."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest_asyncio
from playwright.async_api import Browser, async_playwright, expect

from ledger import Ledger
from tests.gateway.inbox.visitors import Inbox
from tests.support.browsers import chromium
from tests.support.servers import RealServer
from workers.gateway.gateway import Gateway
from workers.gateway.server import ListenAddress, listen, run, url_of
from workers.gateway.settings import GatewaySettings

expect.set_options(timeout=30_000)

# Chromium's sandbox cannot be had by root, whom containers and continuous integration run as.
ARGUMENTS = ["--no-sandbox", "--disable-dev-shm-usage"]


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=ARGUMENTS)
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="session")
async def inbox(server: RealServer, browser: Browser, tmp_path: Path) -> AsyncIterator[Inbox]:
    """A gateway on an address that a browser reaches, by the server's own clock."""
    stop, ready = asyncio.Event(), asyncio.Event()
    listener = listen(ListenAddress(host="127.0.0.1", port=0))
    settings = GatewaySettings(public_url=url_of(listener), index_file=tmp_path / "search.sqlite")

    def started(_: Gateway) -> None:
        ready.set()

    async with Ledger.connect(server.url) as ledger, AsyncExitStack() as stack:
        serving = asyncio.create_task(run(ledger, settings, [listener], stop, started))
        await ready.wait()
        inbox = Inbox(ledger, browser, settings.public_url, stack)
        yield inbox
        await inbox.close()
        stop.set()
        await serving
    listener.close()

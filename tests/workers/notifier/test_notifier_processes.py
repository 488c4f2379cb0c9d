"""Notifiers as processes: killed without a word, and started with a configuration that is wrong."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ledger import Ledger
from tests.support.processes import worker_process
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from tests.workers.notifier.listening import Listening, listening
from tests.workers.notifier.test_notifier import until_recorded

if TYPE_CHECKING:
    from tests.support.servers import StartServer

STARTED_S = 25.0
"""On a machine with much else to do a process needs a while until it is at work."""

CONFIG = """
[timing]
collapse = "0s"

[delivery]
timeout = "4s"
lease = "8s"

[[people]]
name = "ann"
services = ["{url}"]
"""


def notifier_process(server: RealServer, config: Path) -> AbstractAsyncContextManager[asyncio.subprocess.Process]:
    """Start a notifier of its own, killed after the block."""
    return worker_process("notifier", "--config", str(config), "--url", server.url)


def configured(folder: Path, phone: Listening) -> Path:
    path = folder / "notify.toml"
    path.write_text(CONFIG.format(url=phone.url))
    return path


@pytest.mark.slow
async def test_what_was_sent_by_a_notifier_that_was_killed_before_it_could_record_it_is_sent_again(
    server: RealServer, tmp_path: Path
) -> None:
    async with listening() as phone, Ledger.connect(server.url) as ledger:
        config = configured(tmp_path, phone)
        session = await ledger.session("ses_1")
        phone.mute_once = True
        async with notifier_process(server, config) as first:
            await session.submit("bash", ["git push"], request_id="r1")
            await wait_until_async(lambda: phone.messages, "the first message", STARTED_S)
            first.kill()
            await first.wait()
        async with notifier_process(server, config):
            await until_recorded(ledger, ("r1", "ann", "json", "sent", 0), timeout_s=STARTED_S)
            assert len(phone.messages) == 2
            await session.reply("r1", "once", actor="bob")
            told = [("r1", "ann", "json", "sent", 0), ("r1", "ann", "json", "withdrawn", None)]
            await until_recorded(ledger, *told, timeout_s=STARTED_S)
        assert phone.titles[2:] == ["Allowed by bob (once)"]


async def test_a_wrong_configuration_ends_it_with_exit_code_12(server: RealServer, tmp_path: Path) -> None:
    config = tmp_path / "notify.toml"
    config.write_text("people = []")
    async with notifier_process(server, config) as process:
        _, told = await process.communicate()
    assert process.returncode == 12
    assert b"nobody is named" in told


@pytest.mark.slow
async def test_a_notifier_outlives_the_server(start_server: StartServer, tmp_path: Path) -> None:
    server = start_server()
    async with listening() as phone, notifier_process(server, configured(tmp_path, phone)):
        async with Ledger.connect(server.url) as ledger:
            await (await ledger.session("ses_1")).submit("bash", ["git push"], request_id="r1")
            await wait_until_async(lambda: len(phone.messages) == 1, "the first message", STARTED_S)
            await until_recorded(ledger, ("r1", "ann", "json", "sent", 0), timeout_s=STARTED_S)
        server.kill9()
        server.start()
        async with Ledger.connect(server.url) as ledger:
            session = await ledger.session("ses_1")
            await session.submit("bash", ["git pull"], request_id="r2")
            await wait_until_async(lambda: len(phone.messages) == 2, "the second message", STARTED_S)
            told = [(name, "ann", "json", "sent", 0) for name in ("r1", "r2")]
            await until_recorded(ledger, *told, timeout_s=STARTED_S)

"""All processes behind a person's phone: server, gateway, expiry worker, projector, notifier."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from ledger import Ledger
from ledger.stores.embedded import stop
from tests.gateway.callers import Caller
from tests.journeys.processes import Process, Stage
from tests.support.waiting import wait_until_async
from workers.gateway.request_search import LOOK_EVERY_SECONDS

PEOPLE: Final = ("c1", "c2")
"""Each person has a client of the same name."""

NOTIFY: Final = """
public_url = "http://gateway"

[timing]
collapse = "0s"
an_hour_a_session = 100
a_day_a_person = 1000

[[people]]
name = "c1"
services = ["json://127.0.0.1:{port}/c1"]
"""


class Phone:
    """A service that receives notifications."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        phone = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                phone.messages.append(body["message"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Keep the test's stderr clean."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        self._thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self._thread.join()
        self.server.server_close()


class World:
    """The running processes, and clients for them."""

    def __init__(self, socket: Path, gateway: Process, phone: Phone, tokens: dict[str, str]) -> None:
        self.socket = socket
        self.gateway = gateway
        self.phone = phone
        self._tokens = tokens

    def caller(self, name: str) -> Caller:
        return Caller(self.socket, self._tokens[name])

    def anybody(self) -> Caller:
        """A browser without a sign-in."""
        return Caller(self.socket)

    def logged(self, text: str) -> list[str]:
        return [line for line in self.gateway.complained if text in line]

    async def all_decisions(self, caller: Caller) -> Counter[str]:
        """Return the decisions of all that has happened until now: a gateway reads the log for them at most once a second."""
        from_s = time.monotonic() + LOOK_EVERY_SECONDS
        await wait_until_async(lambda: time.monotonic() > from_s, "the views to be read anew")
        return await self.decisions(caller)

    async def decisions(self, caller: Caller) -> Counter[str]:
        text = (await caller.get("/metrics")).text
        return Counter(
            {
                sample.labels["decision"]: round(sample.value)
                for family in text_string_to_metric_families(text)
                for sample in family.samples
                if sample.name == "permission_ledger_decisions_total" and sample.value
            }
        )


@contextmanager
def running_world(folder: Path) -> Iterator[World]:
    stage, phone = Stage(folder / "data"), Phone()
    config = folder / "notify.toml"
    config.write_text(NOTIFY.format(port=phone.port))
    socket = stage.folder.path / "gateway.sock"
    try:
        gateway = stage.run("serve", "--listen", f"unix:{socket}", "--log-level", "info")
        gateway.wait_for_word("signs one browser in")
        stage.expiry()
        stage.worker("projector", "consumer group")
        # apprise imports a module that Python is about to remove.
        notifier = stage.run(
            *("worker", "notifier", "--config", str(config), "--log-level", "info"), PYTHONWARNINGS="default"
        )
        notifier.wait_for_word("consumer group")
        yield World(socket, gateway, phone, asyncio.run(_tokens(f"embedded://{stage.folder.path}")))
    finally:
        stage.close()
        stop(stage.folder.path)
        phone.close()


async def _tokens(url: str) -> dict[str, str]:
    async with Ledger.connect(url) as ledger:
        agent = await ledger.tokens.create("claude", "agent", brings_rules=True, any_project=True)
        auditor = await ledger.tokens.create("prometheus", "auditor")
        people = [await ledger.tokens.create(name, "approver") for name in PEOPLE]
        bound = await ledger.tokens.create("c3", "approver", projects=["bound"])
    return {made.token.name: made.text for made in (agent, auditor, *people, bound)}

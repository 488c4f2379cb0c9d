"""Record all clients on one ledger: `python -m tests.agents.record_together FOLDER WORK`.

WORK is a folder that does not exist yet, in which all of them work; its path stands in the record, so that `/srv/shop` is a
good one. Writes `together-waiting.jsonl` and `together.jsonl`, as `permission-ledger export` makes them.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from tests.agents.together import ANSWERS, PROJECT, Together, all_wait
from tests.support.command_line import CommandLine
from tests.support.gateways import Person, RunningGateway
from tests.support.servers import RealServer

NEVER: Final = {"attended": "none", "unattended": "none", "cap": "none"}
"""Timeouts without expiry: a recording is read for years."""


async def record(gateway: RunningGateway, server: RealServer, folder: Path, work: Path) -> None:
    async def opened(session: str, dialect: str, agent: str) -> None:
        # A session belongs to the token that opens it.
        asker = Person(gateway.address, gateway.agent_place().token or "")
        about = {"project": PROJECT, "cwd": str(work), "agent": agent}
        await asker.open(session, dialect=dialect, timeouts=NEVER, **about)
        await asker.close()

    ann = gateway.person()
    ledger = CommandLine(server.url)
    with tempfile.TemporaryDirectory(prefix="record-") as own:
        together = Together(gateway, Path(own), work, lambda *said: asyncio.run(opened(*said)))
        try:
            await together.start()
            rows = await all_wait(gateway, together)
            await asyncio.to_thread(ledger, "export", "--all", "--out", folder / "together-waiting.jsonl", code=0)
            for name, row in rows.items():
                reply, message = ANSWERS[name]
                said = {} if message is None else {"message": message}
                await ann.reply(together.sessions[name], row["request_id"], reply, **said)
            await together.ended()
            await asyncio.to_thread(ledger, "export", "--all", "--out", folder / "together.jsonl", code=0)
        finally:
            await together.close()
            await ann.close()


def main() -> None:
    folder, work = Path(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory(prefix="pl-") as data:
        server = RealServer(Path(data))
        server.start()
        gateway = RunningGateway(server)
        os.environ["PERMISSION_LEDGER_HOME"] = str(gateway.home)  # bridges find the gateway there
        try:
            gateway.start()
            asyncio.run(record(gateway, server, folder, work))
        finally:
            gateway.close()
            server.stop()


if __name__ == "__main__":
    main()

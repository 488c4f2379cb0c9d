"""An orderly restart of each server under the ACL file of `server-user`: nothing is lost, and nobody else gets in."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from ledger import Ledger
from ledger.log.archive.archive import all_streams
from ledger.log.tail import raw_page
from ledger.stores.port import START
from tests.support.askers import ASK
from tests.support.backends import OTHER_SERVERS
from tests.support.command_line import CommandLine
from tests.support.processes import free_port
from tests.support.programs import EMBEDDED
from tests.support.servers import RealServer

DURABLE: Final = {"appendonly": "yes", "appendfsync": "always"}

BEFORE: Final = "user default off resetchannels -@all\n"
"""The line of the default user in files of earlier versions."""


class RealServerWithUsers(RealServer):
    """A server on a port with an `aclfile`, which only the user of health checks may ask whether it is ready."""

    def __init__(self, folder: Path, binary: str) -> None:
        self.acl, self.url_file, self.port = folder / "users.acl", folder / "url", free_port()
        super().__init__(folder / "data", binary, {**DURABLE, "aclfile": str(self.acl), "port": str(self.port)})
        words = ("--url-file", self.url_file, "--acl-file", self.acl)
        CommandLine("memory://")("server-user", "--server", f"redis://127.0.0.1:{self.port}/0", *words, code=0)

    @property
    def url(self) -> str:
        return self.url_file.read_text().strip()

    def _is_ready(self) -> bool:  # type: ignore[override]
        assert self._process
        assert self._process.poll() is None, f"{self.binary} ended while it was starting:\n{self.log}"
        try:
            with redis.Redis(port=self.port, username="health", password="any") as client:
                return bool(client.ping())
        except redis.exceptions.RedisError:
            return False


@pytest.fixture(params=[EMBEDDED, *OTHER_SERVERS])
def guarded(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RealServerWithUsers]:
    server = RealServerWithUsers(tmp_path, request.param)
    try:
        yield server
    finally:
        server.remove()


@pytest.fixture(scope="module", params=[EMBEDDED, *OTHER_SERVERS])
def running(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[RealServerWithUsers]:
    server = RealServerWithUsers(tmp_path_factory.mktemp("guarded"), request.param)
    try:
        server.start()
        yield server
    finally:
        server.remove()


async def history_on(server: RealServerWithUsers) -> None:
    """Make three sessions, of which two have pending requests, an answer, a grant of a project, and a token."""
    async with Ledger.connect(server.url) as ledger:
        for number in range(3):
            session = await ledger.session(f"ses_{number}", project="shop", rules=ASK)
            await session.submit("bash", ["make"], always=["make *"], request_id=f"r{number}")
        await ledger.reply("r0", "once", actor="ann")
        await ledger.grant_in_project("shop", "bash", "git *", actor="ann")
        await ledger.tokens.create("ann", "approver")


async def told_of(server: RealServerWithUsers) -> dict[str, Any]:
    """Return every entry of every stream, and what is pending, granted and in force as a token."""
    async with Ledger.connect(server.url) as ledger:
        return {
            "streams": {key: await raw_page(ledger.store, key, START, 100) async for key in all_streams(ledger.store)},
            "pending": [one.request for one in await ledger.pending()],
            "grants": [one.grant for one in await ledger.approved_in_project("shop")],
            "tokens": await ledger.tokens.all(),
        }


async def restarted_whole(server: RealServerWithUsers, before: dict[str, Any]) -> None:
    server.start()
    assert await told_of(server) == before
    run = CommandLine(server.url)
    run("verify", "--all", code=0)
    assert "ask" in run("log", "ses_0", code=0).out


async def test_nothing_is_missing_after_an_orderly_restart(guarded: RealServerWithUsers) -> None:
    guarded.start()
    await history_on(guarded)
    before = await told_of(guarded)
    guarded.stop()
    await restarted_whole(guarded, before)


async def test_nothing_is_missing_after_the_file_was_rewritten(guarded: RealServerWithUsers) -> None:
    guarded.acl.write_text(guarded.acl.read_text() + "user operator on >operator ~* &* +@all\n")
    guarded.start()
    await history_on(guarded)
    before = await told_of(guarded)
    with redis.Redis(port=guarded.port, username="operator", password="operator") as operator:
        operator.bgrewriteaof()
    guarded.stop()
    await restarted_whole(guarded, before)


async def test_what_the_rules_of_earlier_versions_lost_is_back_with_these(guarded: RealServerWithUsers) -> None:
    ours = guarded.acl.read_text()
    guarded.acl.write_text(BEFORE + "".join(ours.splitlines(keepends=True)[1:]))
    guarded.start()
    await history_on(guarded)
    before = await told_of(guarded)
    guarded.restart()
    guarded.stop()
    guarded.acl.write_text(ours)
    await restarted_whole(guarded, before)


@pytest.mark.parametrize(
    ("line", "refusal"),
    [
        *((line, b"-NOAUTH") for line in ("PING", "ACL WHOAMI", "INFO", "EXISTS pl:config", "FLUSHALL", "SHUTDOWN")),
        *((f"AUTH default {word}", b"-WRONGPASS") for word in ("x", '""', "default", "nopass")),
        ("AUTH x", b"-"),
        ("HELLO 3", b"-NOAUTH"),
        ('HELLO 3 AUTH default ""', b"-WRONGPASS"),
    ],
)
def test_the_default_user_can_neither_log_in_nor_run_a_command(
    running: RealServerWithUsers, line: str, refusal: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", running.port), timeout=10) as stranger, stranger.makefile("rb") as told:
        for sent in (line, "PING"):
            stranger.sendall(f"{sent}\r\n".encode())
            answer = told.readline()
            assert answer.startswith(refusal if sent == line else b"-NOAUTH"), answer

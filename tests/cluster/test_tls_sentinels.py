"""`rediss+sentinel://`: servers behind TLS, and with `sentinel_tls=yes` the sentinels, too.

A proxy before each process terminates TLS, since the available servers do not support it; sentinels announce its ports.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Final

import pytest

from ledger import StoreError
from ledger.stores.redis import store as startup
from tests.cluster.conftest import OpenLedger
from tests.cluster.test_passwords import is_asked_and_answered
from tests.support.clusters import HOST, SERVICE, Sentinels

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

CERTIFICATE: Final = Path(__file__).parents[1] / "data" / "tls" / "localhost.pem"
TRUSTED: Final = f"ssl_ca_certs={CERTIFICATE}&ssl_check_hostname=false"


class Door:
    """Forwards to a port, and replaces port numbers in the answers."""

    def __init__(self, port: int, named: Mapping[int, int] | None = None) -> None:
        self._port = port
        self._named = {str(one).encode(): str(other).encode() for one, other in (named or {}).items()}
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, context: ssl.SSLContext | None) -> int:
        self._server = await asyncio.start_server(self._accept, "localhost", 0, ssl=context)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            behind, to_behind = await asyncio.open_connection(HOST, self._port)
            there = asyncio.create_task(_pipe(reader, to_behind, {}))
            back = asyncio.create_task(_pipe(behind, writer, self._named))
            try:
                await asyncio.wait((there, back), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (there, back):
                    task.cancel()
                await asyncio.gather(there, back, return_exceptions=True)
                to_behind.close()
                writer.close()


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, named: Mapping[bytes, bytes]) -> None:
    with suppress(OSError):
        while data := await reader.read(65_536):
            for one, other in named.items():
                data = data.replace(one, other)  # same length: ports here have five digits
            writer.write(data)
            await writer.drain()


class Doors:
    """The proxies of the sentinels, plain and with TLS."""

    def __init__(self, plain: list[int], tls: list[int]) -> None:
        self.plain = plain
        self.tls = tls

    def url(self, ports: list[int], query: str, scheme: str = "rediss") -> str:
        return f"{scheme}+sentinel://{','.join(f'localhost:{port}' for port in ports)}/{SERVICE}?{query}"


@pytest.fixture
def sentinels(shared_sentinels: Sentinels) -> Sentinels:
    shared_sentinels.mend()
    shared_sentinels.primary().run("FLUSHALL")
    return shared_sentinels


@pytest.fixture
async def doors(sentinels: Sentinels) -> AsyncIterator[Doors]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    async with AsyncExitStack() as stack:

        async def opened(door: Door, tls: ssl.SSLContext | None) -> int:
            port = await door.open(tls)
            stack.push_async_callback(door.close)
            return port

        named = {node.port: await opened(Door(node.port), context) for node in sentinels.servers}
        plain = [await opened(Door(port, named), None) for port in sentinels.ports]
        tls = [await opened(Door(port, named), context) for port in sentinels.ports]
        assert {len(str(port)) for pair in named.items() for port in pair} == {5}
        yield Doors(plain, tls)


@pytest.mark.parametrize("sentinel_tls", ["no", "yes"])
async def test_an_agent_asks_and_is_answered_over_tls_also_after_a_failover(
    doors: Doors, sentinels: Sentinels, open_ledger: OpenLedger, sentinel_tls: str
) -> None:
    ports = doors.tls if sentinel_tls == "yes" else doors.plain
    url = doors.url(ports, f"{TRUSTED}&sentinel_tls={sentinel_tls}")
    ledger, other = await open_ledger(url), await open_ledger(url)
    await is_asked_and_answered(ledger, other)
    await asyncio.to_thread(sentinels.wait_until_in_step)
    await asyncio.to_thread(sentinels.fail_over)
    session = await other.session("after", rules=[{"permission": "bash", "pattern": "*", "action": "allow"}])
    assert (await session.ask("bash", ["ls"])).outcome == "allowed"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "GIVE_UP_SECONDS", 0.5)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize(
    ("query", "scheme", "to_tls"),
    [
        ("ssl_check_hostname=false", "rediss", False),
        (f"ssl_ca_certs={CERTIFICATE}", "rediss", False),
        ("", "redis", False),
        (TRUSTED, "rediss", True),
        (f"{TRUSTED}&sentinel_tls=yes", "rediss", False),
        ("sentinel_tls=yes&ssl_check_hostname=false", "rediss", True),
    ],
    ids=[
        "unknown issuer",
        "another name",
        "no TLS to the servers",
        "no TLS to the sentinels",
        "sentinels that speak no TLS",
        "sentinels of an unknown issuer",
    ],
)
async def test_who_cannot_prove_who_they_are_or_speak_another_protocol_is_unreachable(
    doors: Doors, open_ledger: OpenLedger, query: str, scheme: str, to_tls: bool
) -> None:
    with pytest.raises(StoreError) as caught:
        await open_ledger(doors.url(doors.tls if to_tls else doors.plain, query, scheme))
    assert caught.value.code == "UNREACHABLE"

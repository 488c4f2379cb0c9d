"""`rediss://`: TLS to the server, here ended by a proxy in front of a real server that speaks none itself."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from ledger.core.errors import StoreError
from ledger.stores.urls import open_store
from tests.support.backends import SESSION, as_redis, log_of, written
from tests.support.proxy import Proxy
from tests.support.servers import RealServer
from tests.support.tally import RecordingListener
from tests.support.waiting import wait_until_async

CERTIFICATE: Final = Path(__file__).parents[1] / "data" / "tls" / "localhost.pem"
"""For `localhost`, signed by itself, until the year 2126; its key is beside it and guards nothing."""


@pytest.fixture
async def port(server: RealServer) -> AsyncIterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    proxy = Proxy(server.socket)
    yield await proxy.start_tls(context)
    await proxy.close()


async def test_appends_reads_and_wake_ups_go_through_tls(port: int) -> None:
    store = as_redis(open_store(f"rediss://localhost:{port}?ssl_ca_certs={CERTIFICATE}"))
    await store.start()
    listener = RecordingListener()
    await store.subscribe(SESSION.partition(store.partition_count), listener)
    head = await written(store, b"x" * 100_000)
    await wait_until_async(lambda: listener.wake_ups == [(head, ())], "the wake-up")
    assert [entry.payload for entry in await log_of(store)] == [b"x" * 100_000]
    await store.close()


@pytest.mark.parametrize(
    "url",
    [
        "rediss://localhost:{port}",
        "rediss://127.0.0.1:{port}?ssl_ca_certs={certificate}",
        "redis://localhost:{port}",
    ],
    ids=["unknown issuer", "another name", "no TLS"],
)
async def test_a_server_that_cannot_prove_who_it_is_or_another_protocol_is_unreachable(port: int, url: str) -> None:
    store = open_store(url.format(port=port, certificate=CERTIFICATE))
    with pytest.raises(StoreError) as caught:
        await store.start()
    assert caught.value.code == "UNREACHABLE"
    await store.close()

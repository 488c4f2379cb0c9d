"""`rediss+cluster://`: every node is behind TLS, both those in the URL and those discovered through them.

A proxy before each node terminates TLS, since the available servers do not support it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import pytest

from ledger import StoreError
from ledger.stores.redis import store as startup
from tests.cluster.conftest import OpenLedger
from tests.cluster.test_passwords import is_asked_and_answered
from tests.support.clusters import Cluster, Node
from tests.support.proxy import Proxy
from tests.support.waiting import wait_until_async

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(180)]

CERTIFICATE: Final = Path(__file__).parents[1] / "data" / "tls" / "localhost.pem"
SOCKET: Final = "node.sock"


@pytest.fixture
async def ports() -> AsyncIterator[list[int]]:
    """The ports of the three primaries, which accept only TLS and which the nodes announce."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(CERTIFICATE)
    cluster = Cluster({"unixsocket": SOCKET, "cluster-preferred-endpoint-type": "hostname"})
    async with AsyncExitStack() as stack:
        stack.callback(cluster.remove)
        await asyncio.to_thread(cluster.start)
        ports = []
        for node in cluster.primaries():
            proxy = Proxy(node.folder / SOCKET)
            stack.push_async_callback(proxy.close)
            ports.append(await proxy.start_tls(context))
            node.run("CONFIG", "SET", "cluster-announce-hostname", "localhost")
            node.run("CONFIG", "SET", "cluster-announce-port", ports[-1])
        named = sorted(("localhost", port) for port in ports)
        await wait_until_async(
            lambda: asyncio.to_thread(lambda: all(endpoints(node) == named for node in cluster.primaries())),
            "all nodes to know the names",
        )
        yield ports


def endpoints(node: Node) -> list[tuple[str, int]]:
    """Return the addresses of the nodes that serve slots, as this node names them."""
    with node.client() as client:
        client.response_callbacks.clear()
        return sorted((one[2][0].decode(), int(one[2][1])) for one in client.execute_command("CLUSTER", "SLOTS"))


async def test_a_cluster_is_asked_and_answered_on_over_tls(ports: list[int], open_ledger: OpenLedger) -> None:
    # redis-py resolves nodes called localhost to an IP address, which the certificate does not cover.
    url = f"rediss+cluster://localhost:{ports[0]}?ssl_ca_certs={CERTIFICATE}&ssl_check_hostname=false"
    await is_asked_and_answered(await open_ledger(url), await open_ledger(url))


@pytest.mark.parametrize(
    "url",
    [
        "rediss+cluster://localhost:{port}?ssl_check_hostname=false",
        "rediss+cluster://127.0.0.1:{port}?ssl_ca_certs={certificate}",
        "redis+cluster://localhost:{port}",
    ],
    ids=["unknown issuer", "another name", "no TLS"],
)
async def test_nodes_that_cannot_prove_who_they_are_or_speak_another_protocol_are_unreachable(
    ports: list[int], open_ledger: OpenLedger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(startup, "GIVE_UP_SECONDS", 0.5)
    with pytest.raises(StoreError) as caught:
        await open_ledger(url.format(port=ports[0], certificate=CERTIFICATE))
    assert caught.value.code == "UNREACHABLE"

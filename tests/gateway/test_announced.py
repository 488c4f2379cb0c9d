"""Discovery of a gateway on this machine: `gateway.json` names a running one, on any kind of address."""

from __future__ import annotations

import json
import os
import socket
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from ledger import Ledger
from tests.gateway.callers import served
from tests.journeys.processes import Process, Stage
from tests.support.servers import RealServer
from tests.support.waiting import wait_until, wait_until_async
from workers.gateway import announcement
from workers.gateway.announcement import announced, local_url, read_address, write_address
from workers.gateway.server import ListenAddress, listen


def serve(stage: Stage, *words: str) -> tuple[Process, str]:
    gateway = stage.run("serve", "--listen", "127.0.0.1:0", *words)
    address = gateway.wait_for_word("  gateway    http").split()[-1]
    gateway.wait_for_word("signs one browser in")
    return gateway, address


def found(stage: Stage) -> dict[str, Any]:
    file = stage.folder.path / "gateway.json"
    row: dict[str, Any] = json.loads(file.read_text()) if file.exists() else {}
    return row


def asked(stage: Stage) -> int:
    """The exit code of a hook that looks for the gateway by the data folder; 0 with a decision on stdout."""
    inbox = stage.run("inbox")
    return inbox.wait()


@pytest.mark.slow
@pytest.mark.parametrize("on_server", [False, True], ids=["embedded", "a server by its URL"])
def test_a_gateway_on_tcp_is_found_and_after_a_clean_stop_nothing_is(
    stage: Stage, shared_server: RealServer, on_server: bool
) -> None:
    gateway, address = serve(stage, *(["--url", shared_server.url] if on_server else []))
    row = wait_until(lambda: found(stage), "the gateway to be announced")
    assert (row["url"], row["process"]) == (address, gateway.pid)
    assert ((stage.folder.path / "gateway.json").stat().st_mode & 0o777) == 0o600
    assert asked(stage) == 0
    gateway.end()
    assert found(stage) == {}
    assert asked(stage) == 12


@pytest.mark.slow
def test_the_next_gateway_uses_the_same_token(stage: Stage) -> None:
    for _ in range(2):
        gateway, _address = serve(stage)
        wait_until(lambda: found(stage), "the gateway to be announced")
        gateway.end()
    listed = stage.run("token", "list", "--json")
    assert listed.wait() == 0
    agents = [row for row in map(json.loads, listed.said) if row["role"] == "agent"]
    assert len(agents) == 1


@pytest.mark.slow
def test_the_first_of_two_gateways_is_found_and_the_other_takes_its_place(stage: Stage) -> None:
    first, here = serve(stage)
    wait_until(lambda: found(stage), "the first to be announced")
    second, there = serve(stage)
    assert f"use the gateway at {here}" in second.wait_for_word("  note  ")
    assert found(stage)["url"] == here
    first.kill9()
    wait_until(lambda: found(stage)["url"] == there, "the second to take its place", 20)
    second.end()
    assert found(stage) == {}


@pytest.mark.slow
def test_a_file_that_a_killed_gateway_left_is_recognised_and_replaced(stage: Stage) -> None:
    killed, _ = serve(stage)
    wait_until(lambda: found(stage), "the gateway to be announced")
    killed.kill9()
    assert found(stage)["process"] == killed.pid
    inbox = stage.run("inbox")
    assert inbox.wait() == 12
    assert f"(process {killed.pid}) does not answer; start one (`permission-ledger up`)" in inbox.complained[0]
    gateway, address = serve(stage)
    wait_until(lambda: found(stage)["url"] == address, "the new one to be announced")
    gateway.end()


async def test_the_first_gateway_that_answers_is_found_and_another_takes_its_place(
    ledger: Ledger, sockets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcement, "LOOK_SECONDS", 0.01)
    here, there = f"unix:{sockets / 'here.sock'}", "unix:/there"
    async with AsyncExitStack() as first:
        await first.enter_async_context(served(ledger, sockets / "here.sock"))
        await write_address(sockets, here, "", ledger.tokens)
        file = sockets / "gateway.json"
        row = json.loads(file.read_text())
        assert (row["process"], file.stat().st_mode & 0o777) == (os.getpid(), 0o600)
        file.write_text(json.dumps({**row, "process": os.getppid()}))
        async with announced(sockets, there, "", ledger.tokens) as other:
            assert (other, read_address(sockets)["url"]) == (here, here)
        assert read_address(sockets)["url"] == here
        async with announced(sockets, there, "", ledger.tokens):
            await first.aclose()
            await wait_until_async(lambda: read_address(sockets)["url"] == there, "the other to take its place")
            assert read_address(sockets) == {**row, "url": there}
    assert read_address(sockets) == {}
    async with announced(sockets, here, "", ledger.tokens) as other:
        assert (other, read_address(sockets)["token"]) == (None, row["token"])


def test_programs_are_told_the_socket_first_and_an_address_of_this_machine(tmp_path: Path) -> None:
    path = tmp_path / "g.sock"
    everywhere = listen(ListenAddress(host="0.0.0.0"))
    here = listen(ListenAddress(host="127.0.0.1"))
    with everywhere, here, listen(ListenAddress(path=path)) as on_path:
        port = everywhere.getsockname()[1]
        assert local_url([here, on_path], only_local=True) == f"unix:{path}"
        assert local_url([everywhere], only_local=False) == f"http://127.0.0.1:{port}"
        assert local_url([everywhere], only_local=True) is None
        assert isinstance(here, socket.socket)

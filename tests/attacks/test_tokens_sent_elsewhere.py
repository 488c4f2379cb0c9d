"""Attacks by an agent that sets the gateway's address, to receive the token stored on this machine."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.processes import ROOT, environment_without_settings
from workers.transport.place import PLAIN_HTTP, BridgeError, find_place, require_private_way

KEPT: Final = "plt_of_the_file"
OWN: Final = "plt_of_the_environment"
HERE: Final = "http://127.0.0.1:8420"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "gateway.json").write_text(json.dumps({"url": HERE, "token": KEPT}))
    return tmp_path


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.listen()
        yield one


def environ(home: Path, **more: str) -> dict[str, str]:
    return {"PERMISSION_LEDGER_HOME": str(home), **more}


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "http://localhost:8420", "unix:/tmp/elsewhere.sock"])
def test_having_the_token_of_the_file_sent_to_another_address(home: Path, url: str) -> None:
    assert find_place(environ(home, PERMISSION_LEDGER_GATEWAY=url)).token is None


@pytest.mark.parametrize("url", ["http://10.0.0.5:8420", "https://ledger.example"])
def test_having_it_sent_to_another_machine_is_refused_and_names_what_to_set(home: Path, url: str) -> None:
    with pytest.raises(BridgeError, match="there is no token for it; set PERMISSION_LEDGER_TOKEN"):
        find_place(environ(home, PERMISSION_LEDGER_GATEWAY=url))


def test_the_address_of_the_file_named_by_hand_still_gets_its_token(home: Path) -> None:
    assert find_place(environ(home, PERMISSION_LEDGER_GATEWAY=f"{HERE}/")).token == KEPT


def test_reading_a_token_on_its_way_over_plain_http(home: Path) -> None:
    said = environ(home, PERMISSION_LEDGER_GATEWAY="http://10.0.0.5:8420", PERMISSION_LEDGER_TOKEN=OWN)
    with pytest.raises(BridgeError, match="plain http exposes the token on the network"):
        find_place(said)
    assert find_place({**said, PLAIN_HTTP: "1"}).token == OWN
    assert find_place({**said, "PERMISSION_LEDGER_GATEWAY": "https://10.0.0.5"}).token == OWN


@pytest.mark.parametrize("url", ["http://127.0.0.1.evil.example", "http://localhost.evil.example", "http://0x7f000001"])
def test_a_name_that_looks_like_this_machine_is_another(url: str) -> None:
    with pytest.raises(BridgeError, match="is another machine"):
        require_private_way(url, {})


def test_having_the_token_of_the_environment_sent_where_the_file_was_made_to_say(home: Path) -> None:
    (home / "gateway.json").write_text(json.dumps({"url": "https://evil.example", "token": KEPT}))
    with pytest.raises(BridgeError, match=r"PERMISSION_LEDGER_TOKEN is set without PERMISSION_LEDGER_GATEWAY"):
        find_place(environ(home, PERMISSION_LEDGER_TOKEN=OWN))


def test_having_a_hook_bring_the_token_to_a_program_that_listens(home: Path, listener: socket.socket) -> None:
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    hook = subprocess.Popen(
        [sys.executable, "-m", "workers.bridges.hooks.run", "claude"],
        cwd=ROOT,
        env={**environment_without_settings(), **environ(home, PERMISSION_LEDGER_GATEWAY=url)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        call = {"session_id": "s", "hook_event_name": "PreToolUse", "tool_name": "Bash", "cwd": "/", "tool_input": {}}
        assert hook.stdin is not None
        hook.stdin.write(json.dumps(call).encode())
        hook.stdin.close()
        listener.settimeout(20)
        with listener.accept()[0] as connection:
            connection.settimeout(20)
            text = connection.recv(65536)
        assert b"host: 127.0.0.1" in text
        assert b"authorization" not in text.lower()
        assert KEPT.encode() not in text
    finally:
        hook.kill()
        hook.wait()
        for pipe in (hook.stdout, hook.stderr):
            assert pipe is not None
            pipe.close()


def test_the_file_of_the_address_replaced_by_a_fifo(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gateway.json")
    with pytest.raises(BridgeError, match="no gateway is running here"):
        find_place(environ(tmp_path))

"""`serve` as a process: its addresses, its refusals, and its behaviour when a process or server ends."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import httpx
import pytest

from ledger.stores.embedded import stop
from tests.journeys.processes import Process, Stage
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until


def serve(stage: Stage, *words: str) -> tuple[Process, str]:
    """A gateway on any free port, and its address."""
    gateway = stage.run("serve", "--listen", "127.0.0.1:0", *words)
    return gateway, gateway.wait_for_word("  gateway    http").split()[-1]


@pytest.mark.slow
def test_a_program_of_this_machine_finds_the_gateway_and_may_ask(stage: Stage) -> None:
    socket = stage.folder.path / "gateway.sock"
    gateway = stage.run("serve", "--listen", f"unix:{socket}")
    gateway.wait_for_word("signs one browser in")
    found = json.loads((stage.folder.path / "gateway.json").read_text())
    assert ((stage.folder.path / "gateway.json").stat().st_mode & 0o777, found["url"]) == (0o600, f"unix:{socket}")
    transport = httpx.HTTPTransport(uds=str(socket))
    headers = {"Authorization": f"Bearer {found['token']}"}
    with httpx.Client(transport=transport, base_url="http://gateway", headers=headers) as http:
        assert http.put("/v1/sessions/ses_1", json={"rules": []}).status_code == 201
        assert http.get("/v1/me").json()["role"] == "agent"
    assert gateway.end(signal.SIGINT) == 0
    assert not socket.exists()


@pytest.mark.slow
def test_a_link_signs_one_browser_in_once(stage: Stage) -> None:
    gateway, _ = serve(stage)
    link = gateway.wait_for_word("  inbox").split()[-1]
    place, _, code = link.partition("/sign-in?code=")
    with httpx.Client(base_url=place, headers={"Origin": place}) as first:
        assert first.get("/sign-in", params={"code": code}).status_code == 200
        proof = first.post("/v1/sign-in", json={"code": code}).json()["proof"]
        assert first.get("/v1/me", headers={"Permission-Ledger-Proof": proof}).json()["role"] == "admin"
    again = httpx.post(f"{place}/v1/sign-in", json={"code": code}, headers={"Origin": place})
    assert again.status_code in (401, 404)
    gateway.end()


@pytest.mark.slow
def test_two_gateways_serve_one_ledger(stage: Stage) -> None:
    one, here = serve(stage)
    other, there = serve(stage)
    made = stage.run("token", "create", "root", "--role", "admin")
    assert made.wait() == 0
    headers = {"Authorization": f"Bearer {made.said[0].strip()}"}
    with httpx.Client(headers=headers) as http:
        http.put(f"{here}/v1/sessions/ses_1", json={})
        http.post(f"{here}/v1/sessions/ses_1/asks", json={"permission": "x", "patterns": ["y"], "request_id": "r1"})
        replied = http.post(f"{there}/v1/sessions/ses_1/asks/r1/reply", json={"reply": "once"})
        assert replied.json()["outcome"] == "allowed"
        one.kill9()
        assert http.get(f"{there}/v1/sessions/ses_1/asks/r1").json()["by"] == "root"
    other.end()


@pytest.mark.slow
def test_without_its_server_a_gateway_lives_and_is_not_ready(stage: Stage) -> None:
    gateway, address = serve(stage)
    assert httpx.get(f"{address}/readyz").status_code == 200
    stage.folder.server_lock.exists()
    stop(stage.folder.path)
    wait_until(lambda: httpx.get(f"{address}/readyz", timeout=30).status_code in (200, 503), "an answer")
    assert httpx.get(f"{address}/healthz").status_code == 200
    gateway.end()


@pytest.mark.slow
def test_without_tokens_everybody_here_may_do_everything_and_it_is_said_loudly(stage: Stage) -> None:
    gateway, address = serve(stage, "--no-tokens")
    assert httpx.put(f"{address}/v1/sessions/ses_1", json={}).status_code == 201
    rules = [{"permission": "bash", "pattern": "*", "action": "allow"}]
    assert httpx.put(f"{address}/v1/sessions/ses_2", json={"rules": rules}).status_code == 201
    from_elsewhere = httpx.put(f"{address}/v1/sessions/ses_1", json={}, headers={"Host": "evil.example"})
    assert (from_elsewhere.status_code, from_elsewhere.json()["code"]) == (421, "WRONG_HOST")
    by_a_page = httpx.put(f"{address}/v1/sessions/ses_1", json={}, headers={"Origin": "http://evil.example"})
    assert by_a_page.json()["code"] == "CSRF"
    gateway.end()
    assert any("WITHOUT TOKENS" in line for line in gateway.complained)


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--no-tokens", "--listen", "0.0.0.0:0"], 12, "error: without tokens a gateway listens on this machine only"),
        (["--listen", "nonsense"], 12, "error: `nonsense` is not an address"),
        (["--listen", "127.0.0.1:99999"], 12, "error: `127.0.0.1:99999` is not an address"),
        (["--host", "ledger.example:80"], 12, "error: the --host `ledger.example:80` is not a host name"),
        (["--trusted-proxy", "caddy"], 12, "error: the --trusted-proxy `caddy` is not an address"),
        (["--rules", "esperanto=x.json"], 12, "error: `esperanto` is not a dialect"),
        (["--rules", "/nowhere/opencode.json"], 12, "error: "),
    ],
)
def test_what_cannot_be_served_is_told_in_a_line(tmp_path: Path, words: list[str], code: int, told: str) -> None:
    refused = CommandLine(f"embedded://{tmp_path / 'data'}")("serve", *words, code=code)
    assert refused.err.startswith(told)

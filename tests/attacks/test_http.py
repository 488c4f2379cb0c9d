"""Attacks on the gateway's HTTP itself: its errors, log, limits, host name, and its answers in a browser."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx
import pytest

from ledger import InputError, Ledger
from tests.gateway.callers import Caller, Served, in_process
from tests.gateway.test_roles import routes
from workers.gateway.authentication import PROOF_HEADER
from workers.gateway.gateway import Gateway
from workers.gateway.quotas import Limiter
from workers.gateway.server import ListenAddress, listen, run, url_of
from workers.gateway.settings import SIGN_INS_BURST, SIGN_INS_PER_SECOND, GatewaySettings
from workers.runtime.answer_links import AnswerLinks

ON_EVERYTHING: Final = {
    "x-content-type-options": {"nosniff"},
    "x-frame-options": {"DENY"},
    "cache-control": {"no-store"},
    "referrer-policy": {"no-referrer"},
}
ON_PAGES: Final = {
    **ON_EVERYTHING,
    "cache-control": {"no-store", "no-cache"},
    "referrer-policy": {"no-referrer", "same-origin"},
}
"""Files of the inbox are revalidated each time; the form of an answer page must send its origin."""

PAGES: Final = {"inbox_page", "inbox_file", "service_worker", "show_answer", "answer_by_link"}


@asynccontextmanager
async def on_tcp(ledger: Ledger, **settings: Any) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway on a port of 127.0.0.1, and a caller without a token."""
    stop, ready = asyncio.Event(), asyncio.Event()
    with listen(ListenAddress(host="127.0.0.1")) as listener:
        url = url_of(listener)
        serving = asyncio.create_task(
            run(ledger, GatewaySettings(**{"public_url": url, **settings}), [listener], stop, lambda _: ready.set())
        )
        await ready.wait()
        async with httpx.AsyncClient(base_url=url, timeout=60) as http:
            yield http
        stop.set()
        await serving


def lacking(answer: httpx.Response, wanted: dict[str, set[str]]) -> dict[str, str | None]:
    """Return the headers that are missing or wrong."""
    return {name: answer.headers.get(name) for name, values in wanted.items() if answer.headers.get(name) not in values}


async def test_an_error_of_the_gateway_by_asking_any_route_for_its_options(gateway: Served, ledger: Ledger) -> None:
    stranger = gateway.caller_with(None)
    answers = {path: await stranger.send("OPTIONS", path) for _, path, _ in routes(Gateway(ledger, GatewaySettings()))}
    assert {path: one.status_code for path, one in answers.items() if one.status_code != 204} == {}
    assert [path for path, one in answers.items() if "OPTIONS" not in one.headers["allow"] or one.content] == []


async def test_asking_for_options_without_end(ledger: Ledger) -> None:
    slow = GatewaySettings(requests_per_second=0.001, requests_burst=2)
    async with in_process(ledger, slow) as one:
        stranger = one.caller_with(None)
        codes = [(await stranger.send("OPTIONS", "/v1/me")).status_code for _ in range(3)]
        assert codes == [204, 204, 429]
        # Who only looks at the page is not kept out by it.
        assert (await stranger.get("/")).status_code == 200


async def test_asking_for_addresses_that_no_route_has_without_end(ledger: Ledger) -> None:
    slow = GatewaySettings(requests_per_second=0.001, requests_burst=2)
    async with in_process(ledger, slow) as one:
        stranger = one.caller_with(None)
        codes = [
            await stranger.status(*asked) for asked in (("GET", "/what"), ("PUT", "/healthz"), ("GET", "/v1/what"))
        ]
        assert codes == [404, 405, 429]
        # Who only looks at the page is not kept out by it.
        assert (await stranger.get("/")).status_code == 200


async def test_a_link_that_answers_read_from_the_log(
    gateway: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(AnswerLinks, "read", fail)
    stranger = gateway.caller_with(None)
    with caplog.at_level(logging.DEBUG, logger="workers"):
        for method in ("GET", "OPTIONS", "POST"):
            await stranger.http.request(method, "/answer/the-secret-of-the-link", data={"reply": "once"})
        failed = await stranger.get("/answer/the-secret-of-the-link")
    assert (failed.status_code, failed.json()["code"]) == (500, "INTERNAL")
    said = [record.getMessage() for record in caplog.records if record.name.startswith("workers")]
    assert said
    assert [one for one in said if "secret" in one] == []


async def test_escaping_the_limits_with_a_made_up_address(ledger: Ledger) -> None:
    slow = {"requests_per_second": 0.001, "requests_burst": 2}
    async with on_tcp(ledger, **slow) as http:
        codes = [(await http.get("/healthz", headers={"X-Forwarded-For": f"10.0.0.{n}"})).status_code for n in range(3)]
        assert codes == [200, 200, 429]
    async with on_tcp(ledger, trusted_proxies=("127.0.0.0/8",), **slow) as http:
        for address, expected in (("10.0.0.1", [200, 200, 429]), ("10.0.0.2", [200])):
            # The entries before the proxy's own are the caller's.
            headers = [{"X-Forwarded-For": f"10.9.9.{n}, {address}"} for n, _ in enumerate(expected)]
            assert [(await http.get("/healthz", headers=one)).status_code for one in headers] == expected


async def test_locking_everybody_behind_one_proxy_out_of_signing_in(gateway: Served, ledger: Ledger) -> None:
    # The clock stands still: however slow this machine is, the bucket is not refilled.
    gateway.gateway.sign_in_limiter = Limiter(SIGN_INS_PER_SECOND, SIGN_INS_BURST, lambda: 0.0)
    origin = {"Origin": "http://gateway"}
    ann, bob = [(await ledger.tokens.create(name, "approver")).text for name in ("ann", "bob")]
    eve = gateway.caller_with(None)
    guesses = [f"plt_tok_{number}_guessed" for number in range(int(SIGN_INS_BURST) + 1)] + [f"{ann}x"]
    refused = [(await eve.post("/v1/sign-in", {"token": one}, **origin)).status_code for one in guesses]
    assert (refused[0], refused[-2:]) == (401, [429, 429])
    assert (await gateway.caller_with("plt_tok_1_guessed").get("/v1/me")).status_code == 429
    # From the same address, a caller with a token signs in.
    await gateway.browser(ann)
    # A caller who overuses a token locks out only that token.
    codes = [
        (await eve.post("/v1/sign-in", {"token": ann}, **origin)).status_code for _ in range(int(SIGN_INS_BURST) + 1)
    ]
    assert 429 in codes
    await gateway.browser(bob)


async def test_an_admin_s_token_by_rebinding_a_name(ledger: Ledger) -> None:
    made = {"name": "eve", "role": "admin"}
    async with on_tcp(ledger, open_to_all=True) as http:
        port = http.base_url.port
        for name in (
            "evil.example",
            f"evil.example:{port}",
            "gateway",
            "127.0.0.1.evil.example",
            "localhost@evil.example",
            "[::1",
            "",
        ):
            page = {"Host": name, "Origin": f"http://{name}", "Sec-Fetch-Site": "same-origin"}
            for method, path, body in (("POST", "/v1/tokens", made), ("GET", "/v1/pending", None), ("GET", "/", None)):
                refused = await http.request(method, path, json=body, headers=page)
                assert (refused.status_code, refused.json()["code"]) == (421, "WRONG_HOST"), name
        for name in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "LOCALHOST."):
            assert (await http.get("/v1/pending", headers={"Host": name})).status_code == 200, name
        assert [one.name for one in await ledger.tokens.all()] == []


async def test_calling_a_gateway_with_tokens_by_another_name(ledger: Ledger) -> None:
    named = {"public_url": "https://permits.example", "hosts": ("ledger.internal", "https://phone.example")}
    async with on_tcp(ledger, **named) as http:
        codes = {}
        for name in (
            "permits.example",
            "phone.example",
            "ledger.internal:8420",
            "localhost",
            "evil.example",
            "10.0.0.7",
            "localhost:99999",
        ):
            codes[name] = (await http.get("/healthz", headers={"Host": name})).status_code
    assert codes == {
        "permits.example": 200,
        "phone.example": 200,
        "ledger.internal:8420": 200,
        "localhost": 200,
        "evil.example": 421,
        "10.0.0.7": 421,
        "localhost:99999": 421,
    }


async def test_signing_in_from_the_page_without_tls_of_the_same_name(ledger: Ledger) -> None:
    token = (await ledger.tokens.create("ann", "approver")).text
    behind_tls = GatewaySettings(public_url="https://permits.example", hosts=("https://phone.example:443",))
    async with in_process(ledger, behind_tls) as one:
        for host in ("permits.example", "phone.example"):
            for origin in (f"http://{host}", f"https://{host}:8443", "https://evil.example", "null"):
                refused = await sign_in(one, token, host, origin)
                assert (refused.status_code, refused.json()["code"]) == (403, "CSRF"), origin
            signed_in = await sign_in(one, token, host, f"https://{host}")
            assert "__Host-permission_ledger=" in signed_in.headers["set-cookie"]
            assert "Secure" in signed_in.headers["set-cookie"]
        # On the machine itself there is no TLS; its browsers would drop such a cookie.
        assert "Secure" not in (await sign_in(one, token, "localhost", "http://localhost")).headers["set-cookie"]


async def sign_in(one: Served, token: str, host: str, origin: str) -> httpx.Response:
    return await one.caller_with(None).post("/v1/sign-in", {"token": token}, Origin=origin, Host=host)


async def test_an_answer_kept_guessed_framed_or_told_to_another_site(gateway: Served, ledger: Ledger) -> None:
    root = await gateway.caller("admin")
    await root.put("/v1/sessions/ses_1")
    for caller in (root, gateway.caller_with(None)):
        for method, path, operation in routes(Gateway(ledger, GatewaySettings())):
            async with caller.http.stream(method, path, json={}) as answer:
                assert lacking(answer, ON_PAGES if operation in PAGES else ON_EVERYTHING) == {}, (method, path)


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/nowhere", {}, 404),
        ("PATCH", "/v1/me", {}, 405),
        ("GET", "/v1/me", {"Authorization": "Bearer x"}, 401),
        ("POST", "/v1/grants", {}, 422),
        ("POST", "/v1/sign-in", {"Origin": "http://evil.example"}, 403),
        ("GET", "/v1/me", {"Host": "evil.example"}, 421),
        ("OPTIONS", "/v1/me", {}, 204),
        ("HEAD", "/v1/me", {}, 405),
    ],
)
async def test_an_error_in_place_of_an_answer_framed_or_guessed(
    admin_caller: Caller, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    answer = await admin_caller.http.request(method, path, json={}, headers=headers)
    assert (answer.status_code, lacking(answer, ON_EVERYTHING)) == (status, {})


@pytest.mark.parametrize(
    ("sent", "status"), [(b"no HTTP\r\n\r\n", b"400"), (b"GET / HTTP/1.1\r\nX: " + b"x" * 500_000, b"431")]
)
async def test_an_answer_to_what_is_no_request_framed_or_guessed(
    gateway_on_socket: Served, sent: bytes, status: bytes
) -> None:
    reader, writer = await asyncio.open_unix_connection(str(gateway_on_socket.socket))
    try:
        for start in range(0, len(sent), 65_536):
            writer.write(sent[start : start + 65_536])
            await writer.drain()
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.split()[1] == status
        for name, values in ON_EVERYTHING.items():
            assert f"{name}: {next(iter(values))}".encode() in head
    finally:
        writer.close()


@pytest.mark.parametrize("name", [".", ".."])
async def test_a_name_that_browsers_take_out_of_an_address(agent: Caller, gateway: Served, name: str) -> None:
    """Its card could not be answered, nor rejected: the answer would go to another address."""
    await agent.put("/v1/sessions/ses_1")
    refused = await agent.ask("ses_1", request_id=name)
    assert (refused.status_code, refused.json()["code"]) == (422, "INPUT")
    with pytest.raises(InputError, match="no page could answer it"):
        await gateway.ledger.session(name)


async def test_signing_a_person_out_from_another_port(ledger: Ledger) -> None:
    """A browser keeps one jar of cookies for all ports of a host; any server there may set and remove them."""
    async with Ledger.connect("memory://") as another, on_tcp(ledger) as http, on_tcp(another) as foreign:
        foreign.cookies = http.cookies
        proof = await signed_in(ledger, http)
        foreign_proof = await signed_in(another, foreign)
        assert (await foreign.post("/v1/sign-out", headers=own_page(foreign, foreign_proof))).status_code == 204
        assert (await foreign.post("/v1/sign-out", headers=own_page(foreign, ""))).status_code == 204
        for name in ("permission_ledger", "__Host-permission_ledger", "permission_ledger_1"):
            http.cookies.set(name, "planted", domain="127.0.0.1")
        me = await http.get("/v1/me", headers=own_page(http, proof))
        assert (me.status_code, me.json()["name"]) == (200, "ann")
        assert (await http.post("/v1/sign-out", headers=own_page(http, proof))).status_code == 204
        assert (await http.get("/v1/me", headers=own_page(http, proof))).status_code == 401


async def signed_in(ledger: Ledger, http: httpx.AsyncClient) -> str:
    """Sign a browser in as ann; return the proof."""
    token = (await ledger.tokens.create("ann", "approver")).text
    answer = await http.post("/v1/sign-in", json={"token": token}, headers=own_page(http, ""))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["proof"])


def own_page(http: httpx.AsyncClient, proof: str) -> dict[str, str]:
    return {"Origin": str(http.base_url).rstrip("/"), PROOF_HEADER: proof}

"""Attacks on signing in, with a provider or behind a proxy, by others than the person."""

from __future__ import annotations

import asyncio
import hmac
import ssl
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from ledger import Ledger
from ledger.core.errors import InputError
from ledger.testing import TestClock
from tests.gateway.callers import Served, in_process, served
from tests.gateway.conftest import sockets
from tests.support.providers import CLIENT, SECRET, Claims, LyingProvider
from workers.gateway import provider as of_provider
from workers.gateway.authentication import PROOF_HEADER
from workers.gateway.provider_settings import ProxySettings, read_oidc, read_proxy
from workers.gateway.server import ListenAddress, listen, run
from workers.gateway.settings import GatewaySettings

__all__ = ["sockets"]

ORIGIN: Final = "http://gateway"

OIDC: Final = """
issuer = "{issuer}"
client_id = "permission-ledger"
client_secret_file = "secret"
session = "1h"

[[roles]]
group = "platform"
role = "admin"
everywhere = true

[[roles]]
group = "shop"
role = "approver"
projects = ["shop"]

[[roles]]
group = "till"
role = "approver"
projects = ["till"]
"""

PROXY: Final = """
from = [{addresses}]
secret_file = "secret"

[[roles]]
group = "shop"
role = "approver"
projects = ["shop"]
"""

PROXY_SECRET: Final = "a-secret-of-the-test-that-is-long-enough"


@pytest.fixture
def provider() -> Iterator[LyingProvider]:
    with LyingProvider().serving() as one:
        yield one


@pytest.fixture
def settings(provider: LyingProvider, tmp_path: Path) -> GatewaySettings:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    (tmp_path / "oidc.toml").write_text(OIDC.format(issuer=provider.issuer))
    return GatewaySettings(public_url=ORIGIN, oidc=read_oidc(tmp_path / "oidc.toml"))


@pytest.fixture
async def ledger(server: Any, clock: TestClock) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, clock=clock) as one:
        yield one


@pytest.fixture
async def gateway(ledger: Ledger, settings: GatewaySettings) -> AsyncIterator[Served]:
    async with in_process(ledger, settings) as one:
        yield one


class Browser:
    """A browser at the gateway: stores cookies, and follows no redirect by itself."""

    def __init__(self, gateway: Served) -> None:
        self.caller = gateway.caller_with(None)

    async def begins(self) -> str:
        """Return the provider's address to which the browser is sent."""
        sent = await self.caller.get("/v1/oidc/sign-in")
        assert sent.status_code == 303, sent.text
        return sent.headers["location"]

    async def comes_back(self, answer: dict[str, str]) -> httpx.Response:
        return await self.caller.http.get("/v1/oidc/callback", params=answer)

    async def uses(self, code: str) -> httpx.Response:
        """Press the page's button."""
        made = await self.caller.post("/v1/sign-in", {"code": code}, Origin=ORIGIN)
        if made.status_code == 200:
            self.caller.http.headers[PROOF_HEADER] = made.json()["proof"]
        return made


async def came_back(gateway: Served, provider: LyingProvider) -> httpx.Response:
    """Run a person's whole way to the provider and back."""
    browser = Browser(gateway)
    where = await browser.begins()
    return await browser.comes_back(await asyncio.to_thread(provider.signs_in, where))


def code_in(answer: httpx.Response) -> str:
    assert answer.status_code == 303, answer.text
    parts = urlsplit(answer.headers["location"])
    assert (parts.netloc, parts.path) == ("", "/sign-in")
    return parse_qs(parts.query)["code"][0]


async def signed_in(gateway: Served, provider: LyingProvider) -> Browser:
    browser = Browser(gateway)
    answer = await browser.comes_back(provider.signs_in(await browser.begins()))
    made = await browser.uses(code_in(answer))
    assert made.status_code == 200, made.text
    return browser


# --- the regular flow -------------------------------------------------------------------------------------------------


async def test_a_person_gets_the_role_and_the_projects_of_their_groups(
    gateway: Served, provider: LyingProvider
) -> None:
    provider.person["groups"] = ["shop", "till", "something else"]
    browser = await signed_in(gateway, provider)
    me = (await browser.caller.get("/v1/me")).json()
    assert (me["name"], me["role"], me["projects"]) == ("ann@example.com", "approver", ["shop", "till"])
    ways = (await browser.caller.get("/v1/sign-in-ways")).json()
    assert ways == {"oidc": "your organisation", "proxy": None}


async def test_groups_that_only_the_user_info_tells_count(gateway: Served, provider: LyingProvider) -> None:
    groups = provider.person.pop("groups")
    provider.user_info["groups"] = groups
    assert code_in(await came_back(gateway, provider))


# --- being somebody else ----------------------------------------------------------------------------------------------


async def test_bringing_ones_own_answer_to_the_browser_of_another(gateway: Served, provider: LyingProvider) -> None:
    """Otherwise the victim would answer in the attacker's name, or the attacker would get the victim's session."""
    eve, ann = Browser(gateway), Browser(gateway)
    answer = provider.signs_in(await eve.begins())
    refused = await ann.comes_back(answer)
    assert refused.status_code == 401, "this browser began nothing"
    await ann.begins()
    assert (await ann.comes_back(answer)).status_code == 401, "it began another visit"


async def test_forging_the_cookie_of_a_visit(gateway: Served, provider: LyingProvider) -> None:
    browser = Browser(gateway)
    answer = provider.signs_in(await browser.begins())
    signed = browser.caller.http.cookies["permission_ledger_visit"]
    for forged in (answer["state"], signed[:-2] + "xx", f"{answer['state']}.x.y", "x" * 10_000, ""):
        browser.caller.http.cookies.clear()
        browser.caller.http.cookies.set("permission_ledger_visit", forged)
        assert (await browser.comes_back(answer)).status_code == 401


async def test_learning_nonce_or_verifier_from_cookie_and_address(gateway: Served, provider: LyingProvider) -> None:
    """A page on another port of this machine receives the cookie: it must not suffice to redeem a code."""
    browser = Browser(gateway)
    where = await browser.begins()
    cookie = browser.caller.http.cookies["permission_ledger_visit"]
    asked = parse_qs(urlsplit(where).query)
    assert asked["nonce"][0] not in cookie
    assert "code_verifier" not in asked
    stolen = provider.signs_in(where)
    form = {"code": stolen["code"], "redirect_uri": asked["redirect_uri"][0], "code_verifier": cookie}
    async with httpx.AsyncClient() as thief:
        answer = await thief.post(f"{provider.issuer}/token", data=form, auth=(CLIENT, SECRET))
    assert answer.status_code == 400


async def test_opening_the_sign_in_page_many_times(
    gateway: Served, provider: LyingProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(ssl, "create_default_context", lambda *_, **__: made.append("a context"))
    browser = Browser(gateway)
    for _ in range(3):
        await browser.begins()
    answer = provider.signs_in(await browser.begins())
    assert (await browser.comes_back(answer)).status_code == 303
    assert not made, "certificates are loaded once, at the start: each time takes the loop tens of milliseconds"


async def test_using_an_answer_twice(gateway: Served, provider: LyingProvider) -> None:
    browser = Browser(gateway)
    answer = provider.signs_in(await browser.begins())
    cookies = dict(browser.caller.http.cookies)
    code = code_in(await browser.comes_back(answer))
    browser.caller.http.cookies.update(cookies)
    assert (await browser.comes_back(answer)).status_code == 401, "the provider takes a code once"
    assert (await browser.uses(code)).status_code == 200
    assert (await browser.uses(code)).status_code in (401, 404), "and so do we"


async def test_an_answer_of_another_provider(gateway: Served, provider: LyingProvider) -> None:
    browser = Browser(gateway)
    answer = provider.signs_in(await browser.begins())
    mixed = {**answer, "iss": "https://evil.example"}
    assert (await browser.comes_back(mixed)).status_code == 401
    del mixed["iss"]
    assert (await browser.comes_back(mixed)).status_code == 401, "promised by the provider, so demanded"


# --- lies in an ID token ----------------------------------------------------------------------------------------------

NOW: Final = int(time.time())

FALSE_CLAIMS: Final[dict[str, Callable[[Claims], Claims]]] = {
    "another issuer": lambda claims: {**claims, "iss": "https://evil.example"},
    "for another client": lambda claims: {**claims, "aud": "another-client"},
    "for several, authorised to another": lambda claims: {**claims, "aud": [CLIENT, "other"], "azp": "other"},
    "for several, authorised to nobody": lambda claims: {**claims, "aud": [CLIENT, "other"]},
    "of another visit": lambda claims: {**claims, "nonce": "x" * 43},
    "of no visit": lambda claims: {name: value for name, value in claims.items() if name != "nonce"},
    "expired": lambda claims: {**claims, "iat": NOW - 7200, "exp": NOW - 3600},
    "without an end": lambda claims: {name: value for name, value in claims.items() if name != "exp"},
    "of tomorrow": lambda claims: {**claims, "iat": NOW + 86_400, "exp": NOW + 90_000},
    "not valid yet": lambda claims: {**claims, "nbf": NOW + 86_400, "exp": NOW + 90_000},
    "of nobody": lambda claims: {name: value for name, value in claims.items() if name != "sub"},
    "an address that was never verified": lambda claims: {**claims, "email_verified": False},
    "an address that somebody says is verified": lambda claims: {**claims, "email_verified": "true"},
    "without a name": lambda claims: {name: value for name, value in claims.items() if name != "email"},
    "a name that is no text": lambda claims: {**claims, "email": ["ann@example.com"]},
}


@pytest.mark.parametrize("lie", FALSE_CLAIMS)
async def test_an_id_token_that_is_not_for_us_of_now_and_of_this_visit(
    gateway: Served, provider: LyingProvider, lie: str
) -> None:
    provider.change = FALSE_CLAIMS[lie]
    refused = await came_back(gateway, provider)
    assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHORIZED"), lie


def of_anybody(provider: LyingProvider) -> Callable[[Claims], str]:
    key = RSAKey.generate_key(2048, parameters={"kid": "key-1"})
    return lambda claims: jwt.encode({"alg": "RS256", "kid": "key-1"}, claims, key)


def of_an_unknown_key(provider: LyingProvider) -> Callable[[Claims], str]:
    key = RSAKey.generate_key(2048, parameters={"kid": "key-9"})
    return lambda claims: jwt.encode({"alg": "RS256", "kid": "key-9"}, claims, key)


def by_the_shared_secret(provider: LyingProvider) -> Callable[[Claims], str]:
    return lambda claims: jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET * 2))


def by_the_public_key_as_a_secret(provider: LyingProvider) -> Callable[[Claims], str]:
    def forged(claims: Claims) -> str:
        body = provider.signed(claims).split(".")[1]
        head = urlsafe_b64encode(b'{"alg":"HS256","kid":"key-1"}').rstrip(b"=").decode()
        digest = hmac.digest(provider.keys[0].as_pem(private=False), f"{head}.{body}".encode(), "sha256")
        return f"{head}.{body}.{urlsafe_b64encode(digest).rstrip(b'=').decode()}"

    return forged


def by_nothing(provider: LyingProvider) -> Callable[[Claims], str]:
    def unsigned(claims: Claims) -> str:
        head, body, _ = provider.signed(claims).split(".")
        del head
        return f"eyJhbGciOiJub25lIn0.{body}."

    return unsigned


def with_other_claims(provider: LyingProvider) -> Callable[[Claims], str]:
    def changed(claims: Claims) -> str:
        head, _, signature = provider.signed(claims).split(".")
        other = provider.signed({**claims, "groups": ["platform"]}).split(".")[1]
        return f"{head}.{other}.{signature}"

    return changed


@pytest.mark.parametrize(
    "forge",
    [
        of_anybody,
        of_an_unknown_key,
        by_the_shared_secret,
        by_the_public_key_as_a_secret,
        by_nothing,
        with_other_claims,
        lambda _: lambda _: "x.y.z",
    ],
)
async def test_signing_an_id_token_oneself(
    gateway: Served, provider: LyingProvider, forge: Callable[[LyingProvider], Callable[[Claims], str]]
) -> None:
    provider.sign = forge(provider)
    assert (await came_back(gateway, provider)).status_code == 401


async def test_clocks_that_differ_by_less_than_the_setting_keep_nobody_out(
    gateway: Served, provider: LyingProvider
) -> None:
    now = int(time.time())
    provider.change = lambda claims: {**claims, "iat": now + 30, "nbf": now + 30}
    assert code_in(await came_back(gateway, provider))
    provider.change = lambda claims: {**claims, "iat": now - 330, "exp": now - 5}
    assert code_in(await came_back(gateway, provider))


async def test_user_info_of_another_person(gateway: Served, provider: LyingProvider) -> None:
    del provider.person["groups"]
    provider.user_info = {"sub": "2", "groups": ["platform"]}
    assert (await came_back(gateway, provider)).status_code == 401


# --- keys and addresses -----------------------------------------------------------------------------------------------


async def test_a_new_key_of_the_provider_is_taken_at_once(gateway: Served, provider: LyingProvider) -> None:
    assert code_in(await came_back(gateway, provider))
    provider.take_new_key()
    assert code_in(await came_back(gateway, provider))


async def test_signing_with_a_key_that_the_provider_withdrew(
    ledger: Ledger, settings: GatewaySettings, provider: LyingProvider
) -> None:
    now = [0.0]
    async with in_process(ledger, settings) as gateway:
        gateway.gateway.provider = of_provider.Provider(gateway.gateway.settings.oidc, lambda: now[0])  # type: ignore[arg-type]
        assert code_in(await came_back(gateway, provider))
        old = provider.keys[0]
        provider.take_new_key()
        provider.sign = lambda claims: jwt.encode({"alg": "RS256", "kid": "key-1"}, claims, old)
        now[0] = of_provider.FRESH_SECONDS + 1
        assert (await came_back(gateway, provider)).status_code == 401


@pytest.mark.parametrize(
    "told",
    [
        {"issuer": "https://evil.example"},
        {"issuer": "http://127.0.0.1"},
        {"token_endpoint": "http://evil.example/token"},
        {"jwks_uri": "http://evil.example/jwks"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"jwks_uri": None},
    ],
)
async def test_a_provider_that_names_another_or_sends_secrets_in_clear(
    gateway: Served, provider: LyingProvider, told: Claims
) -> None:
    provider.metadata = told
    refused = await gateway.caller_with(None).get("/v1/oidc/sign-in")
    assert (refused.status_code, refused.json()["code"]) == (502, "PROVIDER")


async def test_a_provider_that_is_gone_is_told_and_keeps_no_token_out(
    ledger: Ledger, settings: GatewaySettings
) -> None:
    with LyingProvider().serving() as gone:
        issuer = gone.issuer
    oidc = settings.oidc
    assert oidc
    unreachable = type(oidc)(**{**{name: getattr(oidc, name) for name in oidc.__struct_fields__}, "issuer": issuer})
    async with in_process(ledger, GatewaySettings(public_url=ORIGIN, oidc=unreachable)) as gateway:
        refused = await gateway.caller_with(None).get("/v1/oidc/sign-in")
        assert refused.json()["code"] == "PROVIDER"
        assert (await (await gateway.caller("approver", "bob")).get("/v1/me")).status_code == 200


# --- people whose groups are gone -------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [[], ["guests"], None, "guests", {"shop": True}, ["SHOP"], ["shop "]])
async def test_coming_without_a_group_that_has_a_role(gateway: Served, provider: LyingProvider, groups: Any) -> None:
    provider.person["groups"] = groups
    refused = await came_back(gateway, provider)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


async def test_staying_after_the_groups_are_gone(gateway: Served, provider: LyingProvider, clock: TestClock) -> None:
    browser = await signed_in(gateway, provider)
    provider.person["groups"] = []
    clock.advance("59m")
    assert (await browser.caller.get("/v1/me")).status_code == 200
    clock.advance("1m")
    assert (await browser.caller.get("/v1/me")).status_code == 401
    assert (await came_back(gateway, provider)).status_code == 403


async def test_keeping_a_code_until_the_groups_are_gone(
    gateway: Served, provider: LyingProvider, clock: TestClock
) -> None:
    browser = Browser(gateway)
    code = code_in(await browser.comes_back(provider.signs_in(await browser.begins())))
    clock.advance("2m")
    assert (await browser.uses(code)).status_code in (401, 404)


async def test_an_administrator_ends_a_session_at_once(gateway: Served, provider: LyingProvider) -> None:
    browser = await signed_in(gateway, provider)
    root = await gateway.caller("admin", "root")
    listed = (await root.get("/v1/tokens")).json()["tokens"]
    [session] = [one for one in listed if one["name"] == "ann@example.com" and one["use"] == "bearer"]
    await root.delete(f"/v1/tokens/{session['token_id']}")
    assert (await browser.caller.get("/v1/me")).status_code == 401


async def test_signing_out_here_and_at_the_provider(gateway: Served, provider: LyingProvider) -> None:
    browser = await signed_in(gateway, provider)
    assert (await browser.caller.post("/v1/sign-out", Origin=ORIGIN)).status_code == 204
    assert (await browser.caller.get("/v1/me")).status_code == 401
    there = await browser.caller.get("/v1/oidc/sign-out")
    assert there.headers["location"].startswith(f"{provider.issuer}/end?client_id={CLIENT}&post_logout_redirect_uri=")


# --- behind a proxy ---------------------------------------------------------------------------------------------------


def behind(folder: Path, *addresses: str) -> ProxySettings:
    (folder / "secret").write_text(PROXY_SECRET)
    (folder / "proxy.toml").write_text(PROXY.format(addresses=", ".join(f'"{one}"' for one in addresses)))
    return read_proxy(folder / "proxy.toml")


def as_the_proxy(**headers: str) -> dict[str, str]:
    told = {"X-Forwarded-User": "ann", "X-Forwarded-Groups": "shop, guests", "X-Proxy-Secret": PROXY_SECRET}
    return {**told, **{name.replace("_", "-"): value for name, value in headers.items()}}


@pytest.fixture
async def over_tcp(ledger: Ledger, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    """A gateway on a port of this machine, with a proxy that is named by the parameter."""
    stop, ready = asyncio.Event(), asyncio.Event()
    listener = listen(ListenAddress(host="127.0.0.1"))
    settings = GatewaySettings(public_url=ORIGIN, proxy=behind(tmp_path, *request.param))
    serving = asyncio.create_task(run(ledger, settings, [listener], stop, lambda _: ready.set()))
    try:
        await ready.wait()
        address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with httpx.AsyncClient(base_url=address) as client:
            yield client
    finally:
        stop.set()
        await serving
        listener.close()


@pytest.mark.parametrize("over_tcp", [["127.0.0.1"], ["10.0.0.0/8", "127.0.0.0/8"]], indirect=True)
async def test_a_person_whom_the_proxy_vouches_for_signs_in(over_tcp: httpx.AsyncClient) -> None:
    code = code_in(await over_tcp.get("/v1/proxy/sign-in", headers=as_the_proxy()))
    made = await over_tcp.post("/v1/sign-in", json={"code": code}, headers={"Origin": ORIGIN})
    assert made.json()["name"] == "ann"
    assert (await over_tcp.get("/v1/sign-in-ways")).json() == {"oidc": None, "proxy": "your organisation"}


@pytest.mark.parametrize("over_tcp", [["10.0.0.5", "unix"], ["192.168.0.0/16"]], indirect=True)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"X_Forwarded_For": "10.0.0.5"},
        {"X_Forwarded_For": "192.168.0.1", "X_Real_IP": "192.168.0.1"},
        {"Forwarded": "for=10.0.0.5"},
        {"X_Forwarded_For": "10.0.0.5, 10.0.0.5", "X_Forwarded_Proto": "https"},
    ],
)
async def test_pretending_to_be_the_proxy_from_another_address(
    over_tcp: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    refused = await over_tcp.get("/v1/proxy/sign-in", headers=as_the_proxy(**headers))
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("over_tcp", [["127.0.0.1"]], indirect=True)
@pytest.mark.parametrize("secret", ["", "x", PROXY_SECRET[:-1], f"{PROXY_SECRET}x"])
async def test_pretending_to_be_the_proxy_on_its_own_machine(over_tcp: httpx.AsyncClient, secret: str) -> None:
    """An agent on the proxy's machine has the same address, and all headers but the secret."""
    refused = await over_tcp.get("/v1/proxy/sign-in", headers=as_the_proxy(X_Proxy_Secret=secret))
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


@pytest.mark.parametrize("over_tcp", [["127.0.0.1"]], indirect=True)
@pytest.mark.parametrize("name", ["X-Forwarded-User", "X-Forwarded-Groups", "X-Proxy-Secret"])
async def test_adding_a_header_of_ones_own_before_the_proxys(over_tcp: httpx.AsyncClient, name: str) -> None:
    headers = [(name, "platform"), *as_the_proxy().items()]
    refused = await over_tcp.get("/v1/proxy/sign-in", headers=headers)
    assert refused.status_code in (401, 403)


async def test_a_proxys_headers_where_no_proxy_was_named(gateway: Served) -> None:
    caller = gateway.caller_with(None)
    assert (await caller.send("GET", "/v1/proxy/sign-in", None, **as_the_proxy())).status_code == 404
    assert (await caller.send("GET", "/v1/me", None, **as_the_proxy())).status_code == 401


async def test_a_proxy_on_the_unix_socket_where_it_was_named(ledger: Ledger, sockets: Path, tmp_path: Path) -> None:
    for addresses, status in ((["unix"], 303), (["10.0.0.5"], 403)):
        settings = GatewaySettings(public_url=ORIGIN, proxy=behind(tmp_path, *addresses))
        async with served(ledger, sockets / "other.sock", settings) as gateway:
            answer = await gateway.caller_with(None).send("GET", "/v1/proxy/sign-in", None, **as_the_proxy())
            assert answer.status_code == status, addresses


# --- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('projects = ["shop"]', "", "the group `shop` needs either"),
        ("everywhere = true", 'everywhere = true\nprojects = ["x"]', "and not both"),
        ('role = "admin"', 'role = "agent"', "Invalid enum value 'agent'"),
        ('issuer = "{issuer}"', 'issuer = "http://login.example.com"', "must be an https:// address"),
        ('session = "1h"', 'session = "30d"', "at most 1440 minutes"),
        ('session = "1h"', 'session = "none"', "at most 1440 minutes"),
        ('client_secret_file = "secret"', 'client_secret_file = "gone"', "cannot be read"),
        ("client_id", "client", "Object contains unknown field `client`"),
        ('session = "1h"', 'scopes = ["email"]', "must hold `openid`"),
    ],
)
def test_settings_that_would_let_more_people_in_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in OIDC
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "oidc.toml").write_text(OIDC.replace(old, new, 1).replace("{issuer}", "https://login.example.com"))
    with pytest.raises(InputError) as error:
        read_oidc(tmp_path / "oidc.toml")
    assert said in error.value.text
    assert str(tmp_path / "oidc.toml") in error.value.text


@pytest.mark.parametrize(
    ("secret", "addresses"), [("short", ["127.0.0.1"]), (PROXY_SECRET, []), (PROXY_SECRET, ["evil"])]
)
def test_a_proxy_without_an_address_or_with_a_short_secret_is_refused(
    tmp_path: Path, secret: str, addresses: list[str]
) -> None:
    behind(tmp_path, "127.0.0.1")
    (tmp_path / "secret").write_text(secret)
    (tmp_path / "proxy.toml").write_text(PROXY.format(addresses=", ".join(f'"{one}"' for one in addresses)))
    with pytest.raises(InputError):
        read_proxy(tmp_path / "proxy.toml")

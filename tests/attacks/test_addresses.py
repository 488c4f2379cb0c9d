"""Addresses that no parser agrees on, wherever the product reads one: a clear refusal or a question, never a failure."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from ledger.access.passkey_checks import belongs_to
from ledger.core.addresses import split_address
from ledger.core.errors import InputError, LedgerError
from ledger.log.archive.buckets import check_url
from ledger.policy.urls import read_address
from ledger.stores.urls import open_store
from tests.gateway.callers import Caller, Served
from tests.house.sources import files, text_of
from tests.support.rows import every
from workers.gateway.names import Names, check_host, check_public_url, host_name
from workers.gateway.provider_settings import is_safe_url
from workers.runtime.server_user import write_server_user
from workers.transport.place import BridgeError, parse_place
from workers.upkeep.health import is_on_this_machine
from workers.webpush.services import PushServices, named_service

STRANGE: Final = [
    "https://github.com\uff0fevil.example", "https://github.com\uff03@evil.example", "https://\u2100.example", "http://[::1",
    "http://::1]", "http://[", "http://]", "http://[]", "http://[1.2.3.4]/", "http://[v1.x]/", "http://[::1]evil/", "http://[zz]/",
    "http://h:99999/", "http://h:-1/", "http://h:p/", "http://h:\u0661/", "http://u:p[w@h/", "//[::1", "http://%zz/", "http://\u0000/",
    "http://a b/", "http://" + "a" * 300 + ".example/", "http://xn--/", "http://.", "http://", ":", "http:\\\\h\uff0fx",
]  # fmt: skip
TOOLS: Final = {
    "opencode": "webfetch",
    "claude": "WebFetch",
    "brutus": "fetch",
    "betcode": "WebFetch",
    "codelia": "webfetch",
}


@pytest.fixture
async def worker(gateway: Served) -> Caller:
    worker = await gateway.caller("admin", "worker")
    for dialect in TOOLS:
        opened = await worker.put(f"/v1/sessions/{dialect}", {"dialect": dialect})
        assert opened.is_success, opened.text
    return worker


@every("address", STRANGE)
async def test_a_call_for_one_is_asked_about(worker: Caller, address: str) -> None:
    for dialect, tool in TOOLS.items():
        for body in (
            {"tool_name": tool, "input": {"url": address}},
            {"permission": "webfetch", "patterns": [address], "always": [address]},
            {"permission": "bash", "patterns": [f"curl '{address}'"]},
        ):
            asked = await worker.post(f"/v1/sessions/{dialect}/asks", body)
            assert asked.status_code in (202, 422), f"{dialect} {body}: {asked.text}"
            assert asked.status_code == 202 or asked.json()["code"] != "INTERNAL"


@every("address", STRANGE)
async def test_whoever_explains_answers_or_grants_one_is_told_what_is_wrong(worker: Caller, address: str) -> None:
    line = {"dialect": "opencode", "permission": "webfetch", "patterns": [address], "rules": []}
    session = "/v1/sessions/opencode"
    asked = await worker.post(f"{session}/asks", {"permission": "webfetch", "patterns": [address], "always": [address]})
    place = f"{session}/asks/{asked.json()['request_id']}"
    answers = [
        await worker.post("/v1/policy/check", [line]),
        await worker.post("/v1/policy/explain", line),
        await worker.get(f"{place}/why"),
        await worker.post("/v1/grants", {"session": "opencode", "permission": "webfetch", "patterns": [address]}),
        await worker.post(f"{place}/reply", {"reply": "session", "patterns": [address]}),
        await worker.post(f"{place}/reply", {"reply": "session"}),
        await worker.post("/v1/notifications/devices", {"name": "x", "endpoint": address, "keys": {}}),
    ]
    assert [one.text for one in answers if one.status_code >= 500] == []


@every("host", ["[1.2.3.4]", "[::1", "[:::::]", "[::]:99999", "h:99999", "a b", "[v1.x]", "u@h", "[::1]x", "."])
async def test_a_host_or_an_origin_that_is_none_is_refused(worker: Caller, host: str) -> None:
    assert not Names(frozenset(), any_address=True).has(host, on_socket=False)
    for headers in ({"Host": host}, {"Origin": f"http://{host}"}):
        told = await worker.send("POST", "/v1/passkeys/challenge", {"for": "register"}, **headers)
        assert 400 <= told.status_code < 500, (headers, told.text)


@every("address", STRANGE)
def test_every_other_reader_has_an_answer_or_a_refusal(address: str, tmp_path: Path) -> None:
    authority = address.partition("://")[2]
    (tmp_path / "url").write_text(address)
    assert not belongs_to(address, "github.com")
    assert host_name(authority) is None or split_address(f"//{authority}").hostname
    for read in (
        lambda: read_address(address),
        lambda: is_on_this_machine(address),
        lambda: is_safe_url(address),
        lambda: check_host(address),
        lambda: check_url(address),
        lambda: named_service(authority),
        lambda: PushServices().check(address),
        lambda: parse_place(address, None),
        lambda: open_store(address.replace("http", "redis")),
        lambda: write_server_user("redis://h:6379", tmp_path / "url", tmp_path / "acl"),
    ):
        with suppress(LedgerError, BridgeError):
            read()


@every("address", [*STRANGE, "inbox.example.com", "ftp://h"])
def test_a_gateway_does_not_start_with_one_as_its_own(address: str) -> None:
    if split_address(address).hostname and address.isascii() and address.startswith("http"):
        check_public_url(address)
    else:
        with pytest.raises(InputError, match="the --public-url"):
            check_public_url(address)


def test_nothing_else_splits_addresses() -> None:
    """Those that do catch what it raises, or read an address that was checked."""
    known = {
        *("ledger/core/addresses.py", "ledger/log/archive/buckets.py", "ledger/stores/redis/addresses.py"),
        *("ledger/stores/redis/addresses.py", "ledger/stores/urls.py", "workers/webpush/services.py"),
    }
    found = {
        file for file in files("ledger", "workers", "projections") if re.search("urlsplit|urlparse", text_of(file))
    }
    assert found == known

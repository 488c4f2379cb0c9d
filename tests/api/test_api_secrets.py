"""The password of a URL is never shown."""

from __future__ import annotations

import logging
import traceback
from typing import TYPE_CHECKING

import pytest
import redis

from ledger import Ledger, LedgerError, SyncLedger

if TYPE_CHECKING:
    from tests.support.servers import RealServer, StartServer

SECRET = "s3cr3t-w0rd"


def with_password(server: RealServer) -> RealServer:
    with redis.Redis.from_url(server.url) as client:
        client.config_set("requirepass", SECRET)
    return server


def everything_said(error: BaseException, caplog: pytest.LogCaptureFixture) -> str:
    shown = "".join(traceback.format_exception(error))
    data = repr(error.as_json()) if isinstance(error, LedgerError) else ""
    return f"{shown}{data}{error!r}{caplog.text}"


@pytest.mark.slow
@pytest.mark.parametrize(
    "url",
    [
        f"redis://ann:{SECRET}@127.0.0.1:1/0",
        f"redis://:{SECRET}@127.0.0.1:1",
        f"rediss://ann:{SECRET}@127.0.0.1:1/0",
        f"redis://ann:{SECRET}@127.0.0.1:notaport/0",
        f"redis://127.0.0.1:1/0?password={SECRET}",
        f"unix://ann:{SECRET}@/nowhere/at/all.sock",
        f"unix:///nowhere/at/all.sock?password={SECRET}",
        f"redis+cluster://ann:{SECRET}@127.0.0.1:1",
        f"http://ann:{SECRET}@127.0.0.1",
        f"ann:{SECRET}@127.0.0.1",
        f"redis://ann:{SECRET}@[::1/0",
        f"redis://127.0.0.1:notaport/0?password={SECRET}",
        f"foo://127.0.0.1/0?password={SECRET}",
        f"redis://ann:{SECRET}@@127.0.0.1:notaport",
        f"redis://ann:{SECRET}/x@127.0.0.1:notaport",
    ],
)
async def test_a_url_that_leads_nowhere_shows_no_password(url: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(LedgerError) as caught:
        async with Ledger.connect(url, entry_points=False):
            pass
    assert SECRET not in everything_said(caught.value, caplog)


@pytest.mark.parametrize("given", ["wrong-" + SECRET, ""])
async def test_a_refused_password_is_a_clear_error_without_it(
    start_server: StartServer, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    server = with_password(start_server())
    url = f"{server.url}?password={given}" if given else server.url
    caplog.set_level(logging.DEBUG)
    with pytest.raises(LedgerError) as caught:
        async with Ledger.connect(url, entry_points=False):
            pass
    assert SECRET not in everything_said(caught.value, caplog)
    assert "password" in caught.value.text or "uthentication" in caught.value.text


async def test_no_error_or_log_of_a_ledger_that_is_used_shows_its_password(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    server = with_password(start_server())
    caplog.set_level(logging.DEBUG)
    async with Ledger.connect(f"{server.url}?password={SECRET}", entry_points=False) as ledger:
        session = await ledger.session("ses_1")
        await session.submit("bash", ["ls"], request_id="call_1")
        with redis.Redis.from_url(server.url, password=SECRET) as client:
            client.client_kill_filter(_type="normal")
        await session.reply("call_1", "once")
        assert SECRET not in caplog.text + repr(ledger) + repr(session) + repr(ledger.store)


def test_the_synchronous_face_shows_no_password_either(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with (
        pytest.raises(LedgerError) as caught,
        SyncLedger.connect(f"redis://ann:{SECRET}@127.0.0.1:1", entry_points=False),
    ):
        pass
    assert SECRET not in everything_said(caught.value, caplog)

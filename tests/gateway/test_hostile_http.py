"""Callers with malformed, slow or endless HTTP: each gets an error and is disconnected, and nothing has changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

import pytest

from ledger import Ledger
from tests.gateway.callers import Caller, Served
from tests.gateway.conftest import gateway_on_socket as gateway
from tests.support.waiting import TIMEOUT_S, wait_until_async
from workers.gateway import server
from workers.gateway.server import HEAD_BYTES_MAX
from workers.gateway.settings import BODY_BYTES_MAX

__all__ = ["gateway"]

ASK: Final = json.dumps({"permission": "bash", "patterns": ["ls"], "request_id": "r1"}).encode()
REPLY: Final = b'{"reply": "once"}'
CHUNK: Final = b"%x\r\n%b\r\n" % (65_536, b" " * 65_536)


class Line:
    """A connection that sends any bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, token: str) -> None:
        self._reader = reader
        self.writer = writer
        self.token = token

    def head(self, method: str, path: str, *headers: str) -> bytes:
        lines = [f"{method} {path} HTTP/1.1", "Host: gateway", f"Authorization: Bearer {self.token}", *headers]
        return "\r\n".join([*lines, "", ""]).encode()

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> tuple[int, dict[str, object]]:
        """Return the status of the next answer, and its body."""
        async with asyncio.timeout(TIMEOUT_S):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().lower()
            length = next(int(line.partition(":")[2]) for line in head.split("\r\n") if line.startswith("content-len"))
            body = await self._reader.readexactly(length)
        return int(head.split()[1]), json.loads(body)

    async def has_no_reader(self) -> bool:
        """Return whether sending fails because the other side has closed the connection."""
        try:
            await self.send(b"y")
        except ConnectionError:
            return True
        return False

    async def is_closed(self) -> bool:
        """Wait for the other side's end; return whether it closed the connection without further data."""
        async with asyncio.timeout(TIMEOUT_S):
            try:
                return await self._reader.read() == b""
            except ConnectionError:
                return True


@pytest.fixture
async def line(gateway: Served, admin_caller: Caller) -> AsyncIterator[Line]:
    await admin_caller.put("/v1/sessions/ses_1")
    token = (await gateway.ledger.tokens.create("raw", "admin")).text
    one = Line(*await asyncio.open_unix_connection(str(gateway.socket)), token)
    try:
        yield one
    finally:
        one.writer.close()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "ARRIVE_SECONDS", 0.2)


async def nothing_changed(ledger: Ledger) -> bool:
    return (await (await ledger.attach("ses_1")).state()).version == 1


HALF: Final[dict[str, Callable[[Line], bytes]]] = {
    "nothing": lambda _: b"",
    "half a head": lambda line: line.head("POST", "/v1/sessions/ses_1/asks")[:-2],
    "half a body": lambda line: line.head("POST", "/v1/sessions/ses_1/asks", "Content-Length: 99") + ASK[:10],
    "half a chunked body": lambda line: (
        line.head("POST", "/v1/sessions/ses_1/asks", "Transfer-Encoding: chunked") + b"5\r\n" + ASK[:5] + b"\r\n"
    ),
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("half", HALF)
async def test_who_does_not_send_a_whole_request_in_time_is_sent_away(ledger: Ledger, line: Line, half: str) -> None:
    await line.send(HALF[half](line))
    status, body = await line.answer()
    assert (status, body["code"]) == (408, "TIMEOUT")
    assert await line.is_closed()
    assert await nothing_changed(ledger)


@pytest.mark.usefixtures("hasty")
async def test_who_sends_a_byte_now_and_then_has_no_more_time(ledger: Ledger, line: Line) -> None:
    async def drip() -> None:
        while not line.writer.is_closing():
            line.writer.write(b"X")
            await asyncio.wait([asyncio.ensure_future(asyncio.Event().wait())], timeout=0.02)

    await line.send(b"GET /v1/me HTTP/1.1\r\nX-Slow: ")
    dripping = asyncio.create_task(drip())
    try:
        assert (await line.answer())[0] == 408
    finally:
        dripping.cancel()
    assert await nothing_changed(ledger)


@pytest.mark.usefixtures("hasty")
async def test_who_waits_for_an_answer_waits_as_long_as_it_takes(admin_caller: Caller, line: Line) -> None:
    await line.send(line.head("POST", "/v1/sessions/ses_1/asks?wait=30", f"Content-Length: {len(ASK)}") + ASK)
    late = asyncio.get_running_loop().time() + 0.4
    while (await admin_caller.get("/v1/sessions/ses_1/asks/r1?wait=0.2")).status_code != 202:
        assert asyncio.get_running_loop().time() < late + TIMEOUT_S
    await admin_caller.get("/v1/sessions/ses_1/asks/r1?wait=0.5")
    await admin_caller.post("/v1/sessions/ses_1/asks/r1/reply", {"reply": "once"})
    assert (await line.answer())[1]["outcome"] == "allowed"
    await line.send(line.head("GET", "/v1/me"))
    assert (await line.answer())[1]["name"] == "raw"


def many_headers() -> Iterable[bytes]:
    while True:
        yield b"".join(b"X-%d: %b\r\n" % (number, b"y" * 100) for number in range(500))


def one_header() -> Iterable[bytes]:
    yield b"X-Long: "
    while True:
        yield b"y" * 65_536


def an_address() -> Iterable[bytes]:
    while True:
        yield b"a" * 65_536


@pytest.mark.parametrize(
    ("begin", "flood"),
    [
        (b"GET /v1/me HTTP/1.1\r\n", many_headers),
        (b"GET /v1/me HTTP/1.1\r\n", one_header),
        (b"GET /v1/", an_address),
    ],
    ids=["many headers", "a header", "an address"],
)
async def test_a_head_without_end_is_cut_off(line: Line, begin: bytes, flood: Callable[[], Iterable[bytes]]) -> None:
    await line.send(begin)
    sent = 0
    for part in flood():
        line.writer.write(part)
        sent += len(part)
        # What came with the first bytes is not counted: up to 256 KiB at once.
        if sent > 16 * HEAD_BYTES_MAX:
            break
    status, body = await line.answer()
    assert (status, body["code"]) == (431, "HEAD_TOO_LARGE")


async def test_who_is_cut_off_while_still_sending_reads_why(line: Line) -> None:
    await line.send(b"GET /v1/me HTTP/1.1\r\nX-Long: ")
    for _ in range(64):
        await line.send(b"y" * 65_536)  # none of it is refused by a connection that is gone
    status, body = await line.answer()
    assert (status, body["code"]) == (431, "HEAD_TOO_LARGE")


async def test_who_never_stops_sending_is_cut_off_in_the_end(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LINGER_BYTES_MAX", 1024 * 1024)
    await line.send(b"GET /v1/me HTTP/1.1\r\nX-Long: ")

    async def send_without_end() -> None:
        while True:
            await line.send(b"y" * 65_536)

    with pytest.raises(ConnectionError):
        async with asyncio.timeout(TIMEOUT_S):
            await send_without_end()


async def test_who_says_nothing_more_is_hung_up_on(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "LINGER_SECONDS", 0.1)
    await line.send(b"GET /v1/me HTTP/1.1\r\nX-Long: " + b"y" * 1_000)
    for _ in range(8):
        await line.send(b"y" * 65_536)
    assert (await line.answer())[0] == 431
    assert await line.is_closed()
    # The other direction too: what is sent now has nobody to read it.
    await wait_until_async(line.has_no_reader, "nobody to read what is sent")


async def test_a_head_of_a_fair_size_is_taken(line: Line) -> None:
    await line.send(line.head("GET", "/v1/me", f"X-Long: {'y' * 30_000}"))
    assert (await line.answer())[1]["name"] == "raw"


async def test_a_chunked_body_over_the_limit_is_refused(ledger: Ledger, line: Line) -> None:
    await line.send(line.head("POST", "/v1/sessions/ses_1/asks", "Transfer-Encoding: chunked"))
    for _ in range(BODY_BYTES_MAX // 65_536 + 1):
        line.writer.write(CHUNK)
    status, body = await line.answer()
    assert (status, body["code"]) == (413, "TOO_LARGE")
    assert await nothing_changed(ledger)


async def test_requests_that_come_together_are_answered_in_order(admin_caller: Caller, line: Line) -> None:
    ask = line.head("POST", "/v1/sessions/ses_1/asks", f"Content-Length: {len(ASK)}") + ASK
    reply = line.head("POST", "/v1/sessions/ses_1/asks/r1/reply", f"Content-Length: {len(REPLY)}") + REPLY
    await line.send(ask + reply + line.head("GET", "/v1/sessions/ses_1/asks/r1") + line.head("GET", "/v1/nowhere"))
    answers = [await line.answer() for _ in range(4)]
    assert [(status, body.get("outcome", body.get("code"))) for status, body in answers] == [
        (202, None),
        (200, "allowed"),
        (200, "allowed"),
        (404, "NOT_FOUND"),
    ]


@pytest.mark.parametrize(
    "headers",
    [
        ("Content-Length: 5", "Content-Length: 6"),
        ("Content-Length: 5", "Transfer-Encoding: chunked"),
        ("Content-Length: -1",),
        ("Content-Length: many",),
        ("Transfer-Encoding: chunked, identity",),
        ("X-Nothing\x00: 1",),
    ],
)
async def test_a_head_that_can_be_read_in_two_ways_is_refused(
    ledger: Ledger, line: Line, headers: tuple[str, ...]
) -> None:
    await line.send(line.head("POST", "/v1/sessions/ses_1/asks", *headers) + ASK)
    async with asyncio.timeout(TIMEOUT_S):
        assert (await line._reader.readline()).startswith(b"HTTP/1.1 400")
    assert await nothing_changed(ledger)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b'{"permission": "b\xff", "patterns": ["ls"]}', "MALFORMED"),
        (
            b'{"permission": "bash", "patterns": ["ls"], "metadata": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}",
            None,
        ),
        (b'{"permission": "bash\\u0000", "patterns": ["ls"]}', "INPUT"),
        (b'{"permission": "bash", "patterns": ["ls"], "request_id": "a\\u0000b"}', "INPUT"),
        (b'{"permission": "bash", "patterns": ["\\ud800"]}', None),
        (b'{"permission": "bash", "patterns": ["ls"], "metadata": {"n": 1e999}}', None),
        (b'{"permission": "bash", "patterns": ["ls"], "metadata": {"n": NaN}}', "MALFORMED"),
        (ASK + b"\x00", "MALFORMED"),
        (ASK + ASK, "MALFORMED"),
    ],
    ids=["no UTF-8", "nested", "NUL in a name", "NUL in an id", "half a pair", "infinite", "NaN", "NUL behind", "two"],
)
async def test_a_body_that_is_not_what_it_seems_is_refused(
    ledger: Ledger, line: Line, body: bytes, code: str | None
) -> None:
    head = line.head(
        "POST", "/v1/sessions/ses_1/asks", "Content-Type: application/json", f"Content-Length: {len(body)}"
    )
    await line.send(head + body)
    status, said = await line.answer()
    assert status in (400, 422), said
    assert said["code"] in ({code} if code else {"MALFORMED", "INPUT"})
    assert await nothing_changed(ledger)


async def test_of_a_member_given_twice_the_last_is_judged_shown_and_recorded(ledger: Ledger, line: Line) -> None:
    ask = (
        b'{"permission": "read", "permission": "bash", "patterns": ["ls"], "patterns": ["rm *"], "request_id": "r1",'
        b' "metadata": {"command": "ls", "command": "rm *"}}'
    )
    await line.send(line.head("POST", "/v1/sessions/ses_1/asks", f"Content-Length: {len(ask)}") + ask)
    _, said = await line.answer()
    request = (await (await ledger.attach("ses_1")).state()).pending["r1"]
    shown = said["request"]
    assert isinstance(shown, dict)
    assert (shown["permission"], shown["patterns"], shown["metadata"]) == ("bash", ["rm *"], {"command": "rm *"})
    assert (request.permission, request.patterns) == ("bash", ("rm *",))

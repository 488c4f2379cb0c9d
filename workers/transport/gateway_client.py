"""A bridge's client of the gateway: open a session, ask, wait, cancel, note finished calls.

A lost connection is made again, and the request repeated with the same request id, which attaches to the first one.
After `grace` seconds without an answer UnreachableError is raised; from then on each call is tried once, until the
gateway is back.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import quote

from workers.transport.operand_files import hashed
from workers.transport.place import (
    ANSWER_SECONDS,
    GRACE_SECONDS,
    BridgeError,
    GatewayRefusalError,
    ServerAddress,
    UnreachableError,
    find_place,
    trace_headers,
    unreachable,
)
from workers.transport.wire import LOST, Connections

LOGGED_AFTER_SECONDS: Final = 0.5


class Outage:
    """`grace` in seconds, from the first failure on. Times are of one monotonic clock."""

    def __init__(self, grace: float, tell: Callable[[str], None], find: Callable[[], ServerAddress]) -> None:
        self._grace = grace
        self._tell = tell
        self._find = find
        self._began_at: float | None = None
        self._failed_at = 0.0
        self._logged = False

    def lasts(self, now: float, pause: float, cause: Exception) -> bool:
        """Record a failure, and return whether to try again after a pause."""
        if self._began_at is None or now - self._failed_at > self._grace + pause:
            # The time since is unknown: the gateway may have been back.
            self._began_at, self._logged = now, False
        self._failed_at = now
        goes_on = now + pause <= self._began_at + self._grace
        if goes_on and not self._logged and now + pause > self._began_at + LOGGED_AFTER_SECONDS:
            self._logged = True
            self._tell(f"{unreachable(cause, self._find)}; trying for {self._grace:g} seconds")
        return goes_on

    def ended(self) -> None:
        if self._logged:
            self._tell("the permission ledger is reachable again")
        self._began_at, self._logged = None, False


Row = dict[str, Any]

WAIT_SECONDS: Final = 55.0
"""The wait of one request; shorter than the time-outs of proxies."""

RETRY_SECONDS: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
LOOK_SECONDS: Final = 1.0
IDLE_COUNT: Final = 8
OPERAND_TRIES_COUNT: Final = 4
"""Exchanges for one request: hashes for the ask, and newer ones for its claim."""


class GatewayClient:
    """A client for one event loop; any number of requests at once, each on a connection of its own, which is reused."""

    def __init__(
        self,
        find: Callable[[], ServerAddress] = find_place,
        *,
        grace: float = GRACE_SECONDS,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`tell` is called with a line when the gateway becomes unreachable, and when it is back."""
        self.grace = grace
        self._find = find
        self._outage = Outage(grace, tell, find)
        self._connections = Connections(find, IDLE_COUNT)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._connections.close()

    # --- what bridges do

    async def open_session(self, session: str, **body: Any) -> Row:
        """Open a session, or attach to it; None is left out. Raises GatewayRefusalError, UnreachableError."""
        said = {name: value for name, value in body.items() if value is not None}
        return await self.call("PUT", f"/v1/sessions/{_id(session)}", said)

    async def read_session(self, session: str) -> Row:
        """Return the summary of a session. Raises GatewayRefusalError with code UNKNOWN_SESSION."""
        return await self.call("GET", f"/v1/sessions/{_id(session)}")

    async def submit(self, session: str, body: Mapping[str, Any], *, wait: float = 0) -> Row:
        """Ask, and wait at most `wait` seconds; `outcome` None is pending. `body` must hold the `request_id`.

        If the body says that the gateway may ask for the files that the call executes, they are hashed here.
        """
        path = f"/v1/sessions/{_id(session)}/asks"
        return await self._with_operands(f"{path}?wait={wait:g}" if wait else path, body, wait)

    async def _with_operands(self, path: str, body: Mapping[str, Any], wait: float = 0) -> Row:
        """Post a body; hash the files that the gateway asks for: at the ask, and again at the claim."""
        tries = OPERAND_TRIES_COUNT
        while True:
            try:
                return await self.call("POST", path, body, patience=wait)
            except GatewayRefusalError as error:
                tries -= 1
                if error.code != "OPERANDS_WANTED" or not tries:
                    raise
                wanted = error.data.get("wanted")
            body = {**body, "operands": await asyncio.to_thread(hashed, wanted)}

    async def read(self, session: str, request_id: str, *, wait: float = 0) -> Row:
        """Return a request's row after at most `wait` seconds, or as soon as it is settled."""
        path = _ask(session, request_id)
        return await self.call("GET", f"{path}?wait={wait:g}" if wait else path, patience=wait)

    async def ask(self, session: str, body: Mapping[str, Any], *, seen: Callable[[Row], None] = lambda _: None) -> Row:
        """Ask, and wait until it is settled; `seen` is called with each row that is still pending.

        Raises GatewayRefusalError, and UnreachableError when the gateway stays away for longer than the grace.
        """
        row = await self.submit(session, body)
        while row["outcome"] is None or (row["outcome"] == "allowed" and row["request_id"] != body["request_id"]):
            # A tool call may need another permission first; once that is granted, asking again goes on.
            if row["outcome"] is None:
                seen(row)
            row = await self.submit(session, body, wait=WAIT_SECONDS)
        return row

    async def cancel(self, session: str, request_id: str, cause: str, reason: str | None = None) -> Row:
        """Withdraw a request: `asker_gave_up`, `asker_died` or `withdrawn`."""
        path = f"{_ask(session, request_id)}/cancel"
        return await self.call("POST", path, {"cause": cause, **({"reason": reason} if reason else {})})

    async def record(self, session: str, request_id: str, reply: str, prompt: str) -> Row:
        """Record a person's answer at the agent's own `prompt`. Only tokens that bring rules may do that."""
        path = f"{_ask(session, request_id)}/answered"
        return await self.call("POST", path, {"reply": reply, "prompt": prompt})

    async def claim(self, session: str, request_id: str, runner: Mapping[str, str]) -> Row:
        """Claim an allowed call for a runner (`name`, `call`) right before it runs; the row's `input` may run."""
        return await self._with_operands(f"{_ask(session, request_id)}/claim", {"runner": runner})

    async def finish(self, session: str, request_id: str, claim_id: str, *, ok: bool, output: str | None) -> Row:
        """Record the end of a claimed call's run."""
        said = {"claim_id": claim_id, "ok": ok, **({} if output is None else {"output": output})}
        return await self.call("POST", f"{_ask(session, request_id)}/finish", said)

    async def release(self, session: str, request_id: str, reason: str) -> Row:
        """Give back the claim of a call that was not told to run."""
        return await self.call("POST", f"{_ask(session, request_id)}/release", {"reason": reason})

    async def end_claims(self, session: str, runner: str) -> Row:
        """End the open claims of a runner that has ended without saying how its calls ended."""
        return await self.call("POST", f"/v1/sessions/{_id(session)}/claims-ended", {"runner": runner})

    async def tool_finished(self, session: str, *, key: str, **body: Any) -> None:
        """Note the call that ran: `request_id` or `call_id`, `ok`, `input`, `title`, `output`; once for each `key`."""
        said = {name: value for name, value in body.items() if value is not None}
        await self.call("POST", f"/v1/sessions/{_id(session)}/tools-finished", said, headers={"idempotency-key": key})

    # --- exchanges

    async def call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
        patience: float = 0,
    ) -> Row:
        """Make one exchange, retried while the gateway is away. Raises GatewayRefusalError, UnreachableError."""
        clock = asyncio.get_running_loop().time
        payload = b"" if body is None else json.dumps(body).encode()
        tries = 0
        while True:
            try:
                async with asyncio.timeout(ANSWER_SECONDS + patience):
                    row = await self._exchange(method, path, payload, headers or {})
            except UnreachableError as error:
                cause: Exception = error
            except GatewayRefusalError as error:
                if not error.is_temporary:
                    self._outage.ended()
                    raise
                cause = error
            except LOST as error:
                cause = error
            else:
                self._outage.ended()
                return row
            pause = RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)]
            if not self._outage.lasts(clock(), pause, cause):
                raise UnreachableError(unreachable(cause, self._find)) from cause
            tries += 1
            await asyncio.sleep(pause)

    async def look(self) -> str:
        """Return the address of a ready gateway, tried once. Raises UnreachableError."""
        try:
            async with asyncio.timeout(LOOK_SECONDS):
                await self._exchange("GET", "/readyz", b"", {})
        except (BridgeError, *LOST) as error:
            raise UnreachableError(unreachable(error, self._find)) from error
        return self._find().url

    async def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Row:
        head, content = await self._connections.exchange(
            method, path, body, lambda place: {**_headers(place), **trace_headers(os.environ), **headers}
        )
        found = _object(content)
        if head.status >= 400:
            raise GatewayRefusalError(head.status, found)
        return found


def _headers(place: ServerAddress) -> dict[str, str]:
    headers = {"content-type": "application/json", "user-agent": "permission-ledger-bridge"}
    if place.token:
        headers["authorization"] = f"Bearer {place.token}"
    return headers


def _ask(session: str, request_id: str) -> str:
    return f"/v1/sessions/{_id(session)}/asks/{_id(request_id)}"


def _id(text: str) -> str:
    return quote(text, safe="")


def _object(body: bytes) -> Row:
    if not body:
        return {}
    try:
        found = json.loads(body)
    except ValueError:
        raise ConnectionError("the gateway's answer is not JSON") from None
    return found if isinstance(found, dict) else {"answer": found}

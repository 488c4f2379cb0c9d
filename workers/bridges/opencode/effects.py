"""The tracker's actions at the gateway: requests asked, withdrawn and recorded, finished calls noted, with retries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from workers.bridges.held_claims import NOT_AS_CORRECTED
from workers.bridges.opencode.outcomes import (
    CloseSession,
    Note,
    OpencodeVerdict,
    RecordReply,
    Withdraw,
    verdict_of,
    verdict_of_question,
)
from workers.bridges.opencode.requests import FOLDER, Sessions, ask_body
from workers.bridges.opencode.shapes import RequestAsked
from workers.bridges.options import OnUnreachable
from workers.transport.errors import BridgeError, GatewayRefusalError, UnreachableError
from workers.transport.gateway_client import GatewayClient, Row
from workers.transport.wire import LOST

WriteLine = Callable[[str], None]

RETRY_SECONDS: Final = 1.0
SETTLED: Final = frozenset({404, 409, 410})
"""Unknown, answered or expired: nothing is left to withdraw or record."""

FORBIDDEN: Final = frozenset({403, 423})


class NoVerdictError(Exception):
    """No verdict: the gateway could not be reached, or refused. `may_be_pending`: the request may have been written."""

    def __init__(self, message: str, *, may_be_pending: bool) -> None:
        super().__init__(message)
        self.may_be_pending = may_be_pending


class GatewayEffects:
    """The effects of one bridge at the gateway."""

    def __init__(
        self, client: GatewayClient, sessions: Sessions, url: str, on_unreachable: OnUnreachable, tell: WriteLine
    ) -> None:
        self._client = client
        self._sessions = sessions
        self._url = url
        self._on_unreachable = on_unreachable
        self._tell = tell
        self._written: dict[str, asyncio.Event] = {}
        self._claimed_in: set[str] = set()
        """The ledger's sessions in which the server was told to run something."""

    async def judge(self, asked: RequestAsked) -> OpencodeVerdict:
        """Ask, and wait as long as it takes. Raises NoVerdictError."""
        written = self._written[asked.request_id] = asyncio.Event()
        try:
            while True:
                try:
                    return await self._judged(asked, written)
                except (UnreachableError, *LOST) as error:
                    if self._on_unreachable == "deny":
                        raise NoVerdictError(
                            f"denied, because nobody could be asked: {error}", may_be_pending=True
                        ) from error
                    # OpenCode's own prompt shows it meanwhile.
                    self._tell(f"`{asked.request_id}` is left to opencode's own prompt: {error}")
                    await asyncio.sleep(RETRY_SECONDS)
                except BridgeError as error:
                    raise NoVerdictError(
                        f"the permission ledger refuses: {error.text}", may_be_pending=False
                    ) from error
        finally:
            written.set()

    async def _judged(self, asked: RequestAsked, written: asyncio.Event) -> OpencodeVerdict:
        try:
            return await self._asked(asked, written)
        except GatewayRefusalError as error:
            if error.code != "UNKNOWN_SESSION":
                raise
            self._sessions.forget(asked.session)
            return await self._asked(asked, written)

    async def _asked(self, asked: RequestAsked, written: asyncio.Event) -> OpencodeVerdict:
        agent = await self._sessions.open(asked.session, asked.directory)
        body = ask_body(asked, agent, self._url, await self._sessions.call_behind(asked))
        name = self._sessions.name(asked.session)
        if _runs(asked):
            body["claim"] = self._runner_of(asked.request_id)
        row = await self._client.ask(name, body, seen=lambda _: written.set())
        if row["outcome"] == "allowed" and _runs(asked):
            self._claimed_in.add(name)
            if row.get("updated_input") is not None:
                await self._patiently(lambda: self._client.release(name, asked.request_id, NOT_AS_CORRECTED))
        return verdict_of_question(asked, row) if asked.is_question else verdict_of(row)

    def _runner_of(self, request_id: str) -> dict[str, str]:
        """Return the runner of a request: the server, which runs it once, whichever bridge answers it."""
        return {"name": f"opencode at {self._url}", "call": request_id}

    async def server_ended(self) -> None:
        """End all claims of the server, which has ended and will not tell how its calls did."""
        names, self._claimed_in = self._claimed_in, set()
        runner = self._runner_of("")["name"]
        with suppress(BridgeError):
            await asyncio.gather(*(self._client.end_claims(name, runner) for name in names))

    def forget(self, request_id: str) -> None:
        self._written.pop(request_id, None)

    async def withdraw(self, one: Withdraw) -> None:
        name = self._sessions.name(one.session)
        await self._after_asking(one.request_id)
        await self._patiently(lambda: self._client.cancel(name, one.request_id, one.cause, one.reason))

    async def record(self, one: RecordReply) -> None:
        """Record an answer given in OpenCode itself. If the token may not record it, the request is withdrawn."""
        name = self._sessions.name(one.session)
        path = f"/v1/sessions/{name}/asks/{one.request_id}/answered"
        said = {"reply": one.reply, "prompt": "opencode"} | ({} if one.input is None else {"updated_input": one.input})
        await self._after_asking(one.request_id)

        async def record() -> None:
            try:
                row = await self._client.call("POST", path, said)
                await self._note_claim(name, one, row)
                if row["outcome"] == "denied" and one.reply != "reject":
                    self._tell(f"`{one.request_id}` was allowed in opencode itself, and the rules now deny it")
            except GatewayRefusalError as error:
                if error.status not in FORBIDDEN:
                    raise
                reason = f"answered in opencode itself: {one.said}"
                await self._client.cancel(name, one.request_id, "withdrawn", reason)

        await self._patiently(record)

    async def _note_claim(self, name: str, one: RecordReply, row: Row) -> None:
        """Claim a call that opencode itself allowed, so that the log says who runs it; a refusal is told."""
        if row["outcome"] != "allowed" or one.input is not None or row["request"]["permission"] == FOLDER:
            return
        try:
            await self._client.claim(name, one.request_id, self._runner_of(one.request_id))
            self._claimed_in.add(name)
        except GatewayRefusalError as error:
            self._tell(f"`{one.request_id}` was allowed in opencode itself and may run: {error.text}")

    async def note(self, one: Note) -> None:
        name = self._sessions.name(one.session)
        with suppress(BridgeError):
            await self._client.tool_finished(
                name, key=f"ran {one.request_id}", request_id=one.request_id, ok=one.ok, title=one.title
            )

    async def close(self, one: CloseSession) -> None:
        """Close a session deleted in OpenCode, unless it holds several of OpenCode's sessions."""
        self._sessions.forget(one.session)
        if self._sessions.are_opencodes:
            path = f"/v1/sessions/{one.session}/close"
            await self._patiently(lambda: self._client.call("POST", path, {"reason": "deleted in opencode"}))

    async def _after_asking(self, request_id: str) -> None:
        """Wait until a request that is being written is in the log: only then can it be ended."""
        written = self._written.get(request_id)
        if written is not None:
            await written.wait()

    async def _patiently(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Retry until the gateway has answered, however long it is away."""
        while True:
            try:
                await work()
            except UnreachableError:
                await asyncio.sleep(RETRY_SECONDS)
            except BridgeError as error:
                if not isinstance(error, GatewayRefusalError) or error.status not in SETTLED:
                    self._tell(f"the gateway refuses: {error.text}")
                return
            else:
                return


def _runs(asked: RequestAsked) -> bool:
    """Return whether an allow lets a call run: a question runs nothing, and a folder is allowed before its call."""
    return not asked.is_question and asked.permission != FOLDER

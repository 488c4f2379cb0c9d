"""OpenCode's sessions and requests at the gateway: opened, asked, withdrawn and recorded, with retries."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final

from workers.bridges.opencode.request_tracker import (
    CloseSession,
    Note,
    OpencodeVerdict,
    RecordReply,
    Withdraw,
    verdict_of,
    verdict_of_question,
)
from workers.bridges.opencode.server import OpenCode
from workers.bridges.opencode.shapes import RequestAsked
from workers.bridges.options import BridgeOptions, OnUnreachable, opening
from workers.bridges.stdio import text_in
from workers.bridges.tool_calls import NOT_AS_CORRECTED, FollowedRules
from workers.transport.gateway_client import GatewayClient, Row
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError
from workers.transport.wire import LOST

MARK: Final = "opencode"
"""The member of a request's metadata that names the OpenCode server: bridges of other servers leave the request
alone."""

METADATA_CHARS_MAX: Final = 200_000
BEHIND_CHARS_MAX: Final = 60_000
"""The longest input of a call behind a folder; of a longer one metadata holds the length alone."""

MEMBER_CHARS_MAX: Final = 14_000
"""The characters kept of a long text (a diff) when the metadata would be too large for the ledger."""

BEHIND: Final = "behind"
"""The member of metadata that holds the call behind a folder, as the ledger's own requests for folders have it."""

FOLDER: Final = "external_directory"

MEMBER_COUNT_MAX: Final = 8
LINEAGE_DEPTH_MAX: Final = 16


class Sessions:
    """The sessions that are open at the gateway. A sub-agent's session is opened after its parent's."""

    def __init__(self, client: GatewayClient, opencode: OpenCode, options: BridgeOptions) -> None:
        self._client = client
        self._opencode = opencode
        self._options = options
        self._opening: dict[str, asyncio.Task[str | None]] = {}
        self._places: dict[str, str | None] = {}
        self._rules = FollowedRules(options.rules)
        self._rules.read()

    def following(self) -> AbstractAsyncContextManager[None]:
        """Give all open sessions the current rules within seconds of a change of the file, until the block ends."""
        return self._rules.followed(self._bring_anew)

    async def _bring_anew(self) -> None:
        """Open all open sessions again with the current rules. Raises BridgeError if one fails; it is retried."""
        self._rules.read()
        self._opening.clear()
        opened = (self._opened(session, directory) for session, directory in list(self._places.items()))
        ends = await asyncio.gather(*opened, return_exceptions=True)
        problem = next((one for one in ends if isinstance(one, BaseException)), None)
        if problem is not None:
            self._rules.forget()
            raise BridgeError(str(problem)) from problem

    def name(self, session: str) -> str:
        """Return the ledger's name of a session."""
        return self._options.session or session

    @property
    def are_opencodes(self) -> bool:
        """Return whether each of OpenCode's sessions is a session of the ledger."""
        return self._options.session is None

    def forget(self, session: str) -> None:
        """Forget that a session is open, since the gateway has another ledger by now."""
        self._opening.pop(session, None)
        self._places.pop(session, None)

    async def open(self, session: str, directory: str | None) -> str | None:
        """Open a session once, with the current rules; return the name of the agent that works in it.

        Raises BridgeError, and the errors in `wire.LOST`.
        """
        self._places[session] = directory
        if self._rules.have_changed:
            with suppress(BridgeError):  # a failure here is reported below, of others at their next ask
                await self._bring_anew()
        return await self._opened(session, directory)

    async def _opened(self, session: str, directory: str | None) -> str | None:
        task = self._opening.get(session)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._opening[session] = asyncio.create_task(self._open(session, directory, LINEAGE_DEPTH_MAX))
        return await asyncio.shield(task)

    async def _open(self, session: str, directory: str | None, depth: int) -> str | None:
        known = await self._opencode.session(session, directory)
        agent = text_in(known, "agent")
        where = text_in(known, "directory") or directory
        parent = text_in(known, "parentID")
        if parent is not None and depth and self.are_opencodes:
            await self._open(parent, directory, depth - 1)
        body = opening(self._options, agent=(agent if parent else None) or "opencode", cwd=where)
        lineage = {"parent": parent} if parent is not None and self.are_opencodes else {}
        await self._client.open_session(self.name(session), **body, **lineage)
        return agent

    async def call_behind(self, asked: RequestAsked) -> Row | None:
        """Return the call that needs a folder, for a person; None for another request. Raises the errors in `wire.LOST`."""
        found = await self._opencode.call_behind(asked) if asked.permission == FOLDER else None
        if found is None:
            return None
        tool, given = found
        size = len(json.dumps(given))
        return {"tool": tool, "input": given} if size <= BEHIND_CHARS_MAX else {"tool": tool, "input_chars": size}


def ask_body(asked: RequestAsked, agent: str | None, url: str, behind: Row | None = None) -> Row:
    """Return the ask's body for the gateway, with OpenCode's own id: asked again it attaches."""
    body: Row = {
        "request_id": asked.request_id,
        "permission": asked.permission,
        "patterns": list(asked.patterns),
        "always": list(asked.always),
        "operands": "ask",
        "metadata": {
            **_bounded(asked.metadata),
            **({} if behind is None else {BEHIND: behind}),
            MARK: {"url": url, "directory": asked.directory},
        },
    }
    if asked.is_question:
        # As a tool call: a person answers in its input.
        body |= {"tool_name": asked.permission, "input": asked.input}
    if asked.call_id is not None:
        body["tool"] = {"message_id": asked.message_id, "call_id": asked.call_id}
    if agent is not None:
        body["agent"] = agent
    if asked.directory is not None and asked.directory.startswith("/"):
        body["cwd"] = asked.directory
    return body


def mark_of(row: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Return URL and directory of the OpenCode that a pending request came from; None for other programs."""
    metadata = row.get("metadata")
    mark = metadata.get(MARK) if isinstance(metadata, Mapping) else None
    if not isinstance(mark, Mapping) or not isinstance(mark.get("url"), str):
        return None
    directory = mark.get("directory")
    return mark["url"], directory if isinstance(directory, str) else None


def _bounded(metadata: dict[str, Any]) -> dict[str, Any]:
    if len(json.dumps(metadata)) <= METADATA_CHARS_MAX:
        return metadata
    return {name[:200]: _shortened(value) for name, value in list(metadata.items())[:MEMBER_COUNT_MAX]}


def _shortened(value: Any) -> Any:
    text = value if isinstance(value, str) else json.dumps(value)
    if len(text) <= MEMBER_CHARS_MAX // 2:
        return value
    digest = hashlib.sha256(text.encode()).hexdigest()
    return f"{text[: MEMBER_CHARS_MAX // 2]}\n… cut: {len(text)} characters in all, SHA-256 {digest}"


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

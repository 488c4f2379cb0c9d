"""From an agent's tool call to the bridge's answer: asked at the gateway, waited for, withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

from workers.bridges.askers import Asker, digest_of, waiting_for
from workers.bridges.held_claims import HeldClaims
from workers.bridges.options import BridgeOptions, opening
from workers.bridges.own_input import runnable
from workers.bridges.rule_files import FollowedRules
from workers.transport.errors import BridgeError, GatewayRefusalError, UnreachableError
from workers.transport.gateway_client import WAIT_SECONDS, GatewayClient, Row
from workers.transport.operand_files import are_unchanged

WITHDRAWING_SECONDS: Final = 3.0
"""The time limit for a withdrawal at the gateway."""

Cause = Literal["asker_gave_up", "asker_died", "withdrawn"]


class ToolCall(NamedTuple):
    """A call as the agent names it. `request_id` is the id of the call if the protocol has a stable one.

    `keeps_id` False: the agent would ask for the same call under another id after a restart. `always`: the grants to
    offer, if the agent proposes some. `said`: further members of the ask's body.
    """

    request_id: str
    tool_name: str
    input: dict[str, Any]
    metadata: dict[str, Any] | None = None
    call_id: str | None = None
    message_id: str | None = None
    agent: str | None = None
    parent: str | None = None
    cwd: str | None = None
    always: tuple[str, ...] | None = None
    keeps_id: bool = True
    said: dict[str, Any] | None = None


class CallVerdict(NamedTuple):
    """`behaviour` agent: the ledger could not be asked, and the agent's own prompt decides. `row` is the gateway's."""

    behaviour: Literal["allow", "deny", "agent"]
    message: str
    request_id: str
    row: Row | None = None
    updated_input: dict[str, Any] | None = None

    @property
    def outcome(self) -> str | None:
        return None if self.row is None else self.row["outcome"]

    @property
    def stops_agent(self) -> bool:
        """Return whether the ledger wants the agent to stop rather than try something else."""
        return self.row is not None and self.row.get("agent") == "stop"


class GatewayJudge:
    """The requests of one session. Failures of the gateway raise nothing: they are a deny, or left to the agent.

    `parent` is of a sub-agent's session: the session of the agent that started it.
    """

    def __init__(
        self,
        client: GatewayClient,
        options: BridgeOptions,
        session: str,
        *,
        agent: str,
        cwd: str | None = None,
        parent: GatewayJudge | None = None,
    ) -> None:
        self.client = client
        self.session = session
        self.claims = HeldClaims(client, session, agent)
        self._options = options
        self._agent = agent
        self._cwd = cwd
        self._parent = parent
        self._opening: asyncio.Lock = asyncio.Lock()
        self._is_open = False
        self._rules = FollowedRules(options.rules)
        self._asked_as: dict[str, str] = {}
        self._askers: dict[str, Asker] = {}
        self._taken_over: set[str] = set()
        self._in_flight: dict[str, asyncio.Event] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    async def judge(self, call: ToolCall, *, pending: Callable[[Row], None] = lambda _: None) -> CallVerdict:
        """Ask and wait. `pending` is called when a person has to answer. Cancelled, the request stays pending."""
        self._in_flight[call.request_id] = asyncio.Event()
        try:
            await self._open_by_rules_of_now()
            async with self._rules.followed(self._open_by_rules_of_now):
                row = await self._settled(call, pending)
        except UnreachableError as error:
            return self._unanswered(call, error)
        except GatewayRefusalError as error:
            return _refused(call, error)
        except BridgeError as error:
            return CallVerdict("deny", f"the permission ledger refuses: {error.text}", call.request_id)
        finally:
            self._in_flight.pop(call.request_id).set()
            self._asked_as.pop(call.request_id, None)
            self._taken_over.discard(call.request_id)
            asker = self._askers.pop(call.request_id, None)
            if asker is not None:
                asker.leave()
        verdict = verdict_of(call, row)
        if verdict.behaviour != "allow":
            await self.claims.give_back(call.request_id, verdict.message)
        return verdict

    async def claim(self, call: ToolCall) -> CallVerdict:
        """Claim a call that was allowed at the agent's own prompt, right before the agent is told."""
        is_taken_over = call.request_id in self._taken_over
        asked = self._asked_as.get(call.request_id, call.request_id) if is_taken_over else call.request_id
        try:
            row = await self.client.read(self.session, asked)
            return verdict_of(call, await self.claims.take(call.request_id, row))
        except UnreachableError as error:
            return self._unanswered(call, error)
        except GatewayRefusalError as error:
            return _refused(call, error)

    async def judge_or_withdraw(self, call: ToolCall) -> CallVerdict:
        """As `judge`. Cancelled, the request is withdrawn, since its answer is not needed any more."""
        judging = asyncio.ensure_future(self.judge(call))
        try:
            return await asyncio.shield(judging)
        except BaseException:
            # In a task of its own: some callers cancel again at whatever is awaited after that.
            leaving = asyncio.get_running_loop().create_task(self._leave(call, judging))
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
            await asyncio.shield(leaving)
            raise

    async def _leave(self, call: ToolCall, judging: asyncio.Future[CallVerdict]) -> None:
        await self.withdraw(call.request_id, "asker_gave_up")
        judging.cancel()
        await asyncio.wait([judging])
        await self.claims.give_back(call.request_id)

    async def left(self) -> None:
        """Wait until all cancelled requests are withdrawn."""
        await asyncio.gather(*self._leaving)

    async def open(self) -> None:
        """Open the session at the gateway, once. Raises BridgeError."""
        async with self._opening:
            if not self._is_open:
                self._rules.read()
                body = opening(self._options, agent=self._agent, cwd=self._cwd)
                if self._parent is not None:
                    await self._parent.open()
                    body["parent"] = self._parent.session
                await self.client.open_session(self.session, **body)
                self._is_open = True

    async def _open_by_rules_of_now(self) -> None:
        """Send the rules again if their file has changed. Raises BridgeError."""
        if self._rules.have_changed:
            self._is_open = False
        await self.open()

    def _forget(self) -> None:
        self._is_open = False
        if self._parent is not None:
            self._parent._forget()  # noqa: SLF001 - another of these

    async def withdraw(self, request_id: str, cause: Cause, reason: str | None = None) -> None:
        """Withdraw a request whose answer is not needed any more. A settled or unknown request stays as it is."""
        with suppress(BridgeError, TimeoutError):
            async with asyncio.timeout(WITHDRAWING_SECONDS):
                if request_id in self._in_flight:
                    # Not before the gateway has the request: it would be asked after it was withdrawn.
                    await self._in_flight[request_id].wait()
                asked = self._asked_as.get(request_id, request_id)
                await self.client.cancel(self.session, asked, cause, reason)
            self._done(request_id)
        await self.claims.give_back(request_id)

    async def record(self, request_id: str, reply: str, prompt: str) -> Row:
        """Record a person's answer at the agent's own prompt. Raises GatewayRefusalError, UnreachableError."""
        asked = self._asked_as.get(request_id, request_id)
        row = await self.client.record(self.session, asked, reply, prompt)
        self._done(request_id)
        return row

    async def rest_of(self, call: ToolCall) -> Row | None:
        """Return the ledger's next question about a call after a required permission; None if that was the call itself.

        It does not wait: the row may be pending, and `record` and `withdraw` then apply to it.
        """
        asked = self._asked_as.get(call.request_id, call.request_id)
        if asked == call.request_id or call.request_id in self._taken_over:
            return None
        row = await self.client.submit(self.session, self._body(call))
        self._asked_as[call.request_id] = row["request_id"]
        return self.claims.keep(call.request_id, row)

    def _body(self, call: ToolCall) -> dict[str, Any]:
        return {**ask_body(call), "claim": self.claims.runner_of(call.request_id)}

    async def ran(self, request_id: str, **what: Any) -> None:
        """Note the call that really ran, which ends its claim. A failure changes nothing."""
        self.claims.ended(request_id)
        with suppress(BridgeError, TimeoutError):
            async with asyncio.timeout(WITHDRAWING_SECONDS):
                await self.client.tool_finished(self.session, key=f"ran {request_id}", request_id=request_id, **what)

    async def _settled(self, call: ToolCall, pending: Callable[[Row], None]) -> Row:
        body = ask_body(call)
        if not call.keeps_id:
            found = await self._attached(digest_of(body, self._cwd), call.request_id, pending)
            if found is not None:
                return found

        def seen(row: Row) -> None:
            self._in_flight[call.request_id].set()
            first = self._asked_as.get(call.request_id) != row["request_id"]
            self._asked_as[call.request_id] = row["request_id"]
            if first:
                asker = Asker.wait_for(self.session, call.request_id, body, folder=self._cwd)
                if asker is not None:
                    self._askers[call.request_id] = asker
                pending(row)

        row = await self._asked(call, seen)
        self._done(call.request_id)
        return self.claims.keep(call.request_id, row)

    def _done(self, request_id: str) -> None:
        asker = self._askers.pop(request_id, None)
        if asker is not None:
            asker.done()

    async def _asked(self, call: ToolCall, seen: Callable[[Row], None]) -> Row:
        body = self._body(call)
        try:
            return await self.client.ask(self.session, body, seen=seen)
        except GatewayRefusalError as error:
            if error.code != "UNKNOWN_SESSION":
                raise
            # The gateway has another ledger by now.
            self._forget()
            await self.open()
            return await self.client.ask(self.session, body, seen=seen)

    async def _attached(self, digest: str, request_id: str, pending: Callable[[Row], None]) -> Row | None:
        """Wait for a pending request of the same call whose asker is gone; None without one."""
        for left in waiting_for(self.session, digest):
            row = await self._standing(left)
            asker = Asker.take_over(self.session, left)
            if asker is None:
                continue
            if row is not None and not await asyncio.to_thread(are_unchanged, row):
                asker.leave()  # the person was asked about other files
                continue
            self._askers[request_id] = asker
            if row is None or row["outcome"] is not None:
                self._done(request_id)
                continue
            self._asked_as[request_id] = row["request_id"]
            self._taken_over.add(request_id)
            self._in_flight[request_id].set()
            pending(row)
            while row is not None and row["outcome"] is None:
                row = await self._standing(left, WAIT_SECONDS)
            self._done(request_id)
            return None if row is None else await self.claims.take(request_id, row)
        return None

    async def _standing(self, request_id: str, wait: float = 0) -> Row | None:
        try:
            return await self.client.read(self.session, request_id, wait=wait)
        except GatewayRefusalError as error:
            if error.status == 404:
                return None
            raise

    def _unanswered(self, call: ToolCall, error: UnreachableError) -> CallVerdict:
        if self._options.on_unreachable == "agent":
            return CallVerdict("agent", error.text, call.request_id)
        return CallVerdict("deny", f"denied, because nobody could be asked: {error.text}", call.request_id)


def ask_body(call: ToolCall) -> dict[str, Any]:
    """Return the body of the ask."""
    body: dict[str, Any] = {
        "request_id": call.request_id,
        "tool_name": call.tool_name,
        "input": call.input,
        "metadata": call.metadata,
        "agent": call.agent,
        "parent": call.parent,
        "cwd": call.cwd,
        "operands": "ask",
    }
    if call.call_id is not None:
        body["tool"] = {"call_id": call.call_id, "message_id": call.message_id or call.call_id}
    if call.always is not None:
        body["always"] = list(call.always)
    return {name: value for name, value in body.items() if value is not None} | (call.said or {})


def verdict_of(call: ToolCall, row: Row) -> CallVerdict:
    """Return the verdict of a settled request. Nothing but the outcome `allowed` with a claim allows."""
    if row["outcome"] == "allowed" and row.get("claim"):
        try:
            runs = runnable(row.get("updated_input"), call.input)
        except BridgeError as error:
            return CallVerdict("deny", error.text, row["request_id"], row)
        return CallVerdict("allow", row.get("message") or "", row["request_id"], row, runs)
    message = row.get("message") or f"the request was {row['outcome']}"
    return CallVerdict("deny", message, row["request_id"], row)


def _refused(call: ToolCall, error: GatewayRefusalError) -> CallVerdict:
    """Return the verdict of a refusal by the gateway, which says whether the agent should stop."""
    row = {**error.data, "outcome": None}
    return CallVerdict("deny", f"the permission ledger refuses: {error.text}", call.request_id, row)


def verdict_of_failure(request_id: str, error: Exception) -> CallVerdict:
    """Return the verdict when the bridge itself fails: whatever it is must not leave the agent waiting, or allowed."""
    return CallVerdict("deny", f"denied, because the bridge failed: {error}", request_id)

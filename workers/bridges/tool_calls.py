"""From an agent's tool call to the bridge's answer: asked at the gateway, waited for, claimed, withdrawn."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, Literal, NamedTuple

from workers.bridges.askers import Asker, digest_of, waiting_for
from workers.bridges.options import BridgeOptions, check_rules, opening
from workers.bridges.session_ids import new_id, runnable
from workers.bridges.stdio import keep, tell
from workers.transport.gateway_client import WAIT_SECONDS, GatewayClient, Row
from workers.transport.operand_files import are_unchanged
from workers.transport.place import BridgeError, GatewayRefusalError, UnreachableError
from workers.transport.trusted import trust_file

LOOK_SECONDS: Final = 2.0

_Stamp = tuple[int, ...] | None


class FollowedRules:
    """One file, or none; whoever opens the session reads its content."""

    def __init__(self, file: str | None) -> None:
        self._file = file
        self._read_as: _Stamp = None

    def read(self) -> None:
        """Note that the file is about to be read; later changes count as changes."""
        self._read_as = self._stamp()

    def forget(self) -> None:
        """Count the file as changed, since not every session has its content."""
        self._read_as = ()

    @property
    def have_changed(self) -> bool:
        return self._stamp() != self._read_as

    @asynccontextmanager
    async def followed(self, say: Callable[[], Awaitable[None]]) -> AsyncIterator[None]:
        """Call `say` within 2 s of a change, until the block ends. It raises BridgeError for unreadable rules."""
        if self._file is None:
            yield
            return
        following = asyncio.create_task(self._follow(say), name=f"follow {self._file}")
        try:
            yield
        finally:
            following.cancel()
            with suppress(asyncio.CancelledError):
                await following

    async def _follow(self, say: Callable[[], Awaitable[None]]) -> None:
        told = ""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            if not self.have_changed:
                continue
            try:
                await say()
            except BridgeError as error:
                if error.text != told:
                    tell(f"the changed rules do not apply to pending requests: {error.text}")
                told = error.text
                self.forget()

    def _stamp(self) -> _Stamp:
        if self._file is None:
            return None
        # The list of trusted files decides whether the content counts in full.
        return _status_of(self._file) + _status_of(trust_file())


def _status_of(file: str) -> tuple[int, ...]:
    try:
        status = os.stat(file)  # noqa: PTH116 - pathlib is slow to import
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


WRITING_SECONDS: Final = 3.0
"""The time limit for what is withdrawn, given back or noted at the gateway."""

HELD_COUNT_MAX: Final = 4096
"""The number of claims remembered as held; an agent may never tell the end of a call."""

AGENT_CHARS_MAX: Final = 100
NOT_TOLD: Final = "the agent no longer waited, and was not told to run it"
NOT_AS_CORRECTED: Final = "the agent takes no corrected call, and was not told to run it"


class HeldClaims:
    """The claims of a connection, by the agent's ids of the calls. The connection is the runner of them all."""

    def __init__(self, client: GatewayClient, session: str, agent: str) -> None:
        self._client = client
        self._session = session
        self._name = new_id(f"{agent[:AGENT_CHARS_MAX]} over bridge")
        self._held: dict[str, str] = {}

    def runner_of(self, call_id: str) -> dict[str, str]:
        """Return the runner for the body of an ask, which claims the call as soon as it is allowed."""
        return {"name": self._name, "call": call_id}

    def keep(self, call_id: str, row: Row) -> Row:
        """Remember the claim in the row of an ask with the runner, if it has one."""
        if row["outcome"] == "allowed" and row.get("claim"):
            keep(self._held, call_id, row["request_id"], HELD_COUNT_MAX)
        return row

    async def take(self, call_id: str, row: Row) -> Row:
        """Claim an allowed request that was asked without the runner: by an earlier asker, or answered elsewhere.

        Raises GatewayRefusalError where it may not run, UnreachableError.
        """
        if row["outcome"] != "allowed":
            return row
        claim = await self._client.claim(self._session, row["request_id"], self.runner_of(call_id))
        return self.keep(call_id, {**row, "claim": claim})

    async def give_back(self, call_id: str, reason: str = NOT_TOLD) -> None:
        """Release the claim of a call that the agent was not told to run. Without such a claim nothing happens."""
        asked = self._held.pop(call_id, None)
        if asked is not None:
            with suppress(BridgeError, TimeoutError):
                async with asyncio.timeout(WRITING_SECONDS):
                    await self._client.release(self._session, asked, reason)

    def asked_of(self, call_id: str) -> str | None:
        """Return the ledger's request of a call whose claim this connection holds; None without a claim."""
        return self._held.get(call_id)

    def ended(self, request_id: str) -> None:
        """Forget the claim of a request whose end is noted in the ledger."""
        for call_id in [one for one, asked in self._held.items() if asked == request_id]:
            del self._held[call_id]

    async def agent_ended(self) -> None:
        """End all claims: the agent has ended, and will not tell how its calls did."""
        if not self._held:
            return
        self._held.clear()
        with suppress(BridgeError, TimeoutError):
            async with asyncio.timeout(WRITING_SECONDS):
                await self._client.end_claims(self._session, self._name)


Cause = Literal["asker_gave_up", "asker_died", "withdrawn"]


class ToolCall(NamedTuple):
    """A call as the agent names it; after a restart it would ask for the same call under another id.

    `always`: the grants to offer, if the agent proposes some. `said`: further members of the ask's body.
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
            async with asyncio.timeout(WRITING_SECONDS):
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
            async with asyncio.timeout(WRITING_SECONDS):
                await self.client.tool_finished(self.session, key=f"ran {request_id}", request_id=request_id, **what)

    async def _settled(self, call: ToolCall, pending: Callable[[Row], None]) -> Row:
        body = ask_body(call)
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
    row = {**error.data, "outcome": None}
    return CallVerdict("deny", f"the permission ledger refuses: {error.text}", call.request_id, row)


def verdict_of_failure(request_id: str, error: Exception) -> CallVerdict:
    """Return the verdict when the bridge itself fails: whatever it is must not leave the agent waiting, or allowed."""
    return CallVerdict("deny", f"denied, because the bridge failed: {error}", request_id)


def run_bridge(options: BridgeOptions, run: Callable[[GatewayClient], Awaitable[int]]) -> int:
    """Run a bridge to its end and return its exit code. Raises BridgeError for rules that cannot be read."""
    check_rules(options)

    async def bridged() -> int:
        async with GatewayClient(grace=options.grace, tell=tell) as client:
            await announce(client, options)
            return await run(client)

    return asyncio.run(bridged())


def announce_alone(options: BridgeOptions) -> None:
    """Announce as `run_bridge` does, before another program replaces this one. Raises BridgeError likewise."""
    check_rules(options)

    async def announced() -> None:
        async with GatewayClient(grace=0) as client:
            await announce(client, options)

    asyncio.run(announced())


async def announce(client: GatewayClient, options: BridgeOptions) -> None:
    """Report whether gateway and ledger are reachable, and which rules judge."""
    rules = "the gateway's own" if options.rules is None else f"`{options.rules}`, found"
    try:
        found = f"gateway: `{await client.look()}`, found; ledger: found"
    except UnreachableError as error:
        meanwhile = "left to the agent's own prompt" if options.on_unreachable == "agent" else "denied"
        found = f"gateway: not found, calls are {meanwhile}: {error.text}"
    tell(f"{found}; rules: {rules}")

"""The bridge: OpenCode's events to the request tracker, the tracker's actions carried out, connections kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Iterable
from contextlib import suppress
from functools import partial
from typing import Any, Final

from workers.bridges.opencode.effects import GatewayEffects, NoVerdictError
from workers.bridges.opencode.outcomes import (
    Action,
    AnswerRequest,
    CloseSession,
    JudgeRequest,
    LookAtSession,
    Note,
    RecordReply,
    Tell,
    Withdraw,
    said_to_opencode,
)
from workers.bridges.opencode.request_tracker import RequestTracker
from workers.bridges.opencode.requests import Sessions, mark_of
from workers.bridges.opencode.server import OpenCode
from workers.bridges.opencode.shapes import (
    RequestAsked,
    ShapeError,
    is_question_id,
    read_event,
    read_question,
    read_request,
)
from workers.bridges.options import BridgeOptions
from workers.transport.errors import BridgeError, UnreachableError
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import why_lost
from workers.transport.wire import LOST

RECONNECT_SECONDS: Final = (0.1, 0.2, 0.5, 1.0, 2.0)
GONE_SECONDS: Final = 5.0
"""After this time without a listening server, OpenCode's process counts as ended, and its requests with it."""

ANSWER_TRIES_COUNT: Final = 5
LAST_WORDS_SECONDS: Final = 3.0
"""The time limit for the withdrawals after OpenCode's process has ended."""


class OpencodeBridge:
    """Between one OpenCode server and the gateway. `directory` None follows all directories of the server."""

    def __init__(
        self,
        opencode: OpenCode,
        client: GatewayClient,
        options: BridgeOptions,
        *,
        directory: str | None,
        tell: Callable[[str], None],
    ) -> None:
        self._opencode = opencode
        self._client = client
        self._directory = directory
        self._tell = tell
        self._tracker = RequestTracker()
        self._sessions = Sessions(client, opencode, options)
        self._effects = GatewayEffects(client, self._sessions, opencode.url, options.on_unreachable, tell)
        self._answering: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._left_over_wanted = True
        self._lists_questions = False

    async def run(self) -> None:
        """Run until cancelled. Raises BridgeError when OpenCode demands a password that we do not have."""
        async with self._sessions.following():
            await self._run()

    async def _run(self) -> None:
        tries = 0
        lost_at: float | None = None
        clock = asyncio.get_running_loop().time
        try:
            while True:
                try:
                    async for event, directory in self._opencode.events(self._directory):
                        if event.get("type") == "server.connected":
                            if lost_at is not None and tries > 1:
                                self._tell(f"opencode at {self._opencode.url} is back")
                            tries, lost_at = 0, None
                            self._start(self._list_all())
                        self._heard(event, directory)
                except LOST as error:
                    lost_at = clock() if lost_at is None else lost_at
                    if tries == 1:
                        self._tell(f"opencode at {self._opencode.url} does not answer; trying again: {why_lost(error)}")
                    if isinstance(error, ConnectionRefusedError) and clock() > lost_at + GONE_SECONDS:
                        self._do(self._tracker.died())
                await asyncio.sleep(RECONNECT_SECONDS[min(tries, len(RECONNECT_SECONDS) - 1)])
                tries += 1
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def server_ended(self) -> None:
        """Withdraw the requests of a server that ends or has ended. To be called while `run` runs."""
        leaving = [
            asyncio.create_task(self._effects.withdraw(one))
            for one in self._tracker.died()
            if isinstance(one, Withdraw)
        ]
        if leaving:
            _, late = await asyncio.wait(leaving, timeout=LAST_WORDS_SECONDS)
            for one in late:
                one.cancel()
            if late:
                self._tell(f"{len(late)} requests stay pending although nobody waits: the gateway cannot be reached")

    async def end_claims(self) -> None:
        """End the claims of a server that has ended: how its calls ended is not known."""
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_WORDS_SECONDS):
                await self._effects.server_ended()

    def _heard(self, event: Any, directory: str | None) -> None:
        try:
            found = read_event(event, directory)
        except ShapeError as error:
            self._do(self._tracker.misread(error, directory))
            return
        if found is not None:
            self._do(self._tracker.happened(found))

    # --- lists

    async def _list_all(self) -> None:
        """Read the lists, the only record of events during a disconnection."""
        if self._directory is not None:
            directories: set[str | None] = {self._directory}
        else:
            directories = {await self._opencode.own_directory(), *self._tracker.directories()}
        for directory in directories:
            if not await self._list(directory):
                return
        if self._left_over_wanted:
            self._left_over_wanted = False
            self._start(self._end_left_over(directories))

    async def _end_left_over(self, listed: Collection[str | None]) -> None:
        """End the requests that an earlier bridge to this server asked and OpenCode does not list any more."""
        try:
            rows = (await self._client.call("GET", "/v1/pending"))["pending"]
        except UnreachableError:
            self._left_over_wanted = True
            return
        for row in rows:
            mark = mark_of(row)
            if mark is None or mark[0] != self._opencode.url or (self._directory not in (None, mark[1])):
                continue
            if is_question_id(row["request_id"]) and not self._lists_questions:
                continue
            if mark[1] in listed or await self._list(mark[1]):
                self._do(self._tracker.left_over(row["session"], row["request_id"]))

    async def _list(self, directory: str | None) -> bool:
        """Return whether the list could be read."""
        known = self._tracker.waiting
        listed = await self._opencode.pending(directory)
        if listed is None:
            self._tell("opencode cannot list its pending requests; only later requests are judged")
            return False
        questions = await self._opencode.questions(directory)
        self._lists_questions = questions is not None
        if questions is None:
            known = frozenset(one for one in known if not is_question_id(one))
        at_work = await self._opencode.at_work(directory)
        requests = [*self._read(listed, directory), *self._read(questions or (), directory, read_question)]
        # An aborted session may be busy again, with its ghosts beside the requests that it waits for now.
        ended = {one.request_id for one in requests if await self._opencode.has_ended(one)}
        self._do(self._tracker.listed(directory, requests, at_work, known, ended))
        return True

    def _read(
        self,
        listed: Iterable[Any],
        directory: str | None,
        read: Callable[[object, str | None], RequestAsked] = read_request,
    ) -> list[RequestAsked]:
        found = []
        for one in listed:
            try:
                found.append(read(one, directory))
            except ShapeError as error:
                self._do(self._tracker.misread(error, directory))
        return found

    # --- the tracker's actions

    def _do(self, actions: Iterable[Action]) -> None:
        for action in actions:
            match action:
                case Tell(text):
                    self._tell(text)
                case JudgeRequest(asked):
                    self._start(self._judge(asked))
                case AnswerRequest():
                    self._start(self._answer(action))
                case Withdraw():
                    self._start(self._effects.withdraw(action))
                case RecordReply():
                    self._start(self._effects.record(action))
                case Note():
                    self._start(self._effects.note(action))
                case CloseSession():
                    self._start(self._effects.close(action))
                case LookAtSession():
                    self._start(self._look(action))

    async def _judge(self, asked: RequestAsked) -> None:
        try:
            verdict = await self._effects.judge(asked)
        except NoVerdictError as refusal:
            actions = self._tracker.refused(asked.request_id, str(refusal), may_be_pending=refusal.may_be_pending)
        else:
            actions = self._tracker.judged(asked.request_id, verdict)
        self._do(actions)
        self._effects.forget(asked.request_id)

    async def _answer(self, answer: AnswerRequest) -> None:
        """Answer in the order of the outcomes, session by session."""
        asked = answer.asked
        async with self._answering.setdefault(asked.session, asyncio.Lock()):
            status: int | None = None
            for pause in RECONNECT_SECONDS[:ANSWER_TRIES_COUNT]:
                try:
                    status = await self._bring(answer)
                    break
                except LOST:
                    await asyncio.sleep(pause)
        self._do(self._tracker.answered(asked.request_id, status))

    async def _bring(self, answer: AnswerRequest) -> int:
        asked = answer.asked
        if asked.is_question:
            return await self._opencode.answer_question(asked.request_id, said_to_opencode(answer), asked.directory)
        return await self._opencode.reply(asked.request_id, answer.reply, answer.message, asked.directory)

    async def _look(self, wanted: LookAtSession) -> None:
        at_work = await self._opencode.at_work(wanted.directory)
        if at_work is not None and wanted.session not in at_work:
            self._do(self._tracker.found_idle(wanted.request_ids))

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(partial(self._done, work))

    def _done(self, work: Coroutine[Any, Any, None], task: asyncio.Task[None]) -> None:
        """Report a fault of ours. It allows nothing: the request stays in OpenCode's own prompt."""
        self._tasks.discard(task)
        # A task that is cancelled before its first step never started the coroutine.
        work.close()
        if not task.cancelled() and (fault := task.exception()) is not None:
            self._tell(f"a fault of the bridge: {fault!r}; a request may be left to opencode's own prompt")

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run one action. The next list repairs a lost connection; any other error is reported."""
        try:
            await work
        except LOST:
            return
        except BridgeError as error:
            self._tell(error.text)

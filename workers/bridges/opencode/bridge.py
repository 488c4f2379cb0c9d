"""`bridge opencode`: OpenCode's events to the request tracker, its actions carried out; a proxy and a server if wanted."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple

from workers.bridges.opencode.effects import GatewayEffects, NoVerdictError, Sessions, mark_of
from workers.bridges.opencode.request_tracker import (
    Action,
    AnswerRequest,
    CloseSession,
    JudgeRequest,
    LookAtSession,
    Note,
    RecordReply,
    RequestTracker,
    Tell,
    Withdraw,
    said_to_opencode,
)
from workers.bridges.opencode.server import OpenCode, place_of
from workers.bridges.opencode.shapes import (
    RequestAsked,
    ShapeError,
    is_question_id,
    read_event,
    read_question,
    read_request,
)
from workers.bridges.options import BridgeOptions
from workers.bridges.stdio import tell
from workers.bridges.tool_calls import run_bridge
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import BridgeError, ServerAddress, UnreachableError, why_lost
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
            await self._run_until_end()

    async def _run_until_end(self) -> None:
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
        works: dict[type[Any], Callable[[Any], Coroutine[Any, Any, None]]] = {
            JudgeRequest: self._judge,
            AnswerRequest: self._answer,
            Withdraw: self._effects.withdraw,
            RecordReply: self._effects.record,
            Note: self._effects.note,
            CloseSession: self._effects.close,
            LookAtSession: self._look,
        }
        for action in actions:
            if isinstance(action, Tell):
                self._tell(action.text)
            else:
                self._start(works[type(action)](action))

    async def _judge(self, wanted: JudgeRequest) -> None:
        asked = wanted.asked
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
                    if asked.is_question:
                        given = said_to_opencode(answer)
                        status = await self._opencode.answer_question(asked.request_id, given, asked.directory)
                    else:
                        told = (answer.reply, answer.message)
                        status = await self._opencode.reply(asked.request_id, *told, asked.directory)
                    break
                except LOST:
                    await asyncio.sleep(pause)
        self._do(self._tracker.answered(asked.request_id, status))

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


PIECE_BYTES: Final = 64 * 1024
CONNECT_SECONDS: Final = 5.0


class Relay:
    """A listener for clients of OpenCode that connects each of them to the server itself."""

    def __init__(self, target: ServerAddress) -> None:
        self._target = target
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port. Raises BridgeError."""
        try:
            self._server = await asyncio.start_server(self._connected, host, port)
        except OSError as error:
            raise BridgeError(
                f"`{host}:{port}` cannot be listened on: {(error.strerror or str(error)).lower()}"
            ) from error
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        try:
            await self._relay(reader, writer)
        except (OSError, TimeoutError, asyncio.CancelledError):
            # One side is closed; the other side's own connection shows it.
            writer.transport.abort()
        finally:
            self._open.discard(task)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        context = ssl.create_default_context() if self._target.tls else None
        async with asyncio.timeout(CONNECT_SECONDS):
            far_reader, far_writer = await asyncio.open_connection(self._target.host, self._target.port, ssl=context)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_pump(reader, far_writer))
                both.create_task(_pump(far_reader, writer))
        except* OSError:
            far_writer.transport.abort()
            raise ConnectionError("one side closed the connection") from None
        finally:
            for one in (far_writer, writer):
                one.close()
                with suppress(OSError):
                    await one.wait_closed()


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while piece := await source.read(PIECE_BYTES):
        sink.write(piece)
        await sink.drain()
    # A client may have sent everything, and still wait for the answer.
    if sink.can_write_eof():
        sink.write_eof()


URL_DEFAULT: Final = "http://127.0.0.1:4096"
PASSWORD: Final = "OPENCODE_SERVER_PASSWORD"  # noqa: S105 - the name of a variable
USERNAME: Final = "OPENCODE_SERVER_USERNAME"
ENDING_SECONDS: Final = 5.0


class OpencodeOptions(NamedTuple):
    """The options of the command line. `program` is the command of the OpenCode server to run."""

    url: str | None = None
    directory: str | None = None
    listen: str | None = None
    program: tuple[str, ...] = ()


def run(wanted: OpencodeOptions, options: BridgeOptions) -> int:
    """Run until a signal comes or the program ends, and return its exit code. Raises BridgeError."""
    url = wanted.url or _url_in(wanted.program)
    address = None if wanted.listen is None else _address(wanted.listen)
    directory = None if wanted.directory is None else os.path.abspath(wanted.directory)  # noqa: PTH100 - as OpenCode takes it

    async def bridged(client: GatewayClient) -> int:
        return await _run(client, wanted._replace(url=url, directory=directory), address, options)

    return run_bridge(options, bridged)


async def _run(
    client: GatewayClient, wanted: OpencodeOptions, address: tuple[str, int] | None, options: BridgeOptions
) -> int:
    url = wanted.url or URL_DEFAULT
    opencode = OpenCode(url, username=os.environ.get(USERNAME) or "opencode", password=os.environ.get(PASSWORD))
    relay = Relay(place_of(url))
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        loop.add_signal_handler(one, stop.set)
    try:
        if address is not None:
            port = await relay.start(*address)
            tell(f"forwarding http://{address[0]}:{port} on to {opencode.url}")
        bridge = OpencodeBridge(opencode, client, options, directory=wanted.directory, tell=tell)
        return await _until_either(wanted.program, bridge, stop)
    finally:
        await relay.close()
        await opencode.close()


async def _until_either(program: Sequence[str], bridge: OpencodeBridge, stop: asyncio.Event) -> int:
    child = await _started(program) if program else None
    working = asyncio.create_task(bridge.run())
    ends: list[asyncio.Task[object]] = [working, asyncio.create_task(stop.wait())]
    if child is not None:
        ends.append(asyncio.create_task(child.wait()))
    try:
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        if child is None:
            return 0
        # At once, since the server may take time to end; and again for its requests meanwhile.
        _, code = await asyncio.gather(bridge.server_ended(), _ended(child))
        await bridge.server_ended()
        await bridge.end_claims()
        return code
    finally:
        for one in ends:
            one.cancel()
        await asyncio.gather(*ends, return_exceptions=True)
        if child is not None:
            await _ended(child)


async def _started(program: Sequence[str]) -> asyncio.subprocess.Process:
    try:
        return await asyncio.create_subprocess_exec(*program)
    except OSError as error:
        raise BridgeError(f"`{program[0]}` cannot be run: {(error.strerror or str(error)).lower()}") from error


async def _ended(child: asyncio.subprocess.Process) -> int:
    """Return the exit code of the server, which is terminated if it runs; a signal's number as in shells."""
    if child.returncode is None:
        with suppress(ProcessLookupError):
            child.terminate()
        try:
            async with asyncio.timeout(ENDING_SECONDS):
                await child.wait()
        except TimeoutError:
            child.kill()
            await child.wait()
    code = child.returncode or 0
    return code if code >= 0 else 128 - code


def _url_in(program: Sequence[str]) -> str:
    words = [part for word in program for part in word.split("=", 1)]
    said = {name: value for name, value in pairwise(words) if name in ("--port", "--hostname")}
    if program and not said.get("--port", "").isdecimal():
        raise BridgeError("name the port that opencode listens on: `-- opencode serve --port 4096`, or --url")
    host = said.get("--hostname", "127.0.0.1")
    local = "127.0.0.1" if host in ("0.0.0.0", "::") else host  # noqa: S104 - compared, not listened on
    return f"http://{local}:{said['--port']}" if program else URL_DEFAULT


def _address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise BridgeError(f"`{text}` is not an address to listen on; write it like `127.0.0.1:4097`")
    return host.strip("[]"), int(port)

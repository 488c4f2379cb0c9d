"""The blocking interface, for scripts without an event loop: the same names, arguments and errors.

    with SyncLedger.connect("redis://localhost") as ledger:
        session = ledger.session("ses_1", rules=[…])
        session.ask("bash", ["git push"], always=["git push *"])

One background thread runs the event loop of the asynchronous interface; any number of threads may call at once. Each
call only submits the asynchronous call of the same name to that loop and waits. An interrupt (Ctrl-C) while an ask
waits leaves the request pending, as cancelling the task does.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import functools
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from ledger.client.claims import Permit, PermitBlock
from ledger.client.freezing import Freezing, Holding
from ledger.client.ledger import Ledger
from ledger.client.redacting import Redacting
from ledger.client.results import Pending
from ledger.client.session import ClientConnection, Session
from ledger.core.errors import StoreError

A = TypeVar("A")
A_co = TypeVar("A_co", covariant=True)
R = TypeVar("R")
F = TypeVar("F")
P = ParamSpec("P")

_END = object()


class _Loop:
    """The background thread, and its calls in flight."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._lock = threading.Lock()
        self._under_way: set[concurrent.futures.Future[Any]] = set()
        self._started: concurrent.futures.Future[None] = concurrent.futures.Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._life: asyncio.Task[None] | None = None
        self._open = False
        # A daemon, so that it does not keep a script alive that forgets to close or fails.
        self._thread = threading.Thread(target=self._run_thread, name="ledger loop", daemon=True)

    def start(self) -> None:
        """Start the thread; return when the ledger is open. Raises what opening it raises."""
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Cancel the calls in flight, close the ledger and wait for the thread."""
        with self._lock:
            self._open = False
            loop, life = self._loop, self._life
        if loop is not None and life is not None:
            # The loop may have ended already, for example when the ledger could not be opened.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(life.cancel)
        self._thread.join()

    def run(self, coroutine: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine in the loop and return its result; an interrupt of this thread cancels it."""
        is_own = threading.current_thread() is self._thread
        if is_own:
            coroutine.close()
        assert not is_own, "a synchronous call would block the ledger's own event loop; use the asynchronous interface"
        future = self._submit(coroutine)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise StoreError("the ledger was closed while this call waited; a request stays pending") from None
        except BaseException:
            # Interrupted: without this the ask would go on waiting in the background.
            future.cancel()
            raise
        finally:
            self._under_way.discard(future)

    def _submit(self, coroutine: Coroutine[Any, Any, R]) -> concurrent.futures.Future[R]:
        with self._lock:
            if not self._open or self._loop is None:
                coroutine.close()
                raise StoreError("the ledger is closed; use it inside `with SyncLedger.connect(...) as ledger`")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
            self._under_way.add(future)
        return future

    def _run_thread(self) -> None:
        try:
            # The runner ends remaining tasks, asynchronous generators and the threads of deciders.
            with asyncio.Runner() as runner:
                runner.run(self._live())
        except asyncio.CancelledError:
            self._started.cancel()
        except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits for the start
            if not self._started.done():
                self._started.set_exception(error)

    async def _live(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._life = asyncio.current_task()
        async with self._ledger:
            self._open = True
            self._started.set_result(None)
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
            for future in list(self._under_way):
                future.cancel()


class _Face(Generic[A_co]):
    """The blocking interface of an asynchronous object, and the loop that runs its calls."""

    def __init__(self, loop: _Loop, inner: A_co) -> None:
        self._loop = loop
        self._inner = inner

    def _iterate(self, iterator: AsyncIterator[R]) -> Iterator[R]:
        async def following() -> R | object:
            return await anext(iterator, _END)

        async def close() -> None:
            if (closing := getattr(iterator, "aclose", None)) is not None:
                await closing()

        try:
            while (item := self._loop.run(following())) is not _END:
                yield item  # type: ignore[misc]
        finally:
            # Also runs when a caller drops the iterator after the ledger was closed: then there is nothing to close.
            with suppress(StoreError):
                self._loop.run(close())


def _blocking(method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]]) -> Callable[Concatenate[_Face[A], P], R]:
    """Return the blocking call of an asynchronous method, with the same arguments."""

    @functools.wraps(method)
    def call(face: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> R:
        return face._loop.run(method(face._inner, *args, **kwargs))  # noqa: SLF001 - a method of that very class

    return call


def _blocking_as(
    wrap: Callable[[_Loop, R], F], method: Callable[Concatenate[A, P], Coroutine[Any, Any, R]]
) -> Callable[Concatenate[_Face[A], P], F]:
    """As `_blocking`, for a method whose result has a blocking interface of its own."""

    @functools.wraps(method)
    def call(face: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> F:
        return wrap(face._loop, face._loop.run(method(face._inner, *args, **kwargs)))  # noqa: SLF001 - as above

    return call


def _iterating(
    method: Callable[Concatenate[A, P], AsyncIterator[R]],
) -> Callable[Concatenate[_Face[A], P], Iterator[R]]:
    """Return the blocking iterator of an asynchronous one."""

    @functools.wraps(method)
    def call(face: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> Iterator[R]:
        return face._iterate(method(face._inner, *args, **kwargs))  # noqa: SLF001 - as above

    return call


class SyncClientConnection(_Face[ClientConnection]):
    """A client's connection to a session; inside `with session.connect(…) as connection` its lease is renewed."""

    renew = _blocking(ClientConnection.renew)
    disconnect = _blocking(ClientConnection.disconnect)
    reply = _blocking(ClientConnection.reply)

    @property
    def client_id(self) -> str:
        return self._inner.client_id

    @property
    def replayed(self) -> list[Pending]:
        return self._inner.replayed

    @property
    def session(self) -> SyncSession:
        return SyncSession(self._loop, self._inner.session)

    def __enter__(self) -> Self:
        self._loop.run(self._inner.__aenter__())
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.run(self._inner.__aexit__(*exc))


class SyncPermitBlock(_Face[PermitBlock]):
    """`with session.permit(…) as permit:`; see `PermitBlock`."""

    def __enter__(self) -> Permit:
        return self._loop.run(self._inner.__aenter__())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.run(self._inner.__aexit__(kind, error, trace))


def _block_of(method: Callable[Concatenate[A, P], PermitBlock]) -> Callable[Concatenate[_Face[A], P], SyncPermitBlock]:
    """Return the function with the same arguments that opens the blocking form of a block."""

    @functools.wraps(method)
    def call(face: _Face[A], /, *args: P.args, **kwargs: P.kwargs) -> SyncPermitBlock:
        return SyncPermitBlock(face._loop, method(face._inner, *args, **kwargs))  # noqa: SLF001 - as above

    return call


class SyncSession(_Face[Session]):
    """One session of a ledger; see `Session` for every call."""

    ask = _blocking(Session.ask)
    submit = _blocking(Session.submit)
    ask_tool = _blocking(Session.ask_tool)
    submit_tool = _blocking(Session.submit_tool)
    tool_requests = _blocking(Session.tool_requests)
    wait = _blocking(Session.wait)
    claim = _blocking(Session.claim)
    finish = _blocking(Session.finish)
    release_claim = _blocking(Session.release_claim)
    end_claims = _blocking(Session.end_claims)
    permit = _block_of(Session.permit)
    permit_tool = _block_of(Session.permit_tool)
    reply = _blocking(Session.reply)
    extend = _blocking(Session.extend)
    cancel = _blocking(Session.cancel)
    close = _blocking(Session.close)

    grant = _blocking(Session.grant)
    revoke = _blocking(Session.revoke)
    approved = _blocking(Session.approved)

    connect = _blocking_as(SyncClientConnection, Session.connect)
    disconnect = _blocking(Session.disconnect)
    take_lock = _blocking(Session.take_lock)
    pass_lock = _blocking(Session.pass_lock)
    present = _blocking(Session.present)

    state = _blocking(Session.state)
    pending = _blocking(Session.pending)
    result = _blocking(Session.result)
    rules = _blocking(Session.rules)
    disabled = _blocking(Session.disabled)
    remember = _blocking(Session.remember)
    events = _iterating(Session.events)

    note_tool_finished = _blocking(Session.note_tool_finished)
    note_notification = _blocking(Session.note_notification)

    @property
    def id(self) -> str:
        return self._inner.id


def _opened_by(connect: Callable[P, Ledger]) -> Callable[P, SyncLedger]:
    """Return the function with the same arguments that opens a ledger with a loop of its own."""

    @functools.wraps(connect)
    def call(*args: P.args, **kwargs: P.kwargs) -> SyncLedger:
        ledger = connect(*args, **kwargs)
        return SyncLedger(_Loop(ledger), ledger)

    return call


class SyncFreezing(_Face[Freezing]):
    """The blocking interface of `Ledger.freezes`."""

    freeze = _blocking(Freezing.freeze)
    unfreeze = _blocking(Freezing.unfreeze)
    in_force = _blocking(Freezing.in_force)
    behind = _blocking(Freezing.behind)


class SyncHolding(_Face[Holding]):
    """The blocking interface of `Ledger.holds`."""

    place = _blocking(Holding.place)
    lift = _blocking(Holding.lift)
    in_force = _blocking(Holding.in_force)
    require_none = _blocking(Holding.require_none)


class SyncRedacting(_Face[Redacting]):
    """The blocking interface of `Ledger.redactions`."""

    plan = _blocking(Redacting.plan)
    search = _iterating(Redacting.search)
    redact = _blocking(Redacting.redact)
    require_not_held = _blocking(Redacting.require_not_held)


class SyncLedger(_Face[Ledger]):
    """`with SyncLedger.connect(url) as ledger:`; see `Ledger` for every call. Safe to use from several threads."""

    connect = staticmethod(_opened_by(Ledger.connect))

    def __enter__(self) -> Self:
        self._loop.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.stop()

    session = _blocking_as(SyncSession, Ledger.session)
    attach = _blocking_as(SyncSession, Ledger.attach)
    sessions = _iterating(Ledger.sessions)
    state_at = _blocking(Ledger.state_at)

    pending = _blocking(Ledger.pending)
    pending_pages = _iterating(Ledger.pending_pages)
    sessions_of = _blocking(Ledger.sessions_of)
    session_of = _blocking_as(SyncSession, Ledger.session_of)
    reply = _blocking(Ledger.reply)
    cancel = _blocking(Ledger.cancel)

    approved_in_project = _blocking(Ledger.approved_in_project)
    approved_pages = _iterating(Ledger.approved_pages)
    approved_anywhere = _blocking(Ledger.approved_anywhere)
    grants_anywhere = _blocking(Ledger.grants_anywhere)
    grants_in_project = _blocking(Ledger.grants_in_project)
    pending_anywhere = _blocking(Ledger.pending_anywhere)
    grant_in_project = _blocking(Ledger.grant_in_project)
    uses_of = _blocking(Ledger.uses_of)
    revoke = _blocking(Ledger.revoke)

    @property
    def freezes(self) -> SyncFreezing:
        return SyncFreezing(self._loop, self._inner.freezes)

    @property
    def holds(self) -> SyncHolding:
        return SyncHolding(self._loop, self._inner.holds)

    @property
    def redactions(self) -> SyncRedacting:
        return SyncRedacting(self._loop, self._inner.redactions)

    connect_inbox = _blocking(Ledger.connect_inbox)
    renew_inbox = _blocking(Ledger.renew_inbox)
    disconnect_inbox = _blocking(Ledger.disconnect_inbox)

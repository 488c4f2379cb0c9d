"""The inputs of one session's commands, as known to this process: rules, the project's grants, presence."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

from ledger.core.errors import InDoubtError
from ledger.core.events import Presence
from ledger.core.policy import Policy, PolicySource
from ledger.log.folds import read_live
from ledger.log.inboxes import Inbox, open_inboxes, present_in
from ledger.log.plans import SYSTEM
from ledger.log.stream import Stream
from ledger.project import ProjectState, TakeUse
from ledger.session.commands import Live, OutdatedRulesError, PresenceWantedError
from ledger.session.decision import records_clients
from ledger.session.judging import UsesWantedError
from ledger.session.state import SessionState

if TYPE_CHECKING:
    from ledger.client.context import Context

INBOX_FRESH_SECONDS: Final = 1.0
"""The age from which on open inboxes are read again."""

INBOX_KNOWN_SECONDS: Final = 10.0
"""The maximum age of open inboxes that a command assumes: a wrong guess costs a message, or its deadline corrects it."""


class InboxPresence:
    """The open inboxes of all people; `is_cached` False reads them each time."""

    def __init__(self, context: Context, *, is_cached: bool) -> None:
        self._context = context
        self._is_cached = is_cached
        self._inboxes: tuple[Inbox, ...] = ()
        self._read_at = float("-inf")
        self._looking: asyncio.Task[tuple[Inbox, ...]] | None = None

    def known(self, session: str, project: str | None) -> tuple[Presence, ...] | None:
        """Return the clients of the last 10 seconds, which are read again in the background; None if none are known."""
        age = time.monotonic() - self._read_at
        if age > INBOX_KNOWN_SECONDS:
            return None
        if age > INBOX_FRESH_SECONDS:
            _ = self._look_soon()
        return present_in(self._inboxes, session, project) if self._inboxes else ()

    async def current(self, session: str, project: str | None) -> tuple[Presence, ...]:
        """Return the clients with an open inbox that reaches this session, at most a second old."""
        if not self._is_cached:
            return present_in(await open_inboxes(self._context.store), session, project)
        is_fresh = time.monotonic() - self._read_at <= INBOX_FRESH_SECONDS
        inboxes = self._inboxes if is_fresh else await asyncio.shield(self._look_soon())
        return present_in(inboxes, session, project)

    def _look_soon(self) -> asyncio.Task[tuple[Inbox, ...]]:
        """Return the read in progress, which concurrent callers share, or begin one."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._look(), name="ledger inboxes")
            # All callers may have gone by the time it fails.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return self._looking

    async def _look(self) -> tuple[Inbox, ...]:
        try:
            inboxes = await open_inboxes(self._context.store)
            if self._looking is asyncio.current_task():
                self._inboxes, self._read_at = inboxes, time.monotonic()
        finally:
            if self._looking is asyncio.current_task():
                self._looking = None
        return inboxes

    def forget(self) -> None:
        """Read again at the next call: an inbox was opened or closed by this process."""
        self._read_at = float("-inf")
        self._looking = None


log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

TRIES_MAX: Final = 16
"""Retries of a command whose inputs other processes keep changing, before it fails as in doubt."""

PRESENCE_SECONDS: Final = 1.0
"""The time for which commands of a session read leases ahead, after one whose decision depended on them."""

TRIES_OF_ASSUMED: Final = 2
"""Commands in progress whose decision depends on leases, from which on they are read: others come and go too fast."""


class Grounds:
    """The state of a session's stream, and the other inputs of its commands."""

    def __init__(self, context: Context, inboxes: InboxPresence, stream: Stream[SessionState]) -> None:
        self._context = context
        self._stream = stream
        self._inboxes = inboxes
        self._freezes = context.streams.freezes
        self._presence_until = float("-inf")
        """The time up to which commands prefetch leases, by this machine's monotonic clock."""
        self._looking: asyncio.Task[Live] | None = None
        self._looking_for: object = None
        self._wanting_presence = 0
        """The commands in progress whose decision depends on leases."""

    async def folded(self) -> SessionState:
        """Return the cached state, read from the server only if there is none yet."""
        return self._stream.state if self._stream.folded else await self._stream.refresh()

    async def policy(self, state: SessionState) -> Policy:
        """Return the compiled rules of a state. Raises RulesUnreadableError, StoreError, InDoubtError."""
        policies = self._context.policies
        known = policies.known(state)
        return known or policies.of(state, await self.rules(state))

    async def rules(self, state: SessionState) -> PolicySource:
        """Return the rules of a state. Errors as of `policy`."""
        return await self._context.streams.rulesets.of(state)

    async def project(self, state: SessionState) -> Stream[ProjectState] | None:
        """Return the folded stream of the session's project; None for a session without one."""
        if state.project is None:
            return None
        stream = self._context.streams.project(state.project)
        if not stream.folded:
            await stream.refresh()
        return stream

    async def know_freezes(self, project: str | None) -> None:
        """Read the freezes again where this process knows of one, so that one that has ended stops nothing."""
        if self._freezes.over(project) is not None:
            await self._freezes.refresh()

    async def live(self, state: SessionState) -> Live | None:
        """Return the presence as this process heard last, which an append compares; None if it knows none.

        Read where a command in progress could not go on without; where connections are events, for a while after it.
        """
        if self._wanting_presence < TRIES_OF_ASSUMED and not records_clients(state):
            inbox = self._inboxes.known(state.session_id, state.project)
            if inbox is not None:
                return Live(self._stream.present, inbox, is_assumed=True)
        if not self._wanting_presence and time.monotonic() > self._presence_until:
            return None
        return await self.read_live(state)

    async def read_live(self, state: SessionState) -> Live:
        """Return the presence by leases: the session's as of now, the inboxes' at most a second old."""
        if self._looking is None or state.clients is not self._looking_for:
            self._looking = asyncio.create_task(self._look(state), name="ledger presence")
            self._looking_for = state.clients
        return await asyncio.shield(self._looking)

    async def _look(self, state: SessionState) -> Live:
        # Commands of the same turn of the loop share one read; later ones must see later leases.
        await asyncio.sleep(0)
        if self._looking is asyncio.current_task():
            self._looking = self._looking_for = None
        store = self._context.store
        inbox = self._inboxes.current(state.session_id, state.project)

        async def read() -> tuple[tuple[Presence, ...], tuple[Presence, ...]]:
            (here,), reaching = await asyncio.gather(store.leases((state.session_id,)), inbox)
            return here, reaching

        live = await read_live(state, read(), store.clock.now_ms())
        self._stream.present = live.clients
        return live

    async def _take(self, wanted: UsesWantedError) -> None:
        """Take uses in the project's stream, confirmed as grants are; a lost race leaves the grant without one."""
        state = await self.folded()
        project = await self.project(state)
        assert project is not None, "a grant of a project was used"
        taker = wanted.taker
        for grant_id in wanted.grant_ids:
            command = TakeUse(
                actor=SYSTEM,
                grant_id=grant_id,
                session=taker.session,
                request_id=taker.request_id,
                claim_id=taker.claim_ids[-1],
            )
            await project.submit(command)
        await project.make_safe()

    async def by_current_rules(self, attempt: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Retry when another process has changed the session's rules or clients, which this one has read by then.

        Also read the leases that the attempt depends on, and take the uses of the project's grants that it rests on. Raises InDoubtError after 16 tries, and
        what `attempt` raises.
        """
        session = self._stream.key.id
        wanted = 0
        try:
            for _ in range(TRIES_MAX):
                try:
                    return await attempt(*args, **kwargs)
                except OutdatedRulesError:
                    log.info("the rules or clients of session %s changed during the evaluation; retrying", session)
                except PresenceWantedError:
                    self._presence_until = time.monotonic() + PRESENCE_SECONDS
                    self._wanting_presence += 1
                    wanted += 1
                except UsesWantedError as wants:
                    await self._take(wants)
        finally:
            self._wanting_presence -= wanted
        raise InDoubtError(f"the rules or clients of session `{session}` changed {TRIES_MAX} times; try again")

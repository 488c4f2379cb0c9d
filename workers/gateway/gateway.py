"""The state shared by all routes: the ledger, visibility of sessions, and waits that end when the gateway stops.

An agent that brings rules asks with the digest of the rules that it means. A gateway that has no such digest for the
session, for example after a restart, refuses the ask; the agent then brings its rules again.
"""

from __future__ import annotations

import asyncio
import socket
from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, TypeVar

from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from ledger import Ledger, Session
from ledger.client.tokens import Tokens
from ledger.core.errors import LedgerError, UnknownSessionError
from ledger.core.ids import check_id
from ledger.log.history import HistoryCache
from ledger.session.state import SessionState
from workers.gateway.events.streams import EventStreams
from workers.gateway.hooks import HookThreads
from workers.gateway.metrics import Metrics
from workers.gateway.names import passkey_origins
from workers.gateway.notifications import Notifications
from workers.gateway.outline import Outlines
from workers.gateway.presence import Presences
from workers.gateway.principals import Principal
from workers.gateway.provider_settings import OidcSettings
from workers.gateway.quotas import Holdings, Limiter, Turns
from workers.gateway.reads import Reads
from workers.gateway.request_search import FreshViews, RequestSearch
from workers.gateway.settings import (
    PAGE_COUNT_MAX,
    SIGN_INS_BURST,
    SIGN_INS_PER_SECOND,
    WAIT_SECONDS_MAX,
    GatewaySettings,
)
from workers.gateway.worker_pool import WorkerPool
from workers.runtime.project_rules import ProjectRules

if TYPE_CHECKING:
    from workers.gateway.provider import Provider

SESSIONS_COUNT: Final = 10_000


class RulesDifferError(LedgerError):
    """An ask that means other rules than those of its session."""

    code = "RULES_DIFFER"


class Brought:
    """The digests at one gateway. The session that was not used for the longest time is forgotten first."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[str, str]] = OrderedDict()

    def note(self, state: SessionState, digest: str) -> None:
        """Store the digest of the rules that were just brought to a session."""
        self._known[state.session_id] = (digest, state.policy_digest)
        self._known.move_to_end(state.session_id)
        if len(self._known) > SESSIONS_COUNT:
            self._known.popitem(last=False)

    def require(self, state: SessionState, digest: str | None) -> None:
        """Raise RulesDifferError unless the session is judged by the rules of this digest."""
        if digest is not None and self._known.get(state.session_id) != (digest, state.policy_digest):
            raise RulesDifferError(
                f"session `{state.session_id}` is not known here by these rules; bring them, and ask again",
                session=state.session_id,
            )


T = TypeVar("T")


class Gateway:
    """One gateway process; all of its state can be rebuilt after a crash."""

    def __init__(self, ledger: Ledger, settings: GatewaySettings, listeners: Sequence[socket.socket] = ()) -> None:
        self.ledger = ledger
        self.settings = settings
        self.passkey_origins = passkey_origins(listeners, settings.public_url, settings.hosts)
        self.tokens: Tokens = ledger.tokens
        self.history_cache = HistoryCache(ledger.store)
        self.outlines = Outlines()
        self.limiter = Limiter(settings.requests_per_second, settings.requests_burst)
        self.turns = Turns()
        self.sign_in_limiter = Limiter(SIGN_INS_PER_SECOND, SIGN_INS_BURST)
        self.pool = WorkerPool()
        self.hooks = HookThreads()
        self.brought = Brought()
        self.presences = Presences(ledger)
        self.projects = ProjectRules()
        self.reads = Reads(ledger.store, settings.reads_kept_ms)
        self.views = FreshViews(ledger)
        self.notifications = Notifications(ledger, settings)
        self.search = RequestSearch(ledger.store, settings.index_file)
        self.judging_the_past = asyncio.Semaphore(1)
        """The turn of who has past requests judged again: it takes time of the loop, so one does at a time."""
        self.provider = None if settings.oidc is None else _provider(settings.oidc)
        self.holdings = Holdings(ledger, settings.quotas)
        self.events = EventStreams(ledger, self.holdings)
        self.metrics = Metrics(
            ledger,
            lambda: self.events.count,
            self.holdings.refused,
            lambda: self.views.lag_events,
            has_names=settings.names_in_metrics,
        )
        self.stopping = asyncio.Event()
        """Set when the gateway is told to stop: waiting requests are answered with their current state."""

    async def start(self) -> None:
        """Start the background work; from the return on, revoked tokens are refused at once. Raises StoreError."""
        await self.tokens.watch()
        self.holdings.begin()

    def stop(self) -> None:
        """Begin to stop: waiting requests are answered with their current state, and event streams end."""
        self.stopping.set()
        self.events.end_all()

    async def close(self) -> None:
        """Stop the background work."""
        await self.events.close()
        self.pool.close()
        self.hooks.close()
        await self.holdings.close()
        await self.reads.close()

    @property
    def now_ms(self) -> int:
        return self.ledger.store.clock.now_ms()

    async def session(self, session_id: str, principal: Principal, *, fresh: bool = False) -> Session:
        """Return an existing session that the caller may see.

        Raises UnknownSessionError otherwise, also for a session that the caller may not see, so as not to reveal it.
        """
        session = Session(self.ledger, check_id(session_id, "session id"))
        state = session.stream.state
        if fresh or not session.stream.folded or state.opened_ms is None:
            state = await session.state()
        self.require_reach(principal, state)
        self.reads.look(principal, session_id)
        session.on_behalf_of(principal.token_id, principal.owner)
        return session

    def require_reach(self, principal: Principal, state: SessionState) -> None:
        """Raise UnknownSessionError for a session that does not exist or is out of reach."""
        if state.opened_ms is not None and principal.reaches_state(state):
            return
        if principal.bounds.own is None:
            raise UnknownSessionError(f"there is no session `{state.session_id}`", session=state.session_id)
        raise UnknownSessionError(
            f"there is no session `{state.session_id}` that was opened with this token, and it reaches no other; open one, "
            f"or make a token with `token create --session {state.session_id}`",
            session=state.session_id,
        )

    async def unless_stopping(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of the work, or None when the gateway stops first."""
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stopping.wait())
        try:
            await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else None
        finally:
            stopping.cancel()
            if not working.done():
                working.cancel()
                with suppress(asyncio.CancelledError):
                    await working


def _provider(settings: OidcSettings) -> Provider:
    from workers.gateway.provider import Provider  # noqa: PLC0415 - its packages are an extra of their own

    return Provider(settings)


TheGateway: TypeAlias = NamedDependency[Gateway]
ThePrincipal: TypeAlias = NamedDependency[Principal]

Id: TypeAlias = FromPath[str]
Text: TypeAlias = FromQuery[str]
OptionalText: TypeAlias = FromQuery[str | None]

Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=PAGE_COUNT_MAX, required=False)]
OptionalLimit: TypeAlias = Annotated[int | None, QueryParameter(ge=1, le=PAGE_COUNT_MAX, required=False)]
After: TypeAlias = Annotated[int, QueryParameter(ge=0, required=False, description="Only events after this version")]
Wait: TypeAlias = Annotated[
    float, QueryParameter(ge=0, le=WAIT_SECONDS_MAX, required=False, description="Seconds to wait for the outcome")
]

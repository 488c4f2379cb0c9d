"""The client of a ledger: sessions, pending requests, grants, history."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Self

from ledger.client.grant_list import GrantList
from ledger.client.grant_uses import GrantUse, uses_of
from ledger.client.lookups import waiting_first
from ledger.client.parts import Parts
from ledger.client.pending_list import PendingList
from ledger.client.plugins import Decider, check_deciders, from_entry_points
from ledger.client.results import Approved, Pending, Result, approved_in_project, pending_of
from ledger.client.session_options import policy_source_of, run_limits, settings_of
from ledger.client.store_connection import StoreConnection, masks_are_on, masks_of
from ledger.core.errors import AgentAction, InputError, UnknownGrantError, UnknownRequestError, UnknownSessionError
from ledger.core.events import (
    Actor,
    Answering,
    CascadeAlways,
    CascadeReject,
    Extending,
    LateDenies,
    Presence,
    WhenAbandoned,
    WhenFrozen,
)
from ledger.core.ids import check_id, check_new_id, new_grant_id
from ledger.core.policy import DemandRule, PolicySource, Rule
from ledger.core.requests import Answer, check_folder, check_message, check_name, check_uses, make_question
from ledger.core.timeouts import Timeouts
from ledger.core.times import check_duration_ms
from ledger.log.archive.archive import all_streams, with_archive
from ledger.log.history import Moment, state_at
from ledger.log.inboxes import EVERYWHERE, Inbox, InboxReach, close_inbox, renew_inbox
from ledger.log.streams import Streams
from ledger.log.surveys import LIST_COUNT, ListPage, Survey
from ledger.policy.demands import with_demands
from ledger.policy.dialects import child_source, orphan_source
from ledger.project import GrantInProject, RevokeInProject
from ledger.session.commands import Open
from ledger.session.decision import records_clients
from ledger.session.state import SessionState
from ledger.stores.durability import Durability
from ledger.stores.port import StreamKey
from ledger.stores.store import Clock
from ledger.stores.urls import open_store, url_of_environment

if TYPE_CHECKING:
    from ledger.client.session import Session


class Ledger(Parts):
    """A ledger, opened by `async with Ledger.connect(url)`. One for each process; safe to use from many tasks."""

    def __init__(
        self,
        connection: StoreConnection,
        *,
        plugins: Sequence[Decider],
        actor: str | None,
        clock: Clock | None = None,
        masks: bool = True,
    ) -> None:
        super().__init__(plugins=plugins, actor=actor, is_on_time=clock is None)
        self._connection = connection
        self._has_masks = masks

    @classmethod
    def connect(
        cls,
        url: str | None = None,
        *,
        plugins: Iterable[Decider] = (),
        entry_points: bool = True,
        clock: Clock | None = None,
        actor: str | None = None,
        partitions: int | None = None,
        durability: Durability | None = None,
        masks: bool | None = None,
    ) -> Ledger:
        """Return the ledger at a URL (default: `PERMISSION_LEDGER_URL`, else the embedded server of the data folder).

        `plugins` are deciders after the rules, before those of installed distributions (`entry_points`). `durability`
        is the replication required before a grant or an allow takes effect (default: from the URL's query). `masks`: known
        shapes of secrets are masked before anything is written (default: yes, unless `PERMISSION_LEDGER_MASKS` is
        `off`; `docs/guides/secrets.md`). `clock` is for tests (`ledger.testing`). Entering the block raises StoreError, SetupError or InputError.
        """
        deciders = [*plugins, *(from_entry_points() if entry_points else ())]
        opened = partial(open_store, clock=clock, partition_count=partitions, durability=durability)
        connection = StoreConnection(named_url(url), opened)
        return cls(connection, plugins=check_deciders(deciders), actor=actor, clock=clock, masks=masks_are_on(masks))

    async def __aenter__(self) -> Self:
        try:
            self._store = with_archive(await self._connection.open())
            self._streams = Streams(self._store, await masks_of(self._store) if self._has_masks else None)
            await self._streams.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._streams is not None:
            await self._streams.close()
        await self._connection.close()

    @property
    def server_url(self) -> str:
        """Return the URL of the server in use, including its password; for an embedded one that of its socket."""
        return self._connection.url

    # --- sessions ---------------------------------------------------------------------------------------------------

    async def session(
        self,
        session_id: str,
        *,
        project: str | None = None,
        rules: Sequence[Rule | Mapping[str, Any]] | Mapping[str, Any] | None = None,
        policy: PolicySource | None = None,
        policy_source: str | None = None,
        dialect: str = "opencode",
        options: Mapping[str, Any] | None = None,
        timeouts: Timeouts | None = None,
        cascade_reject: CascadeReject | None = None,
        cascade_always: CascadeAlways | None = None,
        answering: Answering | None = None,
        on_denied: AgentAction | None = None,
        when_abandoned: WhenAbandoned | None = None,
        late_denies: LateDenies | None = None,
        approval_lifetime: float | None = None,
        claim_timeout: float | None = None,
        when_frozen: WhenFrozen | None = None,
        extending: Extending | None = None,
        agent: str | None = None,
        parent: str | None = None,
        cwd: str | None = None,
        home: str | None = None,
        denies_alone: bool = False,
        token_id: str | None = None,
        demands: Iterable[DemandRule | Mapping[str, Any]] | None = None,
        actor: Actor | str | None = None,
    ) -> Session:
        """Open a session, or attach to it; an omitted argument leaves that setting unchanged.

        `rules` are rules (`{permission, pattern, action}`) or a configuration in the dialect's own form; `policy` is
        the same with layers. A new session with a `parent` and without rules or options of its own has its parent's
        rules; with its own, it still inherits from its parent by its dialect (`ledger.policy.dialects`), with
        `denies_alone` only what makes its rules stricter. `token_id` is the access token that will own a new session.

        `cwd` and `home` are the agent's working folder and its user's home, absolute paths on the machine where its
        calls run: rules are judged by them unless `options` name others, and an unknown path counts as outside the
        project. `approval_lifetime` is the time (seconds; infinity: no limit) for which a person's answer lets a call
        begin; `claim_timeout` is the time after which a claim without a recorded end is ended. `extending` tells
        whether people extend attended requests while they think (`docs/guides/answering.md`). `demands` are conditions on answers, such as a passkey's signature (`docs/guides/demands.md`), added
        to those of the rules. Raises InputError for bad rules or another project, NewerSchemaError, DamageError.
        """
        check_new_id(session_id, "session id")
        source = policy or policy_source_of(rules, dialect, options)
        handle = self.handle_of(session_id)
        state = await handle.state()
        if parent is not None:
            check_id(parent, "parent session id")
        is_new = state.opened_ms is None
        parent_id = parent if is_new else state.parent
        plain = PolicySource(dialect=dialect, options=dict(options or {}))
        if parent_id is not None and (is_new or source is not None):
            own = source or (None if options is None else plain)
            source = await self._of_child(own, plain, parent_id, agent, denies_alone=denies_alone)
        elif is_new:
            source = source or plain
        if demands is not None:
            has = None if source is not None or not state.policy_digest else await self.streams.rulesets.of(state)
            source = with_demands(source or has or plain, demands)
        policy_digest = "" if source is None else self.policies.check(source)
        by = self.actor(actor, "agent")
        if source is not None and state.closed_ms is None:
            await self.streams.rulesets.keep(source, policy_digest, by)
        command = Open(
            actor=by,
            project=None if project is None else check_id(project, "project id"),
            agent=None if agent is None else check_name(agent, "agent"),
            parent=parent,
            cwd=check_folder(cwd, "working directory"),
            home=check_folder(home, "home directory"),
            policy=source,
            policy_digest=policy_digest,
            policy_source=policy_source,
            token_id=token_id,
            settings=settings_of(
                state,
                source or plain,
                timeouts,
                cascade_reject=cascade_reject,
                cascade_always=cascade_always,
                answering=answering,
                on_denied=on_denied,
                when_abandoned=when_abandoned,
                late_denies=late_denies,
                **run_limits(approval_lifetime, claim_timeout),
                when_frozen=when_frozen,
                extending=extending,
            ),
        )
        await handle.stream.submit(command)
        return handle

    async def _of_child(
        self, own: PolicySource | None, fallback: PolicySource, parent: str, agent: str | None, *, denies_alone: bool
    ) -> PolicySource:
        """Return the policy of a child session: its own, else its parent's, else `fallback`."""
        above = await self.handle_of(parent).state()
        if above.opened_ms is None or above.rules_redacted:
            return orphan_source(own or fallback)
        return child_source(await self.streams.rulesets.of(above), own, agent, denies_alone=denies_alone)

    async def attach(self, session_id: str) -> Session:
        """Return an existing session. Raises UnknownSessionError."""
        handle = self.handle_of(check_id(session_id, "session id"))
        if (await handle.state()).opened_ms is None:
            raise UnknownSessionError(f"there is no session `{session_id}`", session=session_id)
        return handle

    async def state_at(self, session_id: str, at: str | int | None = None) -> Moment[SessionState]:
        """Return a session's state as of a version, or after the last event at or before an RFC 3339 time."""
        return await state_at(self.store, StreamKey("session", session_id), at)

    async def sessions(self) -> AsyncIterator[str]:
        """Iterate over the ids of all sessions, unordered."""
        async for key in all_streams(self.store):
            if key.kind == "session":
                yield key.id

    # --- requests anywhere ------------------------------------------------------------------------------------------

    async def pending(self, session_id: str | None = None) -> list[Pending]:
        """Return the pending requests, nearest deadline first; those that never expire come last.

        A request that its deadline has ended is left out, also while no expiry worker has recorded that.
        """
        if session_id is not None:
            return await (await self.attach(session_id)).pending()
        return (await self.pending_anywhere()).rows

    async def pending_anywhere(self) -> Survey[Pending]:
        """Return the pending requests of all sessions, nearest deadline first, and the sessions that cannot be read."""
        states = await self.waiting.survey()
        found = [one for state in states.rows for one in pending_of(state)]
        found.sort(key=lambda one: (one.request.deadline_ms is None, one.request.deadline_ms or 0))
        return Survey(found, states.problems)

    def pending_pages(self, after: str | None = None, count: int = LIST_COUNT) -> AsyncIterator[ListPage[Pending]]:
        """Iterate over the pending requests of all sessions in pages of about `count`, nearest deadline first.

        `after` is the cursor of a page, or of one of its `rows`. Only what is on a page is read.
        """
        return PendingList(self.store, self.streams).pending_pages(after, count)

    async def sessions_of(self, request_id: str) -> list[str]:
        """Return the sessions with this request id; if some of them have pending requests, only those."""
        return waiting_first(await self.lookups.of_request(request_id))

    def handle_of(self, session_id: str) -> Session:
        """Return the handle of a session, without a look whether there is one. `session_id` is checked already.

        The first handle of a process imports the rules, which takes about a tenth of a second. `from ledger import Session`
        does so before.
        """
        # Commands that only read have no handle, and start in four fifths of the time.
        from ledger.client.session import Session  # noqa: PLC0415

        return Session(self, session_id)

    async def session_of(self, request_id: str, session_id: str | None = None) -> Session:
        """Return the session of a request. Raises UnknownRequestError; InputError when several have the id."""
        if session_id is not None:
            return await self.attach(session_id)
        found = await self.lookups.of_request(request_id)
        known_in = waiting_first(found)
        if not known_in:
            alike = await self.lookups.alike("pending requests", request_id)
            raise UnknownRequestError(
                f"no session has a request `{request_id}`{found.unread}{alike}", request_id=request_id
            )
        if len(known_in) > 1:
            names = ", ".join(f"`{name}`" for name in sorted(known_in))
            raise InputError(
                f"request `{request_id}` is known in several sessions: {names}; name one (--session)",
                request_id=request_id,
                sessions=sorted(known_in),
            )
        return await self.attach(known_in[0])

    async def reply(self, /, request_id: str, reply: Answer, *, session_id: str | None = None, **more: Any) -> Result:
        """Answer a request by its id; see `Session.reply`."""
        return await (await self.session_of(request_id, session_id)).reply(request_id, reply, **more)

    async def cancel(self, /, request_id: str, *, session_id: str | None = None, **more: Any) -> Result:
        """Withdraw a request by its id; see `Session.cancel`."""
        return await (await self.session_of(request_id, session_id)).cancel(request_id, **more)

    async def approved_anywhere(self) -> list[Approved]:
        """Return the grants in force in all projects and sessions, in order of creation."""
        return (await self.grants_anywhere()).rows

    async def grants_anywhere(self) -> Survey[Approved]:
        """Return the same, and the streams that cannot be read."""
        found: Survey[Approved] = Survey([], [])
        async for page in self.approved_pages():
            found.rows.extend(page.items)
            found.problems.extend(page.problems)
        return found

    def approved_pages(self, after: str | None = None, count: int = LIST_COUNT) -> AsyncIterator[ListPage[Approved]]:
        """Iterate over the grants in force in all projects and sessions in pages of about `count`, oldest first.

        `after` is the cursor of a page, or of one of its `rows`. Only streams with grants on a page are read.
        """
        return GrantList(self.store, self.streams).approved_pages(after, count)

    async def grants_in_project(self, project: str) -> Survey[Approved]:
        """Return the grants in force in a project with their last uses, and the sessions that cannot be read.

        The last uses of grants without a limit are told by the views, and by the sessions that are ahead of them.
        """
        own = await self.approved_in_project(project)
        if all(one.grant.uses is not None for one in own):
            return Survey(own, [])
        return await GrantList(self.store, self.streams).last_uses(own)

    # --- a project's grants -----------------------------------------------------------------------------------------

    async def approved_in_project(self, project: str) -> list[Approved]:
        """Return the grants in force in a project."""
        state = await self.streams.project(check_id(project, "project id")).refresh()
        return approved_in_project(state, self.store.clock.now_ms())

    async def grant_in_project(
        self,
        project: str,
        permission: str,
        pattern: str = "*",
        *,
        expires_in_ms: int | None = None,
        uses: int | None = None,
        reason: str | None = None,
        grant_id: str | None = None,
        actor: Actor | str | None = None,
    ) -> Approved:
        """Make a grant for all sessions of a project, future ones included.

        It lifts at most `uses` calls (1 to 1000; default: any number). `grant_id` makes the call idempotent: a known id
        makes no grant.
        """
        command = GrantInProject(
            actor=self.actor(actor, "person"),
            grant_id=new_grant_id() if grant_id is None else check_id(grant_id, "grant id"),
            permission=check_name(permission, "permission"),
            pattern=make_question("grant", [pattern]).call.patterns[0],
            expires_in_ms=None if expires_in_ms is None else check_duration_ms(expires_in_ms, "time to live"),
            uses=None if uses is None else check_uses(uses),
            reason=check_message(reason, "reason"),
        )
        stream = self.streams.project(check_id(project, "project id"))
        if self.streams.freezes.over(project) is not None:
            # One that has ended meanwhile stops nothing.
            await self.streams.freezes.refresh()
        done = await stream.submit(command)
        await stream.make_safe()
        await self.waiting.release_in_project(project)
        return Approved(grant=done.state.grants[command.grant_id], session=None, project=project)

    async def revoke(self, grant_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> StreamKey:
        """Revoke a grant in any stream; return the stream. Raises UnknownGrantError."""
        key = await self._named_grant(check_id(grant_id, "grant id"))
        if key.kind == "session":
            await self.handle_of(key.id).revoke(grant_id, reason=reason, actor=actor)
        else:
            command = RevokeInProject(
                actor=self.actor(actor, "person"), grant_id=grant_id, reason=check_message(reason, "reason")
            )
            stream = self.streams.project(key.id)
            await stream.submit(command)
            await stream.make_safe()
        return key

    async def uses_of(self, grant_id: str) -> Survey[GrantUse]:
        """Return the calls that a grant let through, in order of time; also of an ended one. Raises UnknownGrantError."""
        return await uses_of(
            self.streams, self.lookups.users_of_grant, await self._named_grant(check_id(grant_id, "grant id")), grant_id
        )

    async def stream_of_grant(self, grant_id: str) -> StreamKey:
        """Return the stream of a grant, revoked ones included. Raises UnknownGrantError."""
        found = await self.lookups.of_grant(grant_id)
        if not found.rows:
            raise UnknownGrantError(f"there is no grant `{grant_id}`{found.unread}", grant_id=grant_id)
        return found.rows[0]

    async def _named_grant(self, grant_id: str) -> StreamKey:
        """Return the same; the error names the grants whose id begins so."""
        try:
            return await self.stream_of_grant(grant_id)
        except UnknownGrantError as error:
            alike = await self.lookups.alike("grants in force", grant_id)
            raise UnknownGrantError(f"{error.text}{alike}", grant_id=grant_id) from None

    # --- the inbox --------------------------------------------------------------------------------------------------

    async def connect_inbox(
        self, client_id: str, *, actor: Actor | str, reach: InboxReach = EVERYWHERE
    ) -> list[Pending]:
        """Connect a person's inbox to all sessions within its reach; return their pending requests for replay."""
        who = self.actor(actor, "person")
        presence = Presence(check_id(client_id, "client id"), check_name(who.name, "client name"))
        await renew_inbox(self.store, Inbox(presence, reach))
        self.inboxes.forget()
        replayed: list[Pending] = []
        for state in await self.waiting.states():
            if state.closed_ms is None and reach.covers(state.session_id, state.project):
                replayed += await self.handle_of(state.session_id).connect_by_inbox(presence, who)
        return sorted(replayed, key=lambda one: (one.request.asked_ms, one.session, one.request.version))

    async def renew_inbox(self, client_id: str, *, actor: str, reach: InboxReach = EVERYWHERE) -> None:
        """Renew the lease of a client's inbox."""
        await renew_inbox(self.store, Inbox(Presence(client_id, actor), reach))

    async def disconnect_inbox(self, client_id: str, *, actor: Actor | str) -> None:
        who = self.actor(actor, "person")
        await close_inbox(self.store, client_id)
        self.inboxes.forget()
        for state in await self.waiting.states():
            known = state.clients.get(client_id)
            if known is not None and known.name == who.name and records_clients(state):
                await self.handle_of(state.session_id).disconnect(client_id, actor=who)


def named_url(url: str | None) -> str:
    """Return the URL of the ledger: as given, else of the environment, else the embedded server of the data folder.

    Raises InputError for a PERMISSION_LEDGER_URL_FILE that cannot be read.
    """
    return url or url_of_environment() or "embedded://"

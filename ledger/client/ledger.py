"""The client of a ledger: sessions, pending requests, grants, history."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self

import msgspec

from ledger.client.machine import default_actor_name, machine_facts
from ledger.client.passkeys.book import PasskeyBook
from ledger.client.plugins import Decider, check_deciders, from_entry_points
from ledger.client.results import Approved, Pending, Result, pending_of
from ledger.client.session import Session
from ledger.client.session_options import policy_source_of, settings_of
from ledger.client.tokens import Tokens
from ledger.core.durations import check_duration_ms
from ledger.core.errors import (
    AgentAction,
    AlreadyAnsweredError,
    DamageError,
    InputError,
    StoreError,
    UnknownGrantError,
    UnknownRequestError,
    UnknownSessionError,
)
from ledger.core.events import (
    Actor,
    Answering,
    CascadeAlways,
    CascadeReject,
    LateDenies,
    Presence,
    WhenAbandoned,
)
from ledger.core.grants import in_force
from ledger.core.ids import check_id, new_grant_id
from ledger.core.limits import POLICIES_KEPT_COUNT, POLICY_BYTES
from ledger.core.policy import DemandRule, Policy, PolicySource, Rule
from ledger.core.replies import Answer
from ledger.core.requests import check_folder, check_message, check_name, make_question
from ledger.core.timeouts import Timeouts
from ledger.log.history import Moment, state_at
from ledger.log.inboxes import EVERYWHERE, Inbox, InboxReach, close_inbox, open_inboxes, present_in, renew_inbox
from ledger.log.plans import SYSTEM
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.log.surveys import StreamProblem, Survey, problem_of, survey
from ledger.policy.child_policy import child_source, orphan_source
from ledger.policy.demands import with_demands
from ledger.policy.dialects import compile_policy, digest
from ledger.policy.evaluation_cache import RememberingPolicy
from ledger.policy.locations import placed
from ledger.project.state import GrantInProject, RevokeInProject
from ledger.session.commands import Open
from ledger.session.state import SessionState, in_order
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability
from ledger.stores.embedded import EmbeddedServer, embedded_server
from ledger.stores.port import Store, StreamKey
from ledger.stores.urls import embedded_folder, open_store, url_of_environment

log = logging.getLogger(__name__)

INBOX_FRESH_SECONDS = 1.0
"""The maximum age of the cached inbox presence."""

PENDING_SESSIONS_MAX = 100_000


class Ledger:
    """A ledger, opened by `async with Ledger.connect(url)`. One for each process; safe to use from many tasks."""

    def __init__(
        self,
        url: str,
        *,
        plugins: Sequence[Decider],
        clock: Clock | None,
        actor: str | None,
        partitions: int | None,
        durability: Durability | None = None,
    ) -> None:
        self._url = url
        self._durability = durability
        self._clock = clock
        self._partitions = partitions
        self.actor_name = check_name(actor or default_actor_name(), "actor")
        self.deciders = plugins
        self._server: EmbeddedServer | None = None
        self._store: Store | None = None
        self._streams: Streams | None = None
        self._policies: OrderedDict[tuple[str, str | None, str | None], Policy] = OrderedDict()
        self._tokens: Tokens | None = None
        self._passkeys: PasskeyBook | None = None
        self._inboxes: tuple[float, tuple[Inbox, ...]] = (float("-inf"), ())
        self._told: set[StreamProblem] = set()
        self._looking: asyncio.Task[tuple[Inbox, ...]] | None = None

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
    ) -> Ledger:
        """Return the ledger at a URL (default: `PERMISSION_LEDGER_URL`, else the embedded server of the data folder).

        `plugins` are deciders after the rules, before those of installed distributions (`entry_points`). `durability`
        is the replication required before a grant or an allow takes effect (default: from the URL's query). `clock` is
        for tests (`ledger.testing`). Entering the block raises StoreError, SetupError or InputError.
        """
        deciders = [*plugins, *(from_entry_points() if entry_points else ())]
        return cls(
            named_url(url),
            plugins=check_deciders(deciders),
            clock=clock,
            actor=actor,
            partitions=partitions,
            durability=durability,
        )

    async def __aenter__(self) -> Self:
        url = self._url
        if url.startswith("embedded://"):
            self._server = embedded_server(embedded_folder(url))
            await self._server.__aenter__()
            url = self._server.url
        try:
            revive = None if self._server is None else self._revive
            self._store = open_store(
                url,
                clock=self._clock,
                partition_count=self._partitions,
                revive=revive,
                durability=self._durability,
            )
            await self._store.start()
            self._streams = Streams(self._store)
            await self._streams.start()
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._streams is not None:
            await self._streams.close()
        if self._store is not None:
            await self._store.close()
        if self._server is not None:
            await self._server.__aexit__(None, None, None)
            self._server = None

    async def _revive(self) -> None:
        """Restart the embedded server, of which this process holds the folder, after it died."""
        try:
            if self._server is not None:
                await self._server.revive()
        except StoreError as error:
            log.warning("the embedded server could not be started again: %s", error)

    @property
    def server_url(self) -> str:
        """Return the URL of the server in use, including its password; for an embedded one that of its socket."""
        return self._url if self._server is None else self._server.url

    @property
    def store(self) -> Store:
        assert self._store is not None, "use it as `async with Ledger.connect(...) as ledger`"
        return self._store

    @property
    def streams(self) -> Streams:
        assert self._streams is not None, "use it as `async with Ledger.connect(...) as ledger`"
        return self._streams

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
        rules; with its own, it still inherits from its parent by its dialect (`ledger.policy.child_policy`), with
        `denies_alone` only what makes its rules stricter. `token_id` is the access token that will own a new session.

        `cwd` and `home` are the agent's working folder and its user's home, absolute paths on the machine where its
        calls run: rules are judged by them unless `options` name others, and an unknown path counts as outside the
        project. `demands` are conditions on answers, such as a passkey's signature (`docs/guides/passkeys.md`), added
        to those of the rules. Raises InputError for bad rules or another project, NewerSchemaError, DamageError.
        """
        check_id(session_id, "session id")
        source = policy or policy_source_of(rules, dialect, options)
        handle = Session(self, session_id)
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
            source = with_demands(source or state.policy or plain, demands)
        policy_digest = "" if source is None else self._check_policy(source)
        command = Open(
            actor=self.actor(actor, "agent"),
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
                dialect if source is None else source.dialect,
                timeouts,
                cascade_reject=cascade_reject,
                cascade_always=cascade_always,
                answering=answering,
                on_denied=on_denied,
                when_abandoned=when_abandoned,
                late_denies=late_denies,
            ),
        )
        await handle.stream.submit(command)
        return handle

    async def _of_child(
        self,
        own: PolicySource | None,
        fallback: PolicySource,
        parent: str,
        agent: str | None,
        *,
        denies_alone: bool,
    ) -> PolicySource:
        """Return the policy of a child session: its own, else its parent's, else `fallback`."""
        policy = (await Session(self, parent).state()).policy
        return (
            orphan_source(own or fallback)
            if policy is None
            else child_source(policy, own, agent, denies_alone=denies_alone)
        )

    async def attach(self, session_id: str) -> Session:
        """Return an existing session. Raises UnknownSessionError."""
        handle = Session(self, check_id(session_id, "session id"))
        if (await handle.state()).opened_ms is None:
            raise UnknownSessionError(f"there is no session `{session_id}`", session=session_id)
        return handle

    async def state_at(self, session_id: str, at: str | int | None = None) -> Moment[SessionState]:
        """Return a session's state as of a version, or after the last event at or before an RFC 3339 time."""
        return await state_at(self.store, StreamKey("session", session_id), at)

    async def sessions(self) -> AsyncIterator[str]:
        """Iterate over the ids of all sessions, unordered."""
        async for key in self.store.streams():
            if key.kind == "session":
                yield key.id

    def _check_policy(self, source: PolicySource) -> str:
        size = len(msgspec.json.encode(source))
        if size > POLICY_BYTES:
            raise InputError(f"the rules take {size} bytes; at most {POLICY_BYTES} are accepted")
        policy_digest = digest(source)
        self.compiled(source, policy_digest)
        return policy_digest

    def compiled(
        self, source: PolicySource, policy_digest: str, *, cwd: str | None = None, home: str | None = None
    ) -> Policy:
        """Return the compiled policy for a folder and a home, with this machine's files as its facts. It is cached."""
        key = (policy_digest, cwd, home)
        policy = self._policies.get(key)
        if policy is None:
            compiled = compile_policy(placed(source, cwd=cwd, home=home))
            policy = self._policies[key] = RememberingPolicy(compiled, machine_facts())
            if len(self._policies) > POLICIES_KEPT_COUNT:
                self._policies.popitem(last=False)
        else:
            self._policies.move_to_end(key)
        return policy

    @property
    def tokens(self) -> Tokens:
        """Return the access tokens of the gateway."""
        if self._tokens is None:
            self._tokens = Tokens(self)
        return self._tokens

    @property
    def passkeys(self) -> PasskeyBook:
        """Return the passkeys of people, and the answers that they sign."""
        if self._passkeys is None:
            self._passkeys = PasskeyBook(self)
        return self._passkeys

    # --- requests anywhere ------------------------------------------------------------------------------------------

    async def pending(self, session_id: str | None = None) -> list[Pending]:
        """Return the pending requests, nearest deadline first; those that never expire come last."""
        if session_id is not None:
            return await (await self.attach(session_id)).pending()
        return (await self.pending_anywhere()).rows

    async def pending_anywhere(self) -> Survey[Pending]:
        """Return the pending requests of all sessions, nearest deadline first, and the sessions that cannot be read."""
        states = await self.waiting_sessions()
        found = [one for state in states.rows for one in pending_of(state)]
        found.sort(key=lambda one: (one.request.deadline_ms is None, one.request.deadline_ms or 0))
        return Survey(found, states.problems)

    async def waiting_sessions(self) -> Survey[SessionState]:
        """Return the current states of the sessions with pending requests."""
        due = await self.store.due(None, PENDING_SESSIONS_MAX)
        return await self._states_of(session_id for session_id, _ in due)

    async def pending_states(self) -> list[SessionState]:
        """Return the same as a list; a session that cannot be read is logged once and left out."""
        found = await self.waiting_sessions()
        for problem in found.problems:
            if problem not in self._told:
                self._told.add(problem)
                log.warning("skipped: %s", problem.text)
        return found.rows

    async def _states_of(self, sessions: Iterable[str]) -> Survey[SessionState]:
        return await survey((StreamKey("session", one) for one in sessions), lambda key: Session(self, key.id).state())

    async def sessions_of(self, request_id: str) -> list[str]:
        """Return the sessions with this request id; searches those with pending requests first, then all."""
        return (await self._knowing(request_id)).rows

    async def _knowing(self, request_id: str) -> Survey[str]:
        waiting = await self.waiting_sessions()
        found = [state.session_id for state in waiting.rows if state.find(request_id)]
        if found:
            return Survey(found, waiting.problems)
        everywhere = await self._states_of([one async for one in self.sessions()])
        known = [state.session_id for state in everywhere.rows if state.find(request_id) is not None]
        return Survey(known, everywhere.problems)

    async def session_of(self, request_id: str, session_id: str | None = None) -> Session:
        """Return the session of a request. Raises UnknownRequestError; InputError when several have the id."""
        if session_id is not None:
            return await self.attach(session_id)
        found = await self._knowing(request_id)
        known_in = found.rows
        if not known_in:
            raise UnknownRequestError(f"no session has a request `{request_id}`{found.unread}", request_id=request_id)
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

    async def cancel_of_token(self, token_id: str) -> None:
        """Cancel the pending requests of an access token that has ended."""
        for state in await self.pending_states():
            for request in in_order(state.pending.values()):
                if request.token_id == token_id:
                    # Answered meanwhile.
                    with suppress(AlreadyAnsweredError):
                        await Session(self, state.session_id).cancel(
                            request.request_id, cause="token_revoked", actor=SYSTEM
                        )

    async def release_in_project(self, project: str) -> None:
        """Release the requests that a project's new grants allow, in its sessions with `cascade_always = "project"`."""
        for state in await self.pending_states():
            if state.project == project and state.settings.cascade_always == "project":
                await Session(self, state.session_id).answers.release()

    async def approved_anywhere(self) -> list[Approved]:
        """Return the grants in force in all projects and sessions, in order of creation."""
        return (await self.grants_anywhere()).rows

    async def grants_anywhere(self) -> Survey[Approved]:
        """Return the same, and the streams that cannot be read."""
        keys = [key async for key in self.store.streams() if key.kind != "access"]
        each = await survey(keys, self._approved_in)
        found = [one for some in each.rows for one in some]
        return Survey(sorted(found, key=lambda one: (one.grant.at_ms, one.grant.grant_id)), each.problems)

    async def _approved_in(self, key: StreamKey) -> list[Approved]:
        if key.kind == "project":
            return await self.approved_in_project(key.id)
        state = await self.streams.session(key.id).refresh()
        own = in_force(state.grants, self.store.clock.now_ms())
        return [Approved(grant=grant, session=key.id, project=state.project) for grant in own]

    # --- a project's grants -----------------------------------------------------------------------------------------

    async def approved_in_project(self, project: str) -> list[Approved]:
        """Return the grants in force in a project."""
        state = await self.streams.project(check_id(project, "project id")).refresh()
        standing = in_force(state.grants, self.store.clock.now_ms())
        return [Approved(grant=grant, session=grant.session, project=project) for grant in standing]

    async def grant_in_project(
        self,
        project: str,
        permission: str,
        pattern: str = "*",
        *,
        expires_in_ms: int | None = None,
        reason: str | None = None,
        grant_id: str | None = None,
        actor: Actor | str | None = None,
    ) -> Approved:
        """Make a grant for all sessions of a project, future ones included.

        `grant_id` makes the call idempotent: a known id makes no grant.
        """
        command = GrantInProject(
            actor=self.actor(actor, "person"),
            grant_id=new_grant_id() if grant_id is None else check_id(grant_id, "grant id"),
            permission=check_name(permission, "permission"),
            pattern=make_question("grant", [pattern]).call.patterns[0],
            expires_in_ms=None if expires_in_ms is None else check_duration_ms(expires_in_ms, "time to live"),
            reason=check_message(reason, "reason"),
        )
        stream = self.streams.project(check_id(project, "project id"))
        done = await stream.submit(command)
        await stream.make_safe()
        await self.release_in_project(project)
        return Approved(grant=done.state.grants[command.grant_id], session=None, project=project)

    async def revoke(self, grant_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> StreamKey:
        """Revoke a grant in any stream; return the stream. Raises UnknownGrantError."""
        key = await self.stream_of_grant(check_id(grant_id, "grant id"))
        if key.kind == "session":
            await Session(self, key.id).revoke(grant_id, reason=reason, actor=actor)
        else:
            command = RevokeInProject(
                actor=self.actor(actor, "person"), grant_id=grant_id, reason=check_message(reason, "reason")
            )
            stream = self.streams.project(key.id)
            await stream.submit(command)
            await stream.make_safe()
        return key

    async def stream_of_grant(self, grant_id: str) -> StreamKey:
        """Return the stream of a grant, revoked ones included. Raises UnknownGrantError."""
        keys = [key async for key in self.store.streams() if key.kind in ("session", "project")]
        problems: list[StreamProblem] = []
        # Projects first: there are few of them, and they have most grants.
        for key in sorted(keys, key=lambda key: key.kind != "project"):
            stream: Stream[Any] = (
                self.streams.project(key.id) if key.kind == "project" else self.streams.session(key.id)
            )
            try:
                if grant_id in (await stream.refresh()).grants:
                    return key
            except DamageError as error:
                problems.append(problem_of(key, error))
        unread = Survey([], problems).unread
        raise UnknownGrantError(f"there is no grant `{grant_id}`{unread}", grant_id=grant_id)

    # --- the inbox --------------------------------------------------------------------------------------------------

    async def connect_inbox(
        self, client_id: str, *, actor: Actor | str, reach: InboxReach = EVERYWHERE
    ) -> list[Pending]:
        """Connect a person's inbox to all sessions within its reach; return their pending requests for replay."""
        who = self.actor(actor, "person")
        presence = Presence(check_id(client_id, "client id"), check_name(who.name, "client name"))
        await renew_inbox(self.store, Inbox(presence, reach))
        self._forget_inboxes()
        replayed: list[Pending] = []
        for state in await self.pending_states():
            if state.closed_ms is None and reach.covers(state.session_id, state.project):
                replayed += (
                    await Session(self, state.session_id).connect(client_id, actor=who, name=who.name)
                ).replayed
        return sorted(replayed, key=lambda one: (one.request.asked_ms, one.session, one.request.version))

    async def renew_inbox(self, client_id: str, *, actor: str, reach: InboxReach = EVERYWHERE) -> None:
        """Renew the lease of a client's inbox."""
        await renew_inbox(self.store, Inbox(Presence(client_id, actor), reach))

    async def disconnect_inbox(self, client_id: str, *, actor: Actor | str) -> None:
        who = self.actor(actor, "person")
        await close_inbox(self.store, client_id)
        self._forget_inboxes()
        for state in await self.pending_states():
            known = state.clients.get(client_id)
            if known is not None and known.name == who.name:
                await Session(self, state.session_id).disconnect(client_id, actor=who)

    def known_inbox_presence(self, session: str, project: str | None) -> tuple[Presence, ...] | None:
        """Return the cached `inbox_presence` of the last second; else None."""
        looked_at, inboxes = self._inboxes
        if self._clock is not None or asyncio.get_running_loop().time() - looked_at > INBOX_FRESH_SECONDS:
            return None
        return present_in(inboxes, session, project) if inboxes else ()

    async def inbox_presence(self, session: str, project: str | None) -> tuple[Presence, ...]:
        """Return the clients with an open inbox that reaches this session, at most a second old."""
        known = self.known_inbox_presence(session, project)
        if known is not None:
            return known
        if self._clock is not None:
            return present_in(await open_inboxes(self.store), session, project)
        if self._looking is None:
            # Concurrent callers share one read.
            self._looking = asyncio.create_task(self._look_into_inboxes(), name="ledger inboxes")
            # All callers may have gone by the time it fails.
            self._looking.add_done_callback(lambda done: done.cancelled() or done.exception())
        return present_in(await asyncio.shield(self._looking), session, project)

    async def _look_into_inboxes(self) -> tuple[Inbox, ...]:
        try:
            inboxes = await open_inboxes(self.store)
            if self._looking is asyncio.current_task():
                self._inboxes = (asyncio.get_running_loop().time(), inboxes)
        finally:
            if self._looking is asyncio.current_task():
                self._looking = None
        return inboxes

    def _forget_inboxes(self) -> None:
        self._inboxes = (float("-inf"), ())
        self._looking = None

    # --- inside -----------------------------------------------------------------------------------------------------

    def actor(self, actor: Actor | str | None, kind: str) -> Actor:
        """Return the author of an event: as given, else this process's own name."""
        if isinstance(actor, Actor):
            return actor
        return Actor(kind, self.actor_name if actor is None else check_name(actor, "actor"))


def named_url(url: str | None) -> str:
    """Return the URL of the ledger: as given, else of the environment, else the embedded server of the data folder.

    Raises InputError for a PERMISSION_LEDGER_URL_FILE that cannot be read.
    """
    return url or url_of_environment() or "embedded://"

"""The life of a call in one session: submit, wait, return the result.

The only path by which an allow is returned: to `Session` in process, the gateway, the command line and the bridges
behind it. An allow is returned only after its grounds were read again (`docs/contributing/decisions/calls.md`):
the project's grants where one of them allowed it, and the confirmed replication that the settings demand.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from ledger.client.grounds import TRIES_MAX, Grounds
from ledger.client.plugins import opinions_of
from ledger.client.results import Result, is_held_by, result_of
from ledger.client.spans import recorded_trace, spanned
from ledger.core import codec
from ledger.core.errors import (
    AlreadyAnsweredError,
    InDoubtError,
    LedgerError,
    RulesUnreadableError,
    StoreError,
    UnauthorizedError,
)
from ledger.core.events import Actor, Asked, AskedDetail
from ledger.core.grants import Grants, Recorded
from ledger.core.ids import new_salt
from ledger.core.limits import GIVE_UP_SECONDS
from ledger.core.policy import Call, Policy, PolicySource
from ledger.core.questions import Question, Runner
from ledger.core.requests import by_agent, in_folder
from ledger.core.standing import as_policy_grants
from ledger.log.plans import SYSTEM
from ledger.log.stream import Stream
from ledger.log.streams import Streams
from ledger.log.tail import entry_at
from ledger.policy.dialect import MemoryFile
from ledger.policy.dialects import dialect_of
from ledger.policy.errors import PolicyError
from ledger.project import ProjectState
from ledger.session.claims import has_changed, may_change
from ledger.session.commands import Ask, Cancel, Recheck, Release, Resume
from ledger.session.decision import require_content, require_readable, require_unclaimed, standing_grants
from ledger.session.judging import lifts_denies
from ledger.session.state import Request, SessionState, is_held
from ledger.stores.port import Position

if TYPE_CHECKING:
    from ledger.client.parts import Parts


log = logging.getLogger(__name__)


class RuleMemory:
    """The writer of the rules of an `always` to the configuration of a session's project."""

    def __init__(self, stream: Stream[SessionState], grounds: Grounds) -> None:
        self._stream = stream
        self._grounds = grounds

    async def remember(self, result: Result, folder: str | Path | None = None) -> Result:
        """Write the rules of an answer; see `Session.remember`."""
        settled = result.settled
        if settled is None or result.outcome != "allowed" or settled.reply != "always" or not settled.grants:
            return result
        try:
            state = await self._stream.refresh()
            memory = dialect_of(state.language).memory
            if state.rules_redacted or memory is None:
                return result
            rules = await self._grounds.rules(state)
            if settled.bounds is not None:
                return _with_message(
                    result, "the grant has bounds, which a file cannot hold, so no rule was written to a file"
                )
            # Not "those in force": the approver may be about to write the project's grant.
            revoked = _revoked(state.grants)
            if (project := await self._grounds.project(state)) is not None:
                revoked |= _revoked((await project.refresh()).grants)
        except (StoreError, RulesUnreadableError) as error:
            return _with_message(result, _failed(error))
        file = memory.file(rules, state.cwd or folder)
        if file is None:
            log.info("session %s has no folder, so no rule was written to a file", result.session)
            return result
        granted = zip(settled.grants, settled.granted_patterns, strict=False)
        entries = [pattern for grant_id, pattern in granted if grant_id not in revoked]
        return _with_message(result, await _written(memory, file, rules, result.request.permission, entries))


def _revoked(grants: Grants) -> frozenset[str]:
    return frozenset(grant.grant_id for grant in grants.values() if grant.revoked_ms is not None)


def _with_message(result: Result, message: str | None) -> Result:
    return result if message is None else msgspec.structs.replace(result, message=message)


def _failed(error: LedgerError) -> str:
    log.warning("no rule was added to a configuration file: %s", error)
    return f"the answer and its grant were recorded, but not written to a file: {error}"


async def _written(
    memory: MemoryFile, file: Path, source: PolicySource, permission: str, entries: list[str]
) -> str | None:
    try:
        return await asyncio.to_thread(memory.remember, file, source, permission, entries)
    except PolicyError as error:
        return _failed(error)


class Waiters:
    """The tasks that wait for requests of a stream, which is observed while there are any."""

    def __init__(self, streams: Streams, stream: Stream[Any]) -> None:
        self._streams = streams
        self._stream = stream
        self._waiting: dict[str, list[asyncio.Future[None]]] = {}
        self._stop_observing: Callable[[], None] | None = None

    async def until_changed(self, request_id: str, deadline_ms: int | None) -> None:
        """Return after the next event that may concern the request, at the latest at its deadline."""
        if self._stop_observing is None:
            self._stop_observing = self._stream.observe(self._changed)
        future: asyncio.Future[None] = asyncio.Future()
        self._waiting.setdefault(request_id, []).append(future)
        alarm = None if deadline_ms is None else self._streams.set_alarm(deadline_ms, self._stream)
        try:
            await future
        finally:
            if alarm is not None:
                self._streams.alarms.drop(alarm)  # a deadline may be a week away
            waiting = self._waiting.get(request_id)
            if waiting is not None:
                # Not woken but cancelled; others may wait for the same request.
                waiting[:] = [one for one in waiting if one is not future]
                if not waiting:
                    del self._waiting[request_id]
            if not self._waiting and self._stop_observing is not None:
                self._stop_observing()
                self._stop_observing = None

    def wake_all(self) -> None:
        """Wake all waiters: something outside the stream changed that may concern them."""
        self._changed(None)

    def _changed(self, recorded: Recorded | None) -> None:
        """Wake the waiters for the request of an event; all of them when it may concern any."""
        request_id = None if recorded is None else getattr(recorded.event, "request_id", None)
        for waited in [request_id] if request_id else list(self._waiting):
            for future in self._waiting.pop(waited, ()):
                if not future.done():
                    future.set_result(None)


T = TypeVar("T")

AWAY_SECONDS = 0.5
"""The interval of retries while the server, or a replica, is unreachable."""


async def safe_result(result: Result, stream: Stream[SessionState], project: Stream[ProjectState] | None) -> Result:
    """Return a result on which to act: an allow once it, and a project's grant behind it, has confirmed replication.

    If the server lost the allow, return the present status, most likely pending. Raises InDoubtError without
    confirmation after GIVE_UP_SECONDS.
    """
    loop = asyncio.get_running_loop()
    give_up = loop.time() + GIVE_UP_SECONDS
    while result.outcome == "allowed":
        try:
            if project is not None:
                await project.make_safe()
            if await stream.confirm():
                return result
        except InDoubtError as error:
            if loop.time() + AWAY_SECONDS > give_up:
                error.data.update(request_id=result.request_id, session=stream.state.session_id)
                raise
            await asyncio.sleep(AWAY_SECONDS)
        result = result_of(stream.state, result.request_id)
    return result


async def patiently(attempt: Callable[[], Awaitable[T]]) -> T:
    """Retry while the server is unreachable: a restart must not fail a waiting agent. InDoubtError is raised."""
    while True:
        try:
            return await attempt()
        except InDoubtError:
            raise
        except StoreError:
            await asyncio.sleep(AWAY_SECONDS)


JUST_NOW_MS = 1000
"""The age up to which an allow was told of without delay: no freeze that came since can have been acknowledged long."""


class Submission(msgspec.Struct, frozen=True, gc=False):
    """One ask: the id of its request, its question and its asker, and the runner that claims the call if it does."""

    request_id: str
    question: Question
    actor: Actor
    runner: Runner | None = None


class Calls:
    """The requests of one session, from the ask to the result on which the asker acts."""

    def __init__(self, ledger: Parts, stream: Stream[SessionState], grounds: Grounds) -> None:
        self._ledger = ledger
        self._stream = stream
        self._grounds = grounds
        self._streams = ledger.streams
        self._waiters = Waiters(ledger.streams, stream)
        self._freezes = ledger.streams.freezes
        self.token_id: str | None = None
        """The access token of the asker that waits here; None in a process that needs none."""
        self.owner: str = ledger.actor_name
        """The person for whom the asker works: its token's owner, else the user of this process."""

    # --- submit -----------------------------------------------------------------------------------------------------

    @spanned("ask")
    async def submit(self, asked: Submission) -> Result:
        """Ask, or attach to the request with this id; the result may be pending.

        Raises SessionClosedError, DifferentRequestError, StoreError; InDoubtError where a reply is missing or the allow
        is not confirmed.
        """
        result = await self._grounds.by_current_rules(self._ask, asked)
        if result.outcome is None:
            return result
        result = await self.safe(result)
        if asked.runner is None:
            require_unclaimed(self._stream.state, asked.request_id)
        return result

    async def _ask(self, asked: Submission) -> Result:
        state = await self._grounds.folded()
        request_id, question, runner = asked.request_id, asked.question, asked.runner
        if state.cwd is not None or state.agent is not None:
            question = by_agent(in_folder(question, state.cwd), state.agent)
            asked = replace(asked, question=question)
        await self._grounds.know_freezes(state.project)
        policy = await self._grounds.policy(state)
        project = await self._grounds.project(state)
        if project is not None and lifts_denies(policy):
            # In this mode a grant may lift a deny, so even a denial must rest on the newest grants.
            await project.refresh()
        # Deciders are asked once: with them, the leases are read ahead.
        live = await (self._grounds.read_live(state) if self._ledger.deciders else self._grounds.live(state))
        command = Ask(
            actor=asked.actor,
            request_id=request_id,
            salt=new_salt(),
            question=question,
            trace=recorded_trace.get(),
            claim=runner,
            policy=policy,
            policy_digest=state.policy_digest,
            token_id=self.token_id,
            owner=self.owner,
            opinions=await self._opinions(policy, replace(question, request_id=request_id))
            if self._ledger.deciders
            else (),
            live=live,
            project=project.state if project else None,
        )
        done = await self._stream.submit(command, project)
        state = done.state
        if project is not None:
            # An append has read the project's stream in the same flush.
            state = await self._by_grants_of_now(request_id, project, project.state if done.events else None, asked)
        result = result_of(state, request_id)
        if result.outcome is None and is_held(result.request) and await self._let_go(request_id):
            state = self._stream.state
            if project is not None:
                state = await self._by_grants_of_now(request_id, project, None, asked)
            result = result_of(state, request_id)
        if not (done.events or (runner is not None and is_held_by(result, runner))):
            await self.require_unfrozen(result)  # nothing was appended, so no script has looked
        return result

    async def _let_go(self, request_id: str) -> bool:
        """Judge the requests that a freeze held back if it has ended; return whether this one is settled now."""
        state = await self._freezes.follow()
        if state.over(self._stream.state.project) is None:
            await self.resume()
        return request_id not in self._stream.state.pending

    async def resume(self) -> None:
        """Judge the requests again that rules and grants allow and only a freeze kept pending, by those of now."""
        while await self._grounds.by_current_rules(self._resume):
            pass  # the next one may have to take uses of grants first

    async def _resume(self) -> bool:
        """Judge once; return whether something was settled."""
        state = await self._grounds.folded()
        project = await self._grounds.project(state)
        command = Resume(
            actor=SYSTEM,
            policy=await self._grounds.policy(state),
            policy_digest=state.policy_digest,
            project=await project.refresh() if project else None,
        )
        return bool((await self._stream.submit(command, project)).events)

    async def _opinions(self, policy: Policy, question: Question) -> Any:
        state = await self._stream.refresh()
        project = await self._grounds.project(state)
        grants = standing_grants(state, await project.refresh() if project else None, self._now_ms())
        evaluation = policy.evaluate(question.call, as_policy_grants(grants))
        return await opinions_of(self._ledger.deciders, state.session_id, question, evaluation)

    # --- wait -------------------------------------------------------------------------------------------------------

    @spanned("wait")
    async def wait(self, request_id: str, timeout: float | None = None) -> Result:
        """Return when the request is settled, or after `timeout` seconds with its status then.

        Raises UnknownRequestError, NewerSchemaError; InDoubtError where an allow is not confirmed in time;
        UnauthorizedError where the asker's token has ended meanwhile.
        """
        waits = self._settled(request_id) if timeout is None else self._settled_within(request_id, timeout)
        if self.token_id is None:
            return await waits
        waiting = asyncio.ensure_future(waits)
        over = asyncio.ensure_future(self._ledger.tokens.until_over(self.token_id))
        try:
            await asyncio.wait((waiting, over), return_when=asyncio.FIRST_COMPLETED)
            await self._require_token(request_id, self.token_id)
            return await waiting
        finally:
            for task in (waiting, over):
                task.cancel()
            await asyncio.gather(waiting, over, return_exceptions=True)

    async def _require_token(self, request_id: str, token_id: str) -> None:
        """Raise UnauthorizedError for a token that is not in force any more, and cancel its requests."""
        if await patiently(partial(self._ledger.tokens.confirm, token_id)):
            return
        request = self._stream.state.pending.get(request_id)
        if request is not None and request.token_id == token_id:
            with suppress(AlreadyAnsweredError):
                await self._stream.submit(Cancel(actor=SYSTEM, request_id=request_id, cause="token_revoked"))
        raise UnauthorizedError(
            f"the token was revoked or has expired while request `{request_id}` was pending; "
            "its outcome is not shown to this token",
            request_id=request_id,
        )

    async def _settled_within(self, request_id: str, timeout: float) -> Result:
        try:
            async with asyncio.timeout(timeout):
                return await self._settled(request_id)
        except TimeoutError:
            state = await self._grounds.folded()
            require_readable(state)
        # Timed out, perhaps while an allow was being confirmed: it does not count before that.
        return await self._deliverable(result_of(state, request_id), reads=False)

    async def _settled(self, request_id: str) -> Result:
        await self._streams.watch(self._stream)
        has_waited = False
        stop_observing: Callable[[], None] | None = None
        try:
            while True:
                state = self._stream.state if self._stream.folded else await self._patient_state()
                if state.newer:
                    require_readable(state)
                result = result_of(state, request_id)
                if result.outcome is not None:
                    result = await patiently(partial(self._deliverable, result, reads=not has_waited))
                    if result.outcome is not None:
                        return result
                    continue
                if is_held(result.request):
                    stop_observing = stop_observing or self._freezes.observe(self._waiters.wake_all)
                    if await patiently(partial(self._let_go, request_id)):
                        continue
                await self._waiters.until_changed(request_id, result.request.deadline_ms)
                has_waited = True
        finally:
            if stop_observing is not None:
                stop_observing()

    async def _patient_state(self) -> SessionState:
        """Return the state, retrying while the server is unreachable: a restart must not fail a waiting agent."""
        while not self._stream.folded:
            try:
                await self._stream.refresh()
            except StoreError:
                await asyncio.sleep(AWAY_SECONDS)
        return self._stream.state

    # --- results ----------------------------------------------------------------------------------------------------

    async def wait_to_run(self, request_id: str) -> Result:
        """As `wait`, for an asker that runs the call without a claim. Raises AlreadyClaimedError where another has it."""
        result = await self.wait(request_id)
        require_unclaimed(self._stream.state, request_id)
        return result

    async def result(self, request_id: str) -> Result:
        """Return the current result of a request. Raises UnknownRequestError, FrozenError, StoreError."""
        return await self._deliverable(result_of(await self._stream.refresh(), request_id))

    async def recheck(self, request_id: str) -> None:
        """Judge a request again if a project's grant allowed it and the project's grants have changed since."""
        await self._grounds.by_current_rules(self._looked_at, request_id)

    async def require_unfrozen(self, result: Result, *, reads: bool = True) -> None:
        """Raise FrozenError for an allow of earlier within the reach of a freeze.

        Freezes are read from the server; with `reads` False not for an allow of just now, unless one is known here.
        """
        project = self._stream.state.project
        is_new = not reads and self._now_ms() - result.at_ms < JUST_NOW_MS
        if result.outcome != "allowed" or (is_new and self._freezes.over(project) is None):
            return
        freeze = (await self._freezes.refresh()).over(project)
        if freeze is not None:
            raise freeze.error(request_id=result.request_id, session=result.session)

    async def _deliverable(self, result: Result, *, reads: bool = True) -> Result:
        """Return a result on which the asker may act. Without `reads` it was allowed while the asker waited."""
        await self.require_unfrozen(result, reads=reads)
        rests_on_project = result.outcome == "allowed" and result.request.rests_on_project
        if rests_on_project and may_change(self._stream.state, result.request_id, is_asked=False):
            await self.recheck(result.request_id)
            result = result_of(self._stream.state, result.request_id)
        return await self.safe(result)

    async def _looked_at(self, request_id: str) -> None:
        project = await self._grounds.project(self._stream.state)
        if project is not None:
            await self._by_grants_of_now(request_id, project, None, None)

    async def safe(self, result: Result) -> Result:
        """Return an allow only with the demanded signature and confirmed replication (`Durability`)."""
        if result.outcome == "allowed":
            require_content(self._stream.key.id, result.request)
            if result.request.demands or (result.settled is not None and result.settled.proof):
                await self._ledger.passkeys.require_proven(self._stream.state, result)
        if not self._stream.confirms:
            return result
        project = await self._grounds.project(self._stream.state) if result.request.rests_on_project else None
        return await safe_result(result, self._stream, project)

    # --- recheck ----------------------------------------------------------------------------------------------------

    async def _by_grants_of_now(
        self, request_id: str, project: Stream[ProjectState], shared: ProjectState | None, asked: Submission | None
    ) -> SessionState:
        """Return the state once it agrees with the project's current grants.

        `shared` is the project if it was read with or after the request; otherwise it is read, from its primary.
        `asked` is None for a caller that only reads. Raises StoreError where the project cannot be read.
        """
        for _ in range(TRIES_MAX):
            state = self._stream.state
            if not may_change(state, request_id, is_asked=asked is not None):
                return state
            shared = await project.refresh() if shared is None else shared
            command = await self._again(request_id, shared, asked)
            if command is None:
                return self._stream.state
            done = await self._stream.submit(command, project)
            if project.state.judged_version == shared.judged_version:
                return done.state
            shared = project.state
        raise InDoubtError(
            f"the grants of project `{project.key.id}` changed {TRIES_MAX} times while request "
            f"`{request_id}` was evaluated; ask again with the same request id",
            request_id=request_id,
            session=self._stream.key.id,
        )

    async def _again(self, request_id: str, shared: ProjectState, asked: Submission | None) -> Release | Recheck | None:
        """Return the command that decides again by the project's current grants; None if those have not changed."""
        state = self._stream.state
        if not has_changed(state, request_id, shared, self._now_ms()):
            return None
        actor = SYSTEM if asked is None else asked.actor
        policy, policy_digest = await self._grounds.policy(state), state.policy_digest
        if request_id in state.pending:
            return Release(
                actor=actor, policy=policy, policy_digest=policy_digest, project=shared, request_id=request_id
            )
        request = state.settled[request_id].request
        question = await self.as_asked(request) if asked is None else asked.question
        live = await self._grounds.live(state)
        return Recheck(
            actor=actor,
            policy=policy,
            policy_digest=policy_digest,
            request_id=request_id,
            question=question,
            project=shared,
            live=live,
        )

    async def as_asked(self, request: Request) -> Question:
        """Return the question of a settled request, whose input and metadata are only in the log.

        Raises InDoubtError where the server has lost it.
        """
        key = self._stream.key
        entry = await entry_at(self._ledger.store, key, Position(request.asked_ms, request.version))
        event = None if entry is None else codec.decode(entry.payload, entry.content).event
        if not isinstance(event, Asked) or event.request_id != request.request_id:
            await self._stream.refresh()
            raise InDoubtError(
                f"the server lost request `{request.request_id}`; ask again with the same request id",
                request_id=request.request_id,
                session=key.id,
            )
        require_content(key.id, request)
        detail = event.detail or AskedDetail()
        call = Call(event.permission, detail.patterns, event.tool_name, detail.input, request.cwd, request.agent)
        return Question(call=call, always=detail.always, metadata=detail.metadata)

    def _now_ms(self) -> int:
        return self._streams.clock.now_ms()


async def carry_through(
    submit: Callable[[], Awaitable[Result]], wait: Callable[[Result], Awaitable[Result]], request_id: str
) -> Result:
    """Submit a call and wait for each of its requests in turn; return the first result that is no allow, or the last.

    Each prerequisite is a separate request, after which `submit` continues with the next. `wait` may give up and return
    a request that is still pending, which also ends the loop.
    """
    while True:
        result = await submit()
        if result.outcome is None:
            result = await wait(result)
        if not result.allowed or result.request_id == request_id:
            return result

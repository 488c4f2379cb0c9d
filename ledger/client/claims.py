"""The claims of one session's calls: take one, record its end, give it back; and blocks that do it all.

A runner is told that a call may run only while it holds the claim. The claim is taken right before that, after
everything was judged again (`ledger.session.claims`).

async with session.permit("bash", ["make release"]) as permit:
    run(permit)
"""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import msgspec

from ledger.client.calls import Calls
from ledger.client.grounds import TRIES_MAX, Grounds
from ledger.client.results import Result, held_in, is_held_by, result_of
from ledger.client.spans import begun_run, reported_run, spanned
from ledger.core.errors import InDoubtError, InputError, LedgerError, ReopenedError, StillPendingError
from ledger.core.events import Actor
from ledger.core.ids import check_id, new_salt
from ledger.core.limits import MESSAGE_BYTES
from ledger.core.operand_files import operand_rows
from ledger.core.operands import Operand, WantedOperand, check_operands
from ledger.core.policy import Call
from ledger.core.questions import GivenRunner, Question, Runner
from ledger.core.requests import AskOptions, ToolAskOptions, check_message, check_name, check_tool_input
from ledger.log.plans import SETTLE
from ledger.log.stream import Stream
from ledger.policy.operands import operands_wanted
from ledger.project import ProjectState
from ledger.session.claims import is_repeated, wanted_at_claim
from ledger.session.commands import ClaimCall, EndClaims, NoteToolFinished, ReleaseClaim
from ledger.session.state import SessionState

if TYPE_CHECKING:
    from ledger.client.parts import Parts


async def operands_here(call: Call, home: str | None) -> tuple[Operand, ...] | None:
    """Return the operands of a call that runs on this machine; None for a call that can have none.

    The loop is not blocked while files are read.
    """
    return await look_here(operands_wanted(call, home))


async def look_here(wanted: tuple[WantedOperand, ...]) -> tuple[Operand, ...] | None:
    """Return wanted files as they are now on this machine; None if nothing is wanted."""
    return await asyncio.to_thread(found_operands, wanted) if wanted else None


def found_operands(wanted: Iterable[WantedOperand]) -> tuple[Operand, ...]:
    """Return the wanted files as they are now, without repeats and in order. Never raises."""
    rows = operand_rows((one.paths, one.is_optional, one.is_glob) for one in wanted)
    return tuple(Operand(**row) for row in rows)


class Claim(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The right to run a call, once, as `input` (None for a call without a tool's input); `at_ms` is a server time.

    An `input` that was read from the log may have masks; the asker runs its own instead.
    """

    session: str
    request_id: str
    claim_id: str
    runner: str
    round: int
    at_ms: int
    input: Any = None


class RunEnd(TypedDict, total=False):
    """The optional arguments of `Session.finish`, besides ok and output. `tool_input` is the input that ran."""

    title: str | None
    tool_input: Mapping[str, Any] | None
    actor: Actor | str | None


class SessionClaims:
    """The claims of one session."""

    def __init__(self, ledger: Parts, stream: Stream[SessionState], grounds: Grounds, calls: Calls) -> None:
        self._ledger = ledger
        self._stream = stream
        self._grounds = grounds
        self._calls = calls
        self.calls_run_here = True
        """True for calls that run on this machine: the files that they execute are hashed here."""

    def runner_of(self, given: GivenRunner, request_id: str) -> Runner:
        """Return a runner from its accepted forms. Raises InputError."""
        if isinstance(given, Runner):
            return Runner(check_name(given.name, "runner"), check_name(given.call, "call of the runner"))
        if given is False:
            raise InputError("a claim needs a runner: its name, or True for this process")
        return Runner(self._ledger.runner_name if given is True else check_name(given, "runner"), request_id)

    async def question_of(self, request_id: str) -> Question | None:
        """Return the request as asked, from the log; None where it is not allowed."""
        settled = self._stream.state.settled.get(request_id)
        if settled is None or settled.outcome != "allowed":
            return None
        return await self._calls.as_asked(settled.request)

    def held_by(self, result: Result, asked: Any) -> Claim:
        """Return the claim of a result whose runner holds it; `asked` is the input as asked."""
        settled, held = result.settled, held_in(result)
        assert settled is not None, "a claim is that of an allowed request"
        assert held is not None, "claimed, or refused"
        return Claim(
            session=result.session,
            request_id=result.request_id,
            claim_id=held.claim_id,
            runner=held.runner,
            round=held.round,
            at_ms=held.at_ms,
            input=asked if settled.updated_input is None else settled.updated_input,
        )

    def of(self, result: Result, own: Any) -> Claim:
        """Return the claim of a result that `Session.ask` returned for a runner; `own` is the input that it asked."""
        return self.held_by(result, None if own is None else msgspec.json.decode(msgspec.json.encode(own)))

    @spanned("claim", is_linked=True)
    async def attempt(
        self,
        request_id: str,
        runner: Runner,
        actor: Actor,
        question: Question | None = None,
        operands: tuple[Operand, ...] | None = None,
    ) -> Result:
        """Claim a request if it is allowed, and return its status: claimed, reopened, or what it was otherwise.

        `operands` are the files that the call executes, hashed just now; without them they are hashed here. Raises
        OperandsWantedError where the call runs on another machine, AlreadyClaimedError, SessionClosedError,
        UnknownRequestError, StoreError; InDoubtError where the claim is not confirmed.
        """
        return await self._grounds.by_current_rules(self._attempt, request_id, runner, actor, question, operands)

    async def _attempt(
        self,
        request_id: str,
        runner: Runner,
        actor: Actor,
        question: Question | None,
        given: tuple[Operand, ...] | None,
    ) -> Result:
        state = await self._grounds.folded()
        result = result_of(state, request_id)
        if result.outcome is None:
            # Past its deadline it has expired, also where no worker has written that yet.
            state = (await self._stream.submit(SETTLE)).state
            result = result_of(state, request_id)
        if not result.allowed:
            return result
        await self._grounds.know_freezes(state.project)
        project = await self._grounds.project(state)
        shared = None if project is None else await project.refresh()
        asked = await self._calls.as_asked(result.request) if question is None else question
        operands = await self._operands(state, result, asked) if given is None else given
        for _ in range(TRIES_MAX):
            command = ClaimCall(
                actor=actor,
                request_id=request_id,
                runner=runner,
                question=asked,
                operands=operands,
                policy=await self._grounds.policy(state),
                policy_digest=state.policy_digest,
                project=shared,
                live=await self._grounds.live(state),
            )
            state = (await self._stream.submit(command, project)).state
            result = result_of(state, request_id)
            # An append has read the project in the same flush: its grants are judged once more where they changed.
            if project is None or shared is None or not _rests_on_changes(result, project.state, shared):
                result = await self._calls.safe(result)
                if not result.allowed or is_held_by(result, runner):
                    return result
                # The server lost the claim before it was confirmed: it is free again, or another runner has it.
                state = self._stream.state
            shared = None if project is None else project.state
        raise InDoubtError(
            f"request `{request_id}` could not be claimed in {TRIES_MAX} tries: the grants of its project changed each "
            "time, or the server lost the claim; claim it again",
            request_id=request_id,
            session=self._stream.key.id,
        )

    async def _operands(self, state: SessionState, result: Result, asked: Question) -> tuple[Operand, ...] | None:
        """Return the files that a call executes as they are now; None where it has none, or runs on another machine."""
        if not self.calls_run_here or result.settled is None:
            return None
        return await look_here(wanted_at_claim(state, result.settled, asked))

    async def until_held(self, result: Result, runner: Runner, actor: Actor, question: Question | None) -> Result:
        """Return a result once its runner holds the claim, or the call may not run; wait where it is reopened."""
        while result.outcome is None or (result.allowed and not is_held_by(result, runner)):
            if result.outcome is None:
                result = await self._calls.wait(result.request_id)
            else:
                result = await self.attempt(result.request_id, runner, actor, question)
        return result

    async def finish(
        self, request_id: str, claim_id: str, *, ok: bool, output: str | None = None, **more: Unpack[RunEnd]
    ) -> bool:
        """Record the end of a run; see `Session.finish`. Return whether it was not recorded before."""
        tool_input = more.get("tool_input")
        command = NoteToolFinished(
            actor=self._ledger.actor(more.get("actor"), "agent"),
            request_id=check_id(request_id, "request id"),
            claim_id=check_id(claim_id, "claim id"),
            ok=ok,
            salt=new_salt(),
            input=None if tool_input is None else check_tool_input(tool_input),
            title=check_message(more.get("title"), "title"),
            output=check_message(output, "output"),
        )
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return bool(done.events)


def own_unless_named(given: GivenRunner | None) -> GivenRunner:
    """Return the runner as given, or this opened ledger where none is given."""
    return True if given is None or given is False else given


def _rests_on_changes(result: Result, project: ProjectState, judged: ProjectState) -> bool:
    """Return whether the claim of a result rests on grants of a project that have changed since they were judged."""
    held = held_in(result)
    is_by_project = held is not None and held.project_version is not None
    return is_by_project and project.judged_version != judged.judged_version


log = logging.getLogger(__name__)


class Permit:
    """The right to run one call, inside the block: its claim, and the input that may run.

    Set `output` to the text to record with the end of the run.
    """

    def __init__(self, result: Result, claim: Claim) -> None:
        self.result = result
        self.claim = claim
        self.output: str | None = None

    @property
    def input(self) -> Any:
        """Return the input that may run: as asked, or as a person changed it; None for a call without one."""
        return self.claim.input


class PermitBlock:
    """The block of one call: entering it asks, waits and claims; leaving it records the end, with ok or the error.

    Entering raises what `Session.ask` raises, and AlreadyClaimedError. A run whose end cannot be recorded stays claimed
    and is logged; it is never run again.
    """

    def __init__(self, claims: SessionClaims, ask: Callable[[], Awaitable[Result]], actor: Actor, own: Any) -> None:
        self._claims = claims
        self._ask = ask
        self._actor = actor
        self._own = own
        """The input as asked: the log may have masks in it."""
        self._permit: Permit | None = None
        self._end_span: Callable[..., None] | None = None

    async def __aenter__(self) -> Permit:
        result = await self._ask()
        self._permit = Permit(result, self._claims.of(result, self._own))
        self._end_span = await begun_run(self._claims, result)
        return self._permit

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        permit, self._permit = self._permit, None
        assert permit is not None, "the block was entered"
        if self._end_span is not None:
            self._end_span(ok=error is None)
        output = permit.output if error is None else f"{type(error).__name__}: {error}"
        # The end is recorded although the task is being cancelled.
        await asyncio.shield(asyncio.ensure_future(self._finish(permit, ok=error is None, output=output)))

    async def _finish(self, permit: Permit, *, ok: bool, output: str | None) -> None:
        claim = permit.claim
        try:
            await self._claims.finish(
                claim.request_id,
                claim.claim_id,
                ok=ok,
                output=None
                if output is None
                else output.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore"),
                actor=self._actor,
            )
        except LedgerError as failure:
            log.warning(
                "the end of request %s of session %s could not be recorded, so that it says `may have run`: %s",
                claim.request_id,
                claim.session,
                failure,
            )


class SessionRuns(ABC):
    """The calls of `Session` about running what was allowed."""

    _ledger: Parts
    _claims: SessionClaims
    _stream: Stream[SessionState]

    @abstractmethod
    async def ask(self, permission: str, patterns: Iterable[str], **options: Unpack[AskOptions]) -> Result:
        """Ask, and wait; see `Session.ask`."""

    @abstractmethod
    async def ask_tool(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        request_id: str | None = None,
        **options: Unpack[ToolAskOptions],
    ) -> Result:
        """Ask about a tool call, and wait; see `Session.ask_tool`."""

    def _asker(self, agent: str | None, actor: Actor | str | None) -> Actor:
        return self._ledger.actor(agent if actor is None else actor, "agent")

    async def claim(
        self,
        request_id: str,
        *,
        runner: GivenRunner = True,
        actor: Actor | str | None = None,
        operands: Iterable[Operand | Mapping[str, Any]] | None = None,
    ) -> Claim:
        """Take the right to run an allowed call, once, right before it runs; return it with the input that may run.

        `operands` are the files that the call executes, hashed just now; without them they are hashed here.
        The first claim wins; the same runner's again succeeds and writes nothing. Everything is judged again first.
        Raises ReopenedError (something changed; the request is pending again), StillPendingError, AlreadyClaimedError
        (who, when), the refusals of `ask`, UnknownRequestError, SessionClosedError. See `docs/guides/run-once.md`.
        """
        found, claims = None if operands is None else check_operands(operands), self._claims
        own = claims.runner_of(runner, check_id(request_id, "request id"))
        state = await self._stream.refresh()
        settled = state.settled.get(request_id)
        if settled is not None and settled.outcome == "allowed":
            # A refusal needs no read of the request.
            is_repeated(state, settled, own)
        question = await claims.question_of(request_id)
        result = await claims.attempt(request_id, own, self._ledger.actor(actor, "agent"), question, found)
        request = result.request
        if result.outcome is None:
            names = {"request_id": request_id, "session": result.session, "round": request.round}
            if request.round == 1:
                raise StillPendingError(f"request `{request_id}` is still pending; wait for its answer", **names)
            raise ReopenedError(
                f"request `{request_id}` is pending again: {request.reopened_reason or 'it was reopened'}",
                reason=request.reopened_reason,
                cause=request.reopened_for,
                **names,
            )
        error = result.error()
        if error is not None:
            raise error
        return claims.held_by(result, None if question is None else question.call.input)

    async def finish(
        self, request_id: str, claim_id: str, *, ok: bool = True, output: str | None = None, **more: Unpack[RunEnd]
    ) -> None:
        """Record the end of a claimed run, after which nobody may claim the call again. Idempotent.

        `more` are `title`, `tool_input` (the input that ran, compared with the one allowed) and `actor`. Raises
        AlreadyClaimedError where another claim holds the request, UnknownRequestError.
        """
        if await self._claims.finish(request_id, claim_id, ok=ok, output=output, **more):
            await reported_run(self._claims, request_id, ok=ok)

    async def release_claim(
        self, request_id: str, *, reason: str | None = None, actor: Actor | str | None = None
    ) -> None:
        """Give back the claim of a call that has not run, so that it may be claimed again; a person, or its asker.

        Raises AlreadyClaimedError for a call that has run or whose end is unknown, InputError for another agent.
        """
        command = ReleaseClaim(
            actor=self._ledger.actor(actor, "person"),
            request_id=check_id(request_id, "request id"),
            reason=check_message(reason, "reason"),
        )
        await self._stream.submit(command)

    async def end_claims(self, *, runner: str | None = None, actor: Actor | str | None = None) -> list[str]:
        """End the open claims of an agent that has ended (of one runner's name); return their requests.

        The calls may have run, and may not run again.
        """
        name = None if runner is None else check_name(runner, "runner")
        command = EndClaims(actor=self._ledger.actor(actor, "agent"), cause="agent_ended", runner=name)
        done = await self._stream.submit(command)
        return [str(getattr(recorded.event, "request_id", "")) for recorded in done.events]

    def permit(self, permission: str, patterns: Iterable[str], **options: Unpack[AskOptions]) -> PermitBlock:
        """Return a block for one call: `async with session.permit("bash", ["make"]) as permit: …`.

        Entering it asks, waits and claims; leaving it records the end, with ok or the error. `options` and errors are
        those of `ask`; without `claim` the runner is this opened ledger.
        """
        claimed: AskOptions = {**options, "claim": own_unless_named(options.get("claim"))}
        asker = self._asker(options.get("agent"), options.get("actor"))
        asking = partial(self.ask, permission, patterns, **claimed)
        return PermitBlock(self._claims, asking, asker, options.get("tool_input"))

    def permit_tool(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        request_id: str | None = None,
        **options: Unpack[ToolAskOptions],
    ) -> PermitBlock:
        """As `permit`, for a tool call as its dialect asks for it (see `ask_tool`)."""
        claimed: ToolAskOptions = {**options, "claim": own_unless_named(options.get("claim"))}
        asker = self._asker(options.get("agent"), options.get("actor"))
        asking = partial(self.ask_tool, tool_name, tool_input, request_id=request_id, **claimed)
        return PermitBlock(self._claims, asking, asker, tool_input)

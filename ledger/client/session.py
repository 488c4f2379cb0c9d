"""The client of one session, for agents, people and scripts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, Unpack, get_args

from ledger.client.answers import SessionAnswers
from ledger.client.calls import Calls, RuleMemory, Submission, carry_through
from ledger.client.claims import SessionClaims, SessionRuns, operands_here
from ledger.client.connection import RENEW_SECONDS, SessionClients, log
from ledger.client.grounds import Grounds
from ledger.client.results import (
    Approved,
    Pending,
    Result,
    approved_in_project,
    approved_in_session,
    is_held_by,
    pending_of,
    result_of,
    with_own_input,
)
from ledger.client.tool_requests import ToolRequest, as_asked, digest_of_run, tool_requests
from ledger.core.errors import InputError, LedgerError
from ledger.core.event_shapes import Signed
from ledger.core.events import Actor, CancelCause, ExtendReason, Presence
from ledger.core.ids import check_id, check_new_id, new_grant_id, new_request_id, new_salt
from ledger.core.operands import Operand
from ledger.core.policy import Call, PolicySource
from ledger.core.questions import GivenRunner, Question, Runner
from ledger.core.requests import (
    GRANTING_ROLES,
    Answer,
    AskDetails,
    AskOptions,
    QuestionOptions,
    ToolAskOptions,
    check_edited,
    check_folder,
    check_message,
    check_name,
    check_tool_input,
    check_uses,
    grant_bounds,
    make_question,
    parse_answer,
)
from ledger.core.times import check_duration_ms, parse_time
from ledger.log.history import LoggedEvent, follow
from ledger.log.stream import Stream
from ledger.project import RevokeInProject
from ledger.session.commands import (
    Cancel,
    Close,
    Extend,
    GivenReply,
    MakeGrant,
    NoteNotification,
    NoteToolFinished,
    Revoke,
)
from ledger.session.state import SessionState

if TYPE_CHECKING:
    from ledger.client.parts import Parts


class ClientConnection:
    """A client's connection to a session: the requests replayed to it, and its lease."""

    def __init__(self, session: Session, presence: Presence, actor: Actor, replayed: list[Pending]) -> None:
        self.session = session
        self.client_id = presence.client_id
        self.replayed = replayed
        self._presence = presence
        self._actor = actor
        self._renewing: asyncio.Task[None] | None = None

    async def renew(self) -> None:
        """Renew the client's lease, which otherwise ends after 30 s."""
        await self.session.renew_lease(self._presence, is_held=self._renewing is not None)

    async def disconnect(self) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            self._renewing = None
        await self.session.disconnect(self.client_id, actor=self._actor)

    async def reply(self, /, request_id: str, reply: Answer, **more: Any) -> Result:
        """Answer as this client."""
        return await self.session.reply(request_id, reply, actor=self._actor, client_id=self.client_id, **more)

    async def __aenter__(self) -> Self:
        self._renewing = asyncio.create_task(self._keep_renewing(), name=f"lease of {self.client_id}")
        await self.renew()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.disconnect()

    async def _keep_renewing(self) -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            try:
                await self.renew()
            except LedgerError as error:
                log.warning("the lease of client %s could not be renewed: %s", self.client_id, error)


class Session(SessionRuns, SessionClients):
    """One session of a ledger. Created by `Ledger.session`; safe to use from many tasks at once."""

    def __init__(self, ledger: Parts, session_id: str) -> None:
        self.id = session_id
        self._ledger = ledger
        self._streams = ledger.streams
        self._stream: Stream[SessionState] = ledger.streams.session(session_id)
        self._grounds = Grounds(ledger, ledger.inboxes, self._stream)
        self._calls = Calls(ledger, self._stream, self._grounds)
        self._claims = SessionClaims(ledger, self._stream, self._grounds, self._calls)
        self.answers = SessionAnswers(ledger, self._stream, self._grounds, self._calls)
        self._memory = RuleMemory(self._stream, self._grounds)
        self.before_asking: Callable[[], Awaitable[None]] | None = None
        """A callback before each ask; the ask raises its error (see `ledger.client.policy_files`)."""

    def on_behalf_of(self, token_id: str | None, owner: str | None = None) -> None:
        """Bind asks and waits to an access token, whose holder works for `owner`; both end with the token."""
        self._calls.token_id = None if token_id is None else check_id(token_id, "token id")
        self._claims.calls_run_here = False
        self._calls.owner = self._calls.owner if not owner else check_name(owner, "owner")

    # --- asking -----------------------------------------------------------------------------------------------------

    async def ask(self, permission: str, patterns: Iterable[str], **options: Unpack[AskOptions]) -> Result:
        """Ask, and wait without a limit; return when the call may run.

        `options` are `always`, `metadata`, `request_id`, `tool`, `tool_name`, `tool_input`, `agent`, `parent`, `cwd`,
        `operands`, `waits`, `actor` and `claim`. `waits` is the time (seconds) for which the caller will wait: nobody
        extends the request beyond it. `cwd` is the folder that the call would run in, an absolute path (default: the
        session's). `operands` are the files that the call executes (see `ask_tool`).
        `claim` is the runner of the call (see `claim`): the call has its claim when this returns; a request that is
        reopened at the claim is waited for again.
        Raises DeniedError, RejectedError, CorrectedError, ExpiredError or CancelledError when it may not; InputError
        for a malformed request; InDoubtError when no reply came from the server (never an allow: ask again with the
        same `request_id`); AlreadyClaimedError where another runner has the claim, or the call has run. Cancelling the
        task leaves the request pending; `cancel` withdraws it.
        """
        asked = self._submission(permission, patterns, **options)
        result = await self._submit(asked)
        own = asked.question.call.input
        if asked.runner is not None:
            held = await self._claims.until_held(result, asked.runner, asked.actor, asked.question)
            result = with_own_input(held, own)
        elif result.outcome is None:
            result = with_own_input(await self._calls.wait_to_run(asked.request_id), own)
        error = result.error()
        if error is not None:
            raise error
        return await self._memory.remember(result)

    async def submit(self, permission: str, patterns: Iterable[str], **options: Unpack[AskOptions]) -> Result:
        """Ask without waiting for a person: the result may be pending. Raises InputError, StoreError.

        `options` are those of `ask`. With `claim`, an allowed call has its claim; raises AlreadyClaimedError where another
        runner has it.
        """
        return await self._submit(self._submission(permission, patterns, **options))

    def _submission(
        self,
        permission: str,
        patterns: Iterable[str],
        *,
        request_id: str | None = None,
        actor: Actor | str | None = None,
        claim: GivenRunner | None = None,
        **options: Unpack[QuestionOptions],
    ) -> Submission:
        question = make_question(permission, patterns, **options)
        request_id = new_request_id() if request_id is None else check_new_id(request_id, "request id")
        return Submission(
            request_id,
            question,
            self._ledger.actor(question.agent if actor is None else actor, "agent"),
            self._runner(claim, request_id),
        )

    def _runner(self, claim: GivenRunner | None, request_id: str) -> Runner | None:
        return None if claim is None or claim is False else self._claims.runner_of(claim, request_id)

    async def _submit(self, asked: Submission) -> Result:
        if self.before_asking is not None:
            await self.before_asking()
        result = await self._calls.submit(asked)
        if asked.runner is not None and result.allowed and not is_held_by(result, asked.runner):
            question = asked.question
            result = await self._claims.attempt(
                asked.request_id, asked.runner, asked.actor, question, question.operands
            )
        return with_own_input(result, asked.question.call.input)

    async def ask_tool(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        request_id: str | None = None,
        **options: Unpack[ToolAskOptions],
    ) -> Result:
        """Ask about a tool call as its dialect does, and wait; return when the call may run.

        `options` are `always`, `metadata`, `tool`, `agent`, `parent`, `cwd`, `operands`, `waits`, `actor` and `claim`. The call is
        taken to run on this machine: its operands (the files that it executes) are hashed here unless given.
        Prerequisites (directories outside the project) are separate requests with ids derived from `request_id`, asked
        first; the result is that of the call itself. An `always` remembers what the dialect would, or the agent's proposal `always` where the
        rules accept it; in a dialect that does so it is also written to the project's file (see `remember`). Raises
        what `ask` raises.
        """
        named = new_request_id() if request_id is None else check_new_id(request_id, "request id")
        runner = self._runner(options.get("claim"), named)
        wait = self._calls.wait_to_run if runner is None else self._calls.wait
        result = await carry_through(
            lambda: self._submit_here(tool_name, tool_input, named, options),
            lambda pending: wait(pending.request_id),
            named,
        )
        if runner is not None and result.request_id == named:
            who = self._asker(options.get("agent"), options.get("actor"))
            result = await self._claims.until_held(result, runner, who, None)
        error = result.error()
        if error is not None:
            raise error
        return with_own_input(await self._memory.remember(result, options.get("cwd")), tool_input)

    async def _submit_here(
        self, tool_name: str, tool_input: Mapping[str, Any], request_id: str, options: ToolAskOptions
    ) -> Result:
        """Submit a tool call that would run on this machine, with its operands unless the caller gave them."""
        if options.get("operands") is None and self._claims.calls_run_here:
            options = {**options, "operands": await self._operands(tool_name, tool_input, options.get("cwd"))}
        return await self.submit_tool(tool_name, tool_input, request_id=request_id, **options)

    async def _operands(
        self, tool_name: str, tool_input: Mapping[str, Any], cwd: str | None
    ) -> tuple[Operand, ...] | None:
        state = await self._grounds.folded()
        folder = check_folder(cwd, "working directory") or state.cwd
        call = Call(check_name(tool_name, "tool name"), (), tool_name, tool_input, folder)
        return await operands_here(call, state.home)

    async def submit_tool(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        request_id: str | None = None,
        actor: Actor | str | None = None,
        always: Iterable[str] | None = None,
        claim: GivenRunner | None = None,
        **details: Unpack[AskDetails],
    ) -> Result:
        """As `ask_tool` without waiting: return the first request that is not allowed yet, or that of the call itself.

        Once the pending one is allowed, submitting again with the same `request_id` continues with the next. `claim`
        concerns the call itself, not its prerequisites.
        """
        request_id = new_request_id() if request_id is None else check_new_id(request_id, "request id")
        cwd = details.get("cwd")
        requests = await self.tool_requests(
            tool_name, tool_input, request_id=request_id, cwd=cwd, always=always, agent=details.get("agent")
        )
        runner = self._runner(claim, request_id)
        for request in requests:
            question = request.question(details)
            own = runner if request.request_id == request_id else None
            asker = self._ledger.actor(question.agent if actor is None else actor, "agent")
            result = await self._submit(Submission(request.request_id, question, asker, own))
            if not result.allowed:
                break
        return result

    async def tool_requests(
        self,
        tool_name: str,
        tool_input: Mapping[str, Any],
        *,
        request_id: str,
        cwd: str | None = None,
        always: Iterable[str] | None = None,
        agent: str | None = None,
    ) -> tuple[ToolRequest, ...]:
        """Return the requests of a tool call, in order; the last one is the call itself. Raises InputError."""
        if self.before_asking is not None:
            await self.before_asking()
        state = await self._grounds.folded()
        where = state.cwd if cwd is None else cwd
        policy, who = await self._grounds.policy(state), agent or state.agent
        found = tool_requests(policy, tool_name, tool_input, request_id=request_id, cwd=where, always=always, agent=who)
        return as_asked(found, state)

    async def remember(self, result: Result, folder: str | Path | None = None) -> Result:
        """Add the rules of an `always` to the project's file, as Codelia does (codelia.md 8).

        Return the result with a message about the added rules, or the failure. A failure never raises, because the call
        is allowed regardless of the file. The file is that of the session's own layer, else that of the session's
        folder, else of `folder`; no folder is created. Nothing is written for a dialect without such a file, for any
        other reply or outcome, nor for a grant that is already revoked.
        """
        return await self._memory.remember(result, folder)

    async def wait(self, request_id: str, timeout: float | None = None) -> Result:
        """Return when the request is settled, or after `timeout` seconds with its status then.

        An allow by a grant of the project is returned only if that grant is still in force; otherwise the wait goes on.
        Raises FrozenError for an allow of earlier within the reach of a freeze.
        Raises NewerSchemaError for an event of a newer schema in the session, which may concern the request.
        """
        return await self._calls.wait(request_id, timeout)

    # --- answering --------------------------------------------------------------------------------------------------

    async def reply(
        self,
        request_id: str,
        reply: Answer,
        *,
        actor: Actor | str | None = None,
        message: str | None = None,
        digest: str | None = None,
        round: int | None = None,  # noqa: A002 - the word of the log
        client_id: str | None = None,
        administrator: bool = False,
        updated_input: Mapping[str, Any] | None = None,
        told: str | None = None,
        signed: Signed | None = None,
        role: str | None = None,
        expires_in_ms: int | None = None,
        uses: int | None = None,
        patterns: Iterable[str] | None = None,
        may_widen: bool | None = None,
    ) -> Result:
        """Answer a request. Idempotent: the same answer again succeeds and writes nothing.

        `reply` is `once`, `session`, `always` or `reject`, BetCode's name for one of them, or Codelia's
        `{ok, remember, reason}`. `updated_input` (with `once`) replaces the call's input. `digest` is that of the
        request as it was shown, or `round` its round; an answer to a reopened request needs one of them.
        `told` names the agent's own prompt where a person is reported to have answered; it grants for this session at
        most. If the current rules deny the call, a yes ends the request as denied, as the result shows; its grants are
        made all the same. `signed` is the passkey signature of the actor for this answer (`Ledger.passkeys`); `role` is
        the actor's role, if known.

        `expires_in_ms` (1 ms to ten years) and `uses` (1 to 1000) bound the grants of `session` and `always`; the call
        itself takes no use. `patterns` (at most 16) replace the offered ones, and must cover the call. Wider ones are
        for those who `may_widen` (default: an approver, an administrator, or an unknown role). Raises
        PasskeyRequiredError for an unsigned answer where a demand requires a
        signature, PasskeyRefusedError, InputError (no such reply word), UnknownRequestError, AlreadyAnsweredError (who,
        when, what), StaleReplyError, NoInputLockError, DigestMismatchError (another request was shown), EditDeniedError
        (the current rules deny the updated input), WiderError, NotCoveredError (the given patterns).
        """
        kind, message = parse_answer(reply, message)
        given = GivenReply(
            reply=kind,
            message=check_message(message),
            digest=digest,
            round=round,
            client_id=client_id,
            administrator=administrator,
            updated_input=None if updated_input is None else check_tool_input(updated_input),
            told=None if told is None else check_name(told, "name of the prompt (told)"),
            role=role,
            bounds=grant_bounds(expires_in_ms, uses),
            patterns=None if patterns is None else check_edited(patterns),
            may_widen=told is None and (role in GRANTING_ROLES if may_widen is None else may_widen),
        )
        who = self._ledger.actor(actor, "person")
        return await self.answers.give(check_id(request_id, "request id"), given, who, signed)

    async def extend(
        self,
        request_id: str,
        reason: ExtendReason = "by_hand",
        *,
        seen: str | None = None,
        actor: Actor | str | None = None,
        client_id: str | None = None,
        administrator: bool = False,
        role: str | None = None,
    ) -> Result:
        """Give an attended request more time: `by_hand` five minutes more, else five minutes from the ask, once.

        `seen` is the deadline as it was shown (RFC 3339): an extension since then makes this one unnecessary. It ends
        with the wait that the asker declared (`waits`), the session's longest time, and a week after the ask.
        `client_id`, `administrator` and `role` are as in `reply`. Raises NotExtendableError where it can have no more
        time, InputError, UnknownRequestError, AlreadyAnsweredError, StaleReplyError, NoInputLockError,
        DemandNotMetError.
        """
        if reason not in get_args(ExtendReason):
            known = ", ".join(f"`{one}`" for one in get_args(ExtendReason))
            raise InputError(f"the reason `{reason!a}` is none of {known}")
        command = Extend(
            actor=self._ledger.actor(actor, "person"),
            request_id=check_id(request_id, "request id"),
            reason=reason,
            seen_ms=None if seen is None else parse_time(seen),
            client_id=client_id,
            administrator=administrator,
            role=role,
        )
        done = await self._stream.submit(command)
        return result_of(done.state, request_id)

    async def cancel(
        self,
        request_id: str,
        *,
        cause: CancelCause = "withdrawn",
        reason: str | None = None,
        actor: Actor | str | None = None,
    ) -> Result:
        """Withdraw a pending request. Raises UnknownRequestError, AlreadyAnsweredError."""
        command = Cancel(
            actor=self._ledger.actor(actor, "agent"),
            request_id=check_id(request_id, "request id"),
            cause=cause,
            reason=check_message(reason, "reason"),
        )
        done = await self._stream.submit(command)
        return result_of(done.state, request_id)

    async def close(self, *, reason: str | None = None, actor: Actor | str | None = None) -> None:
        """Close the session: pending requests are cancelled, and new asks are refused."""
        await self._stream.submit(Close(actor=self._ledger.actor(actor, "agent"), reason=check_message(reason)))

    # --- grants -----------------------------------------------------------------------------------------------------

    async def grant(
        self,
        permission: str,
        pattern: str = "*",
        *,
        expires_in_ms: int | None = None,
        uses: int | None = None,
        reason: str | None = None,
        grant_id: str | None = None,
        actor: Actor | str | None = None,
    ) -> Approved:
        """Make a grant for this session. Pattern `*` is the whole tool. A known id makes no grant.

        It lifts at most `uses` calls (1 to 1000; default: any number). Raises InputError.
        """
        command = MakeGrant(
            actor=self._ledger.actor(actor, "person"),
            grant_id=new_grant_id() if grant_id is None else check_id(grant_id, "grant id"),
            permission=check_name(permission, "permission"),
            pattern=make_question("grant", [pattern]).call.patterns[0],
            expires_in_ms=None if expires_in_ms is None else check_duration_ms(expires_in_ms, "time to live"),
            uses=None if uses is None else check_uses(uses),
            reason=check_message(reason, "reason"),
        )
        await self._grounds.know_freezes((await self._grounds.folded()).project)
        done = await self._stream.submit(command)
        await self._stream.make_safe()
        return Approved(grant=done.state.grants[command.grant_id], session=self.id, project=done.state.project)

    async def revoke(self, grant_id: str, *, reason: str | None = None, actor: Actor | str | None = None) -> None:
        """Revoke a grant of this session or of its project; after the return it allows nothing."""
        who = self._ledger.actor(actor, "person")
        state = await self._stream.refresh()
        project = await self._grounds.project(state)
        if grant_id not in state.grants and project is not None and grant_id in (await project.refresh()).grants:
            await project.submit(RevokeInProject(actor=who, grant_id=grant_id, reason=check_message(reason)))
            await project.make_safe()
        else:
            await self._stream.submit(Revoke(actor=who, grant_id=grant_id, reason=check_message(reason)))
            await self._stream.make_safe()

    async def approved(self) -> list[Approved]:
        """Return the grants in force: the session's own, then its project's."""
        state = await self._stream.refresh()
        now_ms = self._ledger.store.clock.now_ms()
        own = approved_in_session(state, now_ms)
        project = await self._grounds.project(state)
        return own if project is None else own + approved_in_project(await project.refresh(), now_ms)

    # --- presence and the input lock --------------------------------------------------------------------------------

    async def connect(self, client_id: str, *, actor: Actor | str, name: str | None = None) -> ClientConnection:
        """Connect a person's client to this session: pending requests are replayed to it in order of asking.

        Use it as `async with await session.connect(…) as connection`; the lease is renewed until the block ends.
        """
        presence = Presence(
            check_id(client_id, "client id"),
            check_name(name or (actor if isinstance(actor, str) else actor.name), "client name"),
        )
        who = self._ledger.actor(actor, "person")
        done = await self._grounds.by_current_rules(self._connect, presence, who)
        # After the event: a client that fails in between connects again, and is not taken for one that has.
        await self.renew_lease(presence)
        return ClientConnection(self, presence, who, pending_of(done.state, is_replay=True))

    # --- notes ------------------------------------------------------------------------------------------------------

    async def note_tool_finished(
        self,
        request_id: str | None = None,
        *,
        call_id: str | None = None,
        ok: bool = True,
        ran: Question | None = None,
        tool_input: Mapping[str, Any] | None = None,
        title: str | None = None,
        output: str | None = None,
        key: str | None = None,
        actor: Actor | str | None = None,
    ) -> None:
        """Record a finished tool call; `ran`, or `tool_input`, is compared with the request.

        A repeated `key` records nothing.
        """
        command = NoteToolFinished(
            actor=self._ledger.actor(actor, "agent"),
            request_id=request_id,
            call_id=None if call_id is None else check_id(call_id, "call id"),
            ok=ok,
            salt=new_salt(),
            digest=None if ran is None else digest_of_run(ran, (await self._grounds.folded()).find(request_id or "")),
            input=ran.call.input if ran else None if tool_input is None else check_tool_input(tool_input),
            title=check_message(title, "title"),
            output=check_message(output, "output"),
            key=None if key is None else check_id(key, "key"),
        )
        await self._stream.submit(command)

    async def note_notification(
        self,
        request_id: str,
        service: str,
        result: Any,
        *,
        person: str | None = None,
        step: int | None = None,
        message_id: str | None = None,
        text: str | None = None,
        target: str | None = None,
    ) -> None:
        """Record that a notification was sent, failed, or was withdrawn."""
        command = NoteNotification(
            actor=self._ledger.actor(None, "system"),
            request_id=request_id,
            service=check_name(service, "notification service"),
            result=result,
            person=None if person is None else check_name(person, "person"),
            step=step,
            message_id=None if message_id is None else check_id(message_id, "message id"),
            text=check_message(text),
            target=check_message(target, "target"),
        )
        await self._stream.submit(command)

    # --- reading ----------------------------------------------------------------------------------------------------

    async def state(self) -> SessionState:
        """Return the session's current state from the server."""
        return await self._stream.refresh()

    async def pending(self) -> list[Pending]:
        """Return the pending requests, in order of asking; those whose deadline has passed are not pending."""
        return pending_of(await self._stream.as_of_now())

    async def result(self, request_id: str) -> Result:
        """Return the current status of a request; an allow only if the project's grant behind it is still in force.

        Raises UnknownRequestError; FrozenError for an allow within the reach of a freeze, which `state` still has.
        """
        return await self._calls.result(request_id)

    async def rules(self) -> PolicySource:
        """Return the rules by which the session is judged now. Raises RulesUnreadableError where they are missing."""
        return await self._grounds.rules(await self._stream.refresh())

    async def disabled(self, tools: Iterable[str]) -> frozenset[str]:
        """Return the tools that the rules deny the session's agent entirely (`opencode.md` "Disabled Tools Detection")."""
        state = await self._grounds.folded()
        policy = await self._grounds.policy(state)
        return self._ledger.policies.of_agent(policy, state.agent).disabled(tools)

    def events(self, after: int = 0, *, follow_on: bool = True) -> AsyncIterator[LoggedEvent]:
        """Iterate over the events after a version: the present ones, then (`follow_on`) each new one. Resumable."""
        return follow(self._streams, self._ledger.store, self._stream, after, follow_on=follow_on)

    @property
    def stream(self) -> Stream[SessionState]:
        return self._stream

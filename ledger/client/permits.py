"""The part of a session's client about running calls: claims, the ends of runs, and blocks that do it all.

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
from typing import TYPE_CHECKING, Any, Unpack

from ledger.client.claims import Claim, RunEnd, SessionClaims, own_unless_named
from ledger.client.results import Result
from ledger.client.spans import begun_run, told_run
from ledger.core.errors import LedgerError
from ledger.core.events import Actor
from ledger.core.limits import MESSAGE_BYTES
from ledger.core.operands import Operand, check_operands
from ledger.core.questions import GivenRunner
from ledger.core.requests import AskOptions, ToolAskOptions

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger

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
                output=None if output is None else _cut(output),
                actor=self._actor,
            )
        except LedgerError as failure:
            log.warning(
                "the end of request %s of session %s could not be recorded, so that it says `may have run`: %s",
                claim.request_id,
                claim.session,
                failure,
            )


def _cut(text: str) -> str:
    """Return a text cut to what a record of a run may have."""
    return text.encode("utf-8", "replace")[:MESSAGE_BYTES].decode("utf-8", "ignore")


class SessionRuns(ABC):
    """The calls of `Session` about running what was allowed."""

    _ledger: Ledger
    _claims: SessionClaims

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
        found = None if operands is None else check_operands(operands)
        return await self._claims.claim(request_id, runner, self._ledger.actor(actor, "agent"), found)

    async def finish(
        self, request_id: str, claim_id: str, *, ok: bool = True, output: str | None = None, **more: Unpack[RunEnd]
    ) -> None:
        """Record the end of a claimed run, after which nobody may claim the call again. Idempotent.

        `more` are `title`, `tool_input` (the input that ran, compared with the one allowed) and `actor`. Raises
        AlreadyClaimedError where another claim holds the request, UnknownRequestError.
        """
        if await self._claims.finish(request_id, claim_id, ok=ok, output=output, **more):
            await told_run(self._claims, request_id, ok=ok)

    async def release_claim(
        self, request_id: str, *, reason: str | None = None, actor: Actor | str | None = None
    ) -> None:
        """Give back the claim of a call that has not run, so that it may be claimed again; a person, or its asker.

        Raises AlreadyClaimedError for a call that has run or whose end is unknown, InputError for another agent.
        """
        await self._claims.release(request_id, reason, self._ledger.actor(actor, "person"))

    async def end_claims(self, *, runner: str | None = None, actor: Actor | str | None = None) -> list[str]:
        """End the open claims of an agent that has ended (of one runner's name); return their requests.

        The calls may have run, and may not run again.
        """
        return await self._claims.end(self._ledger.actor(actor, "agent"), runner)

    def permit(self, permission: str, patterns: Iterable[str], **options: Unpack[AskOptions]) -> PermitBlock:
        """Return a block for one call: `async with session.permit("bash", ["make"]) as permit: …`.

        Entering it asks, waits and claims; leaving it records the end, with ok or the error. `options` and errors are
        those of `ask`; without `claim` the runner is this opened ledger.
        """
        claimed: AskOptions = {**options, "claim": own_unless_named(options.get("claim"))}
        asker = self._ledger.actor(options.get("actor") or options.get("agent"), "agent")
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
        asker = self._ledger.actor(options.get("actor") or options.get("agent"), "agent")
        asking = partial(self.ask_tool, tool_name, tool_input, request_id=request_id, **claimed)
        return PermitBlock(self._claims, asking, asker, tool_input)

"""The part of a session's client about running calls: claims, the ends of runs, and blocks that do it all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from ledger.client.claims import Claim, RunEnd, SessionClaims, own_unless_named
from ledger.client.permits import PermitBlock
from ledger.client.results import Result
from ledger.client.spans import told_run
from ledger.core.events import Actor
from ledger.core.operands import Operand, check_operands
from ledger.core.requests import AskOptions, ToolAskOptions
from ledger.core.runners import GivenRunner

if TYPE_CHECKING:
    from ledger.client.ledger import Ledger


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

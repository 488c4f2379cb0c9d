"""Permits: ask, wait, claim, run and record the end, as one block.

async with session.permit("bash", ["make release"]) as permit:
    run(permit)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

from ledger.client.claims import Claim, SessionClaims
from ledger.client.results import Result
from ledger.client.spans import begun_run
from ledger.core.errors import LedgerError
from ledger.core.events import Actor
from ledger.core.limits import MESSAGE_BYTES

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

"""The requests of one session that a freeze held back: judged again when it has ended."""

from __future__ import annotations

from collections.abc import Callable

from ledger.client.grounds import Grounds
from ledger.log.freezes import Freezes
from ledger.log.plans import SYSTEM
from ledger.log.stream import Stream
from ledger.session.commands import Resume
from ledger.session.state import SessionState


class HeldRequests:
    """The requests that rules and grants allow, and only a freeze keeps pending."""

    def __init__(self, freezes: Freezes, stream: Stream[SessionState], grounds: Grounds) -> None:
        self._freezes = freezes
        self._stream = stream
        self._grounds = grounds

    def observe(self, observer: Callable[[], None]) -> Callable[[], None]:
        """Call `observer` after each change of the freezes; return a function that ends this."""
        return self._freezes.observe(observer)

    async def let_go(self, request_id: str) -> bool:
        """Judge the held requests again if the freeze has ended; return whether this one is settled now."""
        state = await self._freezes.follow()
        if state.over(self._stream.state.project) is None:
            await self.resume()
        return request_id not in self._stream.state.pending

    async def resume(self) -> None:
        """Judge all held requests again, by the rules and grants of now."""
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

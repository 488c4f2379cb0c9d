"""The answers to one session's requests, and their effects outside its stream: grants and releases in its project."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ledger.client.calls import Calls
from ledger.client.grounds import Grounds
from ledger.client.results import Result, result_of
from ledger.client.spans import spanned
from ledger.core.event_shapes import Proof, Signed
from ledger.core.events import Actor, GrantBounds
from ledger.core.grants import derived_event_id
from ledger.log.plans import SYSTEM, Done
from ledger.log.stream import Stream
from ledger.project import GrantInProject, ProjectState, TakeUse
from ledger.session.approvals import agreement_of
from ledger.session.commands import GivenReply, OutdatedRulesError, Release, Repeat, Reply
from ledger.session.masking import masked_answer
from ledger.session.releases import is_released, releases
from ledger.session.signed_claims import answer_claims
from ledger.session.state import SessionState, Settled, in_order

if TYPE_CHECKING:
    from ledger.client.parts import Parts


log = logging.getLogger(__name__)


class SessionAnswers:
    """The answers to the requests of one session."""

    def __init__(self, ledger: Parts, stream: Stream[SessionState], grounds: Grounds, calls: Calls) -> None:
        self._ledger = ledger
        self._stream = stream
        self._grounds = grounds
        self._calls = calls

    @spanned("reply", is_linked=True)
    async def give(self, request_id: str, given: GivenReply, actor: Actor, signed: Signed | None) -> Result:
        """Answer a request, and make the answer's grants; see `Session.reply`."""
        if signed is not None:
            given = masked_answer(given, self._ledger.streams.masks)
            given = replace(given, proof=await self._proof(request_id, given, actor, signed))
        done = await self._grounds.by_current_rules(self._give, request_id, given, actor)
        if not done.events:
            log.info("Ignoring duplicate PermissionResponse for %s of session %s", request_id, done.state.session_id)
        result = result_of(done.state, request_id)
        settled = result.settled
        if settled is None:
            # A yes that others must join is told only once it is as safe as an answer.
            await self._stream.make_safe()
            return result
        if settled.outcome == "allowed" or settled.grants:
            await self._stream.make_safe()
        if done.state.project is not None and settled.granted_to_project:
            await self.write_project_grants(settled)
            if settled.bounds is not None and settled.bounds.uses is not None:
                await self._release_by_uses()
            if done.state.settings.cascade_always == "project":
                await self._ledger.waiting.release_in_project(done.state.project)
        return result

    async def _proof(self, request_id: str, given: GivenReply, actor: Actor, signed: Signed) -> Proof | None:
        """Return the proof of a signed answer; None for a settled request, which accepts no further answer."""
        state = await self._stream.refresh()
        request = state.pending.get(request_id)
        if request is None:
            return None
        claims = answer_claims(state, request, given, person=actor.name, nonce=signed.nonce, until_ms=signed.until_ms)
        proof: Proof = await self._ledger.passkeys.prove(claims, signed)
        return proof

    async def _give(self, request_id: str, given: GivenReply, actor: Actor) -> Done[SessionState]:
        """Reply by the rules and the project's grants currently known to this process."""
        state = await self._grounds.folded()
        await self._grounds.know_freezes(state.project)
        if state.project is not None:
            # A release that does not hold any more is no answer: this one may be the first.
            await self._calls.recheck(request_id)
        if request_id in self._stream.state.settled:
            return await self._stream.submit(Repeat(actor=actor, request_id=request_id, given=given))
        project = await self._grounds.project(state)
        if project is not None and given.reply in ("session", "always"):
            await project.refresh()
        command = Reply(
            actor=actor,
            request_id=request_id,
            given=given,
            policy=await self._grounds.policy(state),
            policy_digest=state.policy_digest,
            project=project.state if project else None,
        )
        done = await self._stream.submit(command)
        request = done.state.pending.get(request_id)
        if request is not None and (given.reply != "once" or agreement_of(request, actor) is None):
            raise OutdatedRulesError(f"request `{request_id}` was reopened meanwhile; answer again")
        return done

    async def write_project_grants(self, settled: Settled) -> None:
        """Write the grants of a winning reply to the project's stream, except those that it has already."""
        state = await self._grounds.folded()
        project = await self._grounds.project(state)
        if project is None:
            return
        bounds = settled.bounds or GrantBounds()
        expires_in_ms = bounds.expires_in_ms
        commands = [
            GrantInProject(
                actor=settled.by,
                event_id=derived_event_id(grant_id),
                grant_id=grant_id,
                permission=settled.request.permission,
                pattern=pattern,
                expires_in_ms=expires_in_ms,
                expires_at_ms=None if expires_in_ms is None else settled.at_ms + expires_in_ms,
                uses=bounds.uses,
                wider=grant_id in settled.wider,
                session=self._stream.state.session_id,
                request_id=settled.request.request_id,
                reason="the reply was imported" if settled.imported else None,
                proof=None if settled.imported else settled.proof,
                salt=settled.request.salt if settled.proof else "",
            )
            # An imported reply may name more grants than patterns: a grant without a pattern allows nothing.
            for grant_id, pattern in zip(settled.grants, settled.granted_patterns, strict=False)
        ]
        await asyncio.gather(*(project.submit(command) for command in commands))
        await project.make_safe()

    async def resume(self) -> None:
        """Judge the requests that an ended freeze held back again."""
        await self._calls.resume()

    async def take_lost_uses(self, settled: Settled) -> None:
        """Take the uses of a call again that the server lost with the end of the project's stream."""
        project = await self._grounds.project(await self._grounds.folded())
        if project is None:
            return
        session, request_id = self._stream.state.session_id, settled.request.request_id
        for grant_id in settled.request.uses:
            await project.submit(TakeUse(actor=SYSTEM, grant_id=grant_id, session=session, request_id=request_id))

    async def release(self, *, everywhere: bool = False) -> None:
        """Release the requests that the project's grants now allow, where the session releases by them (`releases`)."""
        await self._grounds.by_current_rules(self._release, everywhere)
        state = self._stream.state
        if state.project is not None and releases(state, everywhere=everywhere):
            await self._release_by_uses()

    async def _release(self, everywhere: bool) -> None:
        state = await self._grounds.folded()
        project = await self._grounds.project(state)
        if project is not None and releases(state, everywhere=everywhere):
            await self._stream.submit(await self._release_command(state, await project.refresh()))

    async def _release_by_uses(self) -> None:
        """Release the requests that grants of the project with a limit allow, each after it has taken its uses."""
        state = self._stream.state
        project = await self._grounds.project(state)
        if project is None or not project.state.grants.has_limited:
            return
        for request in in_order(state.pending.values()):
            command = await self._release_command(self._stream.state, project.state, request.request_id)
            if is_released(self._stream.state, command, self._ledger.store.clock.now_ms()):
                await self._grounds.by_current_rules(self._release_one, project, request.request_id)

    async def _release_one(self, project: Stream[ProjectState], request_id: str) -> None:
        await self._stream.submit(await self._release_command(self._stream.state, project.state, request_id), project)

    async def _release_command(
        self, state: SessionState, project: ProjectState, request_id: str | None = None
    ) -> Release:
        return Release(
            actor=self._ledger.actor(None, "system"),
            policy=await self._grounds.policy(state),
            policy_digest=state.policy_digest,
            project=project,
            request_id=request_id,
        )

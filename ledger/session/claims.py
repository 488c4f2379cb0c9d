"""Decisions on claims: the right of one runner to run an allowed call, once. Pure.

The first claim wins. The same claim again succeeds and writes nothing, so a runner that died before it was told claims
again; any other claim is refused with who and when. A claim whose run has ended, or whose end is unknown, permits no
other run, not even by its own runner.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledger.core.commitments import keyed
from ledger.core.errors import AlreadyClaimedError, InputError, UnknownRequestError
from ledger.core.events import Asked, Claimed, ClaimReleased, Event, ReasonDetail
from ledger.core.grants import StandingGrant
from ledger.core.runners import Runner, claim_id_of
from ledger.core.times import format_time
from ledger.masks.masking import masked_input
from ledger.project.state import ProjectState
from ledger.session.claim_judgement import ClaimGrounds, ClaimJudgement, judge_claim
from ledger.session.commands import Ask, ClaimCall, EndClaims, ReleaseClaim
from ledger.session.decision import Decision, require_content, require_open, require_opened
from ledger.session.open_claims import ends_unknown, open_claims
from ledger.session.operands import require_operands
from ledger.session.reopening import reopened
from ledger.session.state import HeldClaim, SessionState, Settled, input_digest


def decide_claim(state: SessionState, command: ClaimCall, now_ms: int) -> Decision:
    """Claim an allowed request, or reopen it. No events for a request with another outcome, and for a repeated claim."""
    settled = state.settled.get(command.request_id)
    if settled is None and command.request_id not in state.pending:
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{command.request_id}`",
            request_id=command.request_id,
            session=state.session_id,
        )
    if settled is None or settled.outcome != "allowed":
        return Decision()
    require_content(state.session_id, settled.request)
    grounds = ClaimGrounds(
        policy=command.policy,
        question=command.question,
        project=command.project,
        operands=command.operands,
        masks=command.masks,
    )
    if is_repeated(state, settled, command.runner):
        _require_still_allowed(state, settled, replace(grounds, operands=None), now_ms)
        return Decision()
    require_open(state, request_id=command.request_id)
    require_operands(state, settled, command.question, command.operands)
    judgement = judge_claim(state, settled, grounds, now_ms, claim_id_of(command.runner))
    if judgement.cause is None:
        return Decision((_claimed(state, settled, command, judgement),), judgement.not_after_ms)
    events = reopened(
        state,
        settled.request,
        command.question,
        evaluation=judgement.evaluation,
        verdict=judgement.verdict,
        cause=judgement.cause,
        reason=judgement.reason,
        project_version=None if command.project is None else command.project.version,
        live=command.live,
        operands=command.operands,
    )
    return Decision(events)


def claim_with_ask(state: SessionState, command: Ask, asked: Asked) -> tuple[Event, ...]:
    """Return the claim of a request in the append of its ask, where nothing rests on a grant of the project."""
    if command.claim is None or asked.rests_on_project:
        return ()
    tool_input = masked_input(command.question.call.input, command.masks)
    claimed = Claimed(
        request_id=command.request_id,
        claim_id=claim_id_of(command.claim),
        runner=command.claim.name,
        policy_digest=state.policy_digest,
        input_digest=_input_digest(tool_input, command.salt),
    )
    return (claimed,)


def is_repeated(state: SessionState, settled: Settled, runner: Runner) -> bool:
    """Return whether this runner holds the claim already; raise AlreadyClaimedError where the call may not be claimed.

    False means that the call is free to be claimed.
    """
    held = settled.claim
    if held is not None and held.status == "open":
        if held.claim_id == claim_id_of(runner):
            return True
        raise _refusal(state, settled, f"was claimed by `{held.runner}`{_at(held)} and may be running", held)
    if held is not None and held.status == "unknown":
        raise _refusal(
            state,
            settled,
            f"was claimed by `{held.runner}`{_at(held)}, and the end of its run is not known: it may have run",
            held,
        )
    if settled.finished or settled.request.ran:
        by = "" if held is None else f" by `{held.runner}`{_at(held)}"
        raise _refusal(state, settled, f"has run already{by}", held)
    return False


def require_unclaimed(state: SessionState, request_id: str) -> None:
    """Raise AlreadyClaimedError for a request whose call somebody claimed: who asks without a claim does not run it."""
    settled = state.settled.get(request_id)
    held = None if settled is None else settled.claim
    if settled is not None and held is not None and held.status != "released":
        raise _refusal(state, settled, f"was claimed by `{held.runner}`{_at(held)}, and only its runner runs it", held)


def _at(held: HeldClaim) -> str:
    return f" at {format_time(held.at_ms)}"


def _refusal(state: SessionState, settled: Settled, what: str, held: HeldClaim | None) -> AlreadyClaimedError:
    request_id = settled.request.request_id
    who = (
        {}
        if held is None
        else {"by": held.by.name, "at_ms": held.at_ms, "runner": held.runner, "claim_id": held.claim_id}
    )
    return AlreadyClaimedError(
        f"request `{request_id}` {what}; to run it again, ask again with another request id",
        request_id=request_id,
        session=state.session_id,
        **who,
    )


def _require_still_allowed(state: SessionState, settled: Settled, grounds: ClaimGrounds, now_ms: int) -> None:
    """Raise AlreadyClaimedError for a claim by a grant of the project that was revoked since it was read for the claim.

    The claim may have been told and the call may be running, so it is not reopened.
    """
    held = settled.claim
    if held is None or held.project_version is None or grounds.project is None:
        return
    if grounds.project.judged_version <= held.project_version <= grounds.project.version:
        return
    if judge_claim(state, settled, grounds, now_ms, held.claim_id).cause is not None:
        raise _refusal(
            state,
            settled,
            f"was claimed by `{held.runner}`{_at(held)}, and the grant that allowed it is no longer in force: "
            "it may have run",
            held,
        )


def _claimed(state: SessionState, settled: Settled, command: ClaimCall, judgement: ClaimJudgement) -> Claimed:
    tool_input = settled.updated_input
    if tool_input is None:
        tool_input = masked_input(command.question.call.input, command.masks)
    project = command.project
    return Claimed(
        request_id=command.request_id,
        claim_id=claim_id_of(command.runner),
        runner=command.runner.name,
        round=settled.request.round,
        policy_digest=state.policy_digest,
        input_digest=_input_digest(tool_input, settled.request.salt),
        project_version=project.version if project is not None and _has_shared(judgement.used, project) else None,
        uses=judgement.uses,
    )


def _input_digest(tool_input: Any, salt: str) -> str | None:
    """Return the digest of an input that may run, keyed with the salt of its request."""
    return None if tool_input is None else keyed(input_digest(tool_input), salt)


def _has_shared(used: tuple[StandingGrant, ...], project: ProjectState) -> bool:
    return any(grant.grant_id in project.grants for grant in used)


def decide_release_claim(state: SessionState, command: ReleaseClaim, now_ms: int) -> Decision:
    """Release a claim without a recorded end. Raises InputError for an agent that is not the asker."""
    require_opened(state)
    settled = state.settled.get(command.request_id)
    if settled is None and command.request_id not in state.pending:
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{command.request_id}`",
            request_id=command.request_id,
            session=state.session_id,
        )
    held = None if settled is None else settled.claim
    if settled is None or held is None or held.status == "released":
        return Decision()
    if held.status != "open":
        ran = "has run" if held.status == "finished" else "may have run"
        raise _refusal(state, settled, f"{ran}, so its claim is not given back", held)
    asker = settled.request.asker.name
    if command.actor.kind == "agent" and command.actor.name != asker:
        raise InputError(
            f"agent `{command.actor.name}` did not ask for request `{command.request_id}`; its asker `{asker}` or a "
            "person releases the claim",
            request_id=command.request_id,
            session=state.session_id,
        )
    detail = ReasonDetail(command.reason) if command.reason else None
    return Decision((ClaimReleased(request_id=command.request_id, claim_id=held.claim_id, detail=detail),))


def decide_end_claims(state: SessionState, command: EndClaims, now_ms: int) -> Decision:
    """End the open claims, of all runners or of one, as unknown."""
    require_opened(state)
    ending = ((one, held) for one, held in open_claims(state) if command.runner in (None, held.runner))
    return Decision(tuple(ends_unknown(ending, command.cause)))


def open_claim_of(settled: Settled | None) -> str | None:
    """Return the id of a request's open claim, which a recorded run without a claim's id ends."""
    held = None if settled is None else settled.claim
    return held.claim_id if held is not None and held.status == "open" else None


def key_of_end(state: SessionState, request_id: str | None, claim_id: str) -> str | None:
    """Return the key under which the end of a run is recorded once; None for the end of the request's last claim.

    With a key: the claim was released, or a failover lost it; the call ran all the same. Raises AlreadyClaimedError
    where another claim holds the request, UnknownRequestError.
    """
    request = state.find(request_id or "")
    if request is None:
        raise UnknownRequestError(
            f"session `{state.session_id}` has no request `{request_id}`",
            request_id=request_id,
            session=state.session_id,
        )
    settled = state.settled.get(request.request_id)
    held = None if settled is None else settled.claim
    if settled is not None and held is not None and held.status != "released":
        if held.claim_id == claim_id:
            return None
        if claim_id not in request.released_claims:
            raise _refusal(state, settled, f"was claimed by `{held.runner}`{_at(held)}, not as `{claim_id}`", held)
    return f"{claim_id}:{request.request_id}"

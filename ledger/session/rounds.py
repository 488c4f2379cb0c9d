"""Answers to a request that was reopened or settled. Pure.

A reopened request has a new round, and an answer counts only for the round it was given to. For a settled request the same
answer changes nothing, and another one is refused.
"""

from __future__ import annotations

from hashlib import sha256

from msgspec.structs import replace

from ledger.core.errors import AlreadyAnsweredError, DigestMismatchError, StaleReplyError
from ledger.session.commands import GivenReply, OutdatedRulesError, Repeat
from ledger.session.decision import Decision, require_readable
from ledger.session.state import Request, SessionState, Settled
from ledger.session.texts import describe_settled


def shown_digest(request: Request) -> str:
    """Return the digest under which a request is shown: its own, and from round 2 on the SHA-256 of it, LF, the round.

    So an answer that was given to an earlier round never counts for a later one.
    """
    if request.round == 1:
        return request.digest
    return sha256(f"{request.digest}\n{request.round}".encode()).hexdigest()


def require_round(state: SessionState, request: Request, digest: str | None, round_: int | None) -> None:
    """Raise DigestMismatchError for an answer to another request or round, or to none where there are several."""
    shown = shown_digest(request)
    names = {"request_id": request.request_id, "session": state.session_id, "round": request.round}
    if digest is not None and digest != shown:
        raise DigestMismatchError(
            f"the answer was given to a request with digest `{digest}`, but `{request.request_id}` has "
            f"`{shown}`{_since(request)}; look at it again",
            **names,
        )
    if round_ is not None and round_ != request.round:
        raise DigestMismatchError(
            f"the answer was given to round {round_} of request `{request.request_id}`, which is in round "
            f"{request.round}{_since(request)}; look at it again",
            **names,
        )
    if request.round > 1 and digest is None and round_ is None:
        raise DigestMismatchError(
            f"request `{request.request_id}` is in round {request.round}{_since(request)}; "
            "look at it again, and answer with its digest or its round",
            **names,
        )


def _since(request: Request) -> str:
    return f", because {request.reopened_reason}" if request.reopened_reason else ""


def decide_repeat(state: SessionState, command: Repeat) -> Decision:
    """Return the decision of an answer to a request that was settled when it was looked at; it makes no events.

    Raises AlreadyAnsweredError, StaleReplyError, DigestMismatchError; OutdatedRulesError where the request waits again.
    """
    require_readable(state)
    settled = state.settled.get(command.request_id)
    if settled is None:
        raise OutdatedRulesError(f"request `{command.request_id}` was reopened meanwhile; answer again")
    refuse_unless_same(state, settled, within_session(command.given))
    return Decision()


def within_session(given: GivenReply) -> GivenReply:
    """Limit an answer that the agent's side reports to this session: an agent may not make grants for others."""
    return replace(given, reply="session") if given.told is not None and given.reply == "always" else given


def refuse_unless_same(state: SessionState, settled: Settled, given: GivenReply) -> None:
    """Raise an error for another answer than the one that settled a request, or one to an earlier round of it."""
    request = settled.request
    if request.round > 1 and (given.digest is not None or given.round is not None):
        require_round(state, request, given.digest, given.round)
    names = {"request_id": request.request_id, "session": state.session_id}
    if settled.outcome == "expired":
        raise StaleReplyError("Permission request expired", **names)
    same_answer = settled.reply == given.reply
    same_input = settled.updated_input == given.updated_input
    same_words = given.reply != "reject" or (settled.message or "") == (given.message or "")
    same_grants = settled.bounds == given.bounds and settled.edited_patterns == given.patterns
    if not (same_answer and same_words and same_input and same_grants):
        raise already_answered(state, settled, message=settled.message)


def already_answered(state: SessionState, settled: Settled, **more: object) -> AlreadyAnsweredError:
    """Return the error that tells how a request of a session was settled; `more` are further members of its data."""
    request_id = settled.request.request_id
    return AlreadyAnsweredError(
        f"request `{request_id}` was already {describe_settled(settled)}",
        request_id=request_id,
        session=state.session_id,
        outcome=settled.outcome,
        reply=settled.reply,
        by=settled.by.name,
        at_ms=settled.at_ms,
        **more,
    )

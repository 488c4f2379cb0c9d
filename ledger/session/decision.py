"""The decision of a command, and what several commands share: checks, the tier by presence, the round of an answer. Pure.

A reopened request has a new round, and an answer counts only for the round it was given to. For a settled request the same
answer changes nothing, and another one is refused.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from ledger.core.errors import (
    AlreadyAnsweredError,
    AlreadyClaimedError,
    DigestMismatchError,
    NewerSchemaError,
    NoInputLockError,
    RedactedError,
    SessionClosedError,
    StaleReplyError,
    UnknownRequestError,
    UnknownSessionError,
)
from ledger.core.events import Event, Presence, Settings, Tier
from ledger.core.grants import StandingGrant, Taker, earliest_expiry
from ledger.core.standing import Standing
from ledger.core.times import format_time
from ledger.project import ProjectState, require_readable_project
from ledger.session.commands import GivenReply, Live, OutdatedRulesError, PresenceWantedError, Repeat
from ledger.session.state import HeldClaim, Request, SessionState, Settled
from ledger.session.texts import describe_settled


class Decision(msgspec.Struct, frozen=True, gc=False):
    """Events, and the server time (ms) after which they must not be written, because their grounds end then."""

    events: tuple[Event, ...] = ()
    not_after_ms: int | None = None


def require_open(state: SessionState, **about: str) -> None:
    """Raise SessionClosedError for a closed session; `about` adds members to its data."""
    require_opened(state)
    if state.closed_ms is not None:
        raise SessionClosedError(f"session `{state.session_id}` is closed", session=state.session_id, **about)


def require_readable(state: SessionState) -> None:
    """Raise NewerSchemaError for a session with events of a newer schema: no decision or outcome may rest on it."""
    if state.newer:
        raise NewerSchemaError(
            f"session `{state.session_id}` holds events of a newer version; upgrade this worker",
            session=state.session_id,
        )


def unknown_request(state: SessionState, request_id: str | None) -> UnknownRequestError:
    return UnknownRequestError(
        f"session `{state.session_id}` has no request `{request_id}`", request_id=request_id, session=state.session_id
    )


def require_content(session_id: str, request: Request) -> None:
    """Raise RedactedError for a request whose content was redacted: nobody can know any more what it was about."""
    if request.redacted:
        raise RedactedError(
            f"request `{request.request_id}` of session `{session_id}` was redacted; ask again with another request id",
            request_id=request.request_id,
            session=session_id,
        )


def require_rules(state: SessionState) -> None:
    """Raise RedactedError for a session whose rules were redacted: without them nothing can be judged."""
    if state.rules_redacted:
        raise RedactedError(
            f"the rules of session `{state.session_id}` were redacted; open it again with rules, or begin another one",
            session=state.session_id,
        )


def require_opened(state: SessionState) -> None:
    """Raise UnknownSessionError before a session is opened. Notes are accepted after it is closed."""
    if state.opened_ms is None:
        raise UnknownSessionError(f"there is no session `{state.session_id}`", session=state.session_id)


def standing_grants(
    state: SessionState, project: ProjectState | None, now_ms: int, taker: Taker | None = None
) -> Standing:
    """Return the grants in force: the session's own, then its project's; used-up ones for a `taker` that holds a use."""
    if project is None:
        return Standing((state.grants,), now_ms, taker)
    require_readable_project(project)
    return Standing((state.grants, project.grants), now_ms, taker)


def has_shared(used: Iterable[StandingGrant], project: ProjectState | None) -> bool:
    """Return whether one of these grants is the project's."""
    return project is not None and any(grant.grant_id in project.grants for grant in used)


def until_expiry(used: Iterable[StandingGrant]) -> int | None:
    expiry = earliest_expiry(used)
    return None if expiry is None else expiry - 1


def overrides_lock(state: SessionState, request: Request, client_id: str | None, *, is_administrator: bool) -> bool:
    """Return whether an administrator acts without the input lock. Raises NoInputLockError for anybody else without."""
    if state.settings.answering == "anyone" or (client_id is not None and client_id == state.lock):
        return False
    if is_administrator:
        return True
    holder = f"`{state.lock}` holds it" if state.lock else "nobody holds it; connect and take it"
    raise NoInputLockError(
        f"only the client that holds the input lock may answer in session `{state.session_id}`: {holder}",
        request_id=request.request_id,
        session=state.session_id,
        holder=state.lock,
    )


def wanted(live: Live | None) -> Live:
    """Return the presence that a decision depends on. Raises PresenceWantedError if the leases were not read."""
    if live is None:
        raise PresenceWantedError("the decision depends on presence; read the leases")
    return live


def present_clients(live: Live) -> tuple[Presence, ...]:
    """Return the clients that an ask names as present; none where the presence is unknown."""
    return live.named() or ()


def tier_of(settings: Settings, live: Live) -> tuple[Tier, int | None]:
    """Return the tier of a request that becomes pending, and its time (ms; None is without a deadline).

    Unknown presence gives the longer time: nobody is asked to answer within a minute who may not be connected.
    """
    attended = live.is_known and bool(live.clients or live.inbox)
    return ("attended", settings.attended_ms) if attended else ("unattended", settings.unattended_ms)


def records_clients(state: SessionState) -> bool:
    """Return whether connections are events: an input lock depends on them. Otherwise they are only leases."""
    return state.settings.answering == "lock-holder"


def require_unclaimed(state: SessionState, request_id: str) -> None:
    """Raise AlreadyClaimedError for a request whose call somebody claimed: who asks without a claim does not run it."""
    settled = state.settled.get(request_id)
    held = None if settled is None else settled.claim
    if settled is not None and held is not None and held.status != "released":
        raise already_claimed(state, settled, f"{claimed_by(held)}, and only its runner runs it", held)


def claimed_by(held: HeldClaim) -> str:
    """Return who claimed a call, and when, in words."""
    return f"was claimed by `{held.runner}` at {format_time(held.at_ms)}"


def already_claimed(state: SessionState, settled: Settled, what: str, held: HeldClaim | None) -> AlreadyClaimedError:
    """Return the refusal of a claim of a call that is claimed, or has run; `what` says so in words."""
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

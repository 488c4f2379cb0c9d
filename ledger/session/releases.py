"""The releases of pending requests that grants now allow: by an `always`, or by grants of the project. Pure.

Each release takes one use of each grant with a limit that it rests on. Such a grant never lifts a deny that is newer
than the request.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledger.core.events import Cause, Replied, RepliedDetail
from ledger.core.grants import StandingGrant, Taker
from ledger.core.policy import Evaluation, ReplyKind
from ledger.session.approvals import binding, proofs_of
from ledger.session.commands import Release, Reply, Resume
from ledger.session.decision import Decision, has_shared, standing_grants, until_expiry
from ledger.session.judging import (
    at_hand,
    denied_now,
    grants_that_release,
    sparing,
    taker_of,
    unlimited,
    uses_of,
    with_uses,
)
from ledger.session.state import Request, SessionState, in_order


def cascaded(request: Request) -> Cause:
    """Return the cause of what follows from the answer to a request."""
    return Cause(kind="cascade", request_id=request.request_id)


def releases(state: SessionState, *, everywhere: bool = False) -> bool:
    """Return whether grants made in other sessions of the project release this session's pending requests.

    Its setting `cascade_always` says so, or the answer that made the grants (`everywhere`). Such an answer does not
    stand above the input lock.
    """
    if state.settings.cascade_always == "project":
        return True
    return everywhere and state.settings.answering == "anyone"


def released_by(
    state: SessionState, command: Reply, request: Request, standing: Sequence[StandingGrant], now_ms: int
) -> tuple[list[Replied], int | None]:
    """Return the releases of the session's other requests by an answer, and when their grounds end (server ms)."""
    replies: list[Replied] = []
    used: list[StandingGrant] = []
    for other in in_order(state.pending.values()):
        if other.request_id == request.request_id:
            continue
        taker = taker_of(state, other.request_id)
        lifting = grants_that_release(command.policy, other, sparing(at_hand(standing, taker), taker))
        if lifting is None:
            continue
        denial = denied_now(state, command.policy, other, unlimited(standing))
        if denial is not None:
            replies.append(replace(_stop(other, cascaded(request), denial, command), told=command.given.told))
            continue
        used += lifting
        release = released(other, cascaded(request), lifting, command, uses_of(lifting, taker))
        standing = with_uses(standing, lifting, taker, now_ms)
        replies.append(replace(release, told=command.given.told))
    # A new grant is written by this very append, so it cannot have expired by then.
    return replies, until_expiry(grant for grant in used if grant.version)


def decide_release(state: SessionState, command: Release, now_ms: int) -> Decision:
    """Release the requests that the project's grants now allow, unless the current rules deny them.

    Without `request_id`, grants of the project with a limit of uses release nothing. Raises UsesWantedError for uses
    that the named request has yet to take.
    """
    taker = None if command.request_id is None else taker_of(state, command.request_id)
    standing: Sequence[StandingGrant] = standing_grants(state, command.project, now_ms, taker)
    replies: list[Replied] = []
    used: list[StandingGrant] = []
    for request in _concerned(state, command.request_id):
        taker = taker_of(state, request.request_id)
        lifting = _lifting_of(request, command, standing, taker)
        if not lifting:
            continue
        cause = Cause(kind="grant", grant_id=lifting[0].grant_id)
        denial = denied_now(state, command.policy, request, unlimited(standing))
        if denial is not None:
            replies.append(_stop(request, cause, denial, command))
            continue
        used += lifting
        replies.append(released(request, cause, lifting, command, uses_of(lifting, taker)))
        standing = with_uses(standing, lifting, taker, now_ms)
    return Decision(tuple(replies), until_expiry(used))


def _concerned(state: SessionState, request_id: str | None) -> list[Request]:
    if request_id is None:
        return in_order(state.pending.values())
    named = state.pending.get(request_id)
    return [] if named is None else [named]


def is_released(state: SessionState, command: Release, now_ms: int) -> bool:
    """Return whether the command would release the request that it names, once its uses are taken."""
    request = state.pending.get(command.request_id or "")
    if request is None:
        return False
    taker = taker_of(state, request.request_id)
    standing = standing_grants(state, command.project, now_ms, taker)
    return bool(_lifting_of(request, command, standing, taker))


def _lifting_of(
    request: Request, command: Release, standing: Sequence[StandingGrant], taker: Taker
) -> tuple[StandingGrant, ...] | None:
    """Return the grants that release a request; those of which uses must be taken first only for a named request."""
    eligible = standing if command.request_id is not None else at_hand(standing, taker)
    return grants_that_release(command.policy, request, sparing(eligible, taker))


def _stop(request: Request, cause: Cause, denial: Evaluation, command: Reply | Release) -> Replied:
    """Return the reply for a request that grants would release, but the current rules deny."""
    return Replied(
        request_id=request.request_id,
        reply=_reply_of(command),
        outcome="denied",
        cause=cause,
        project_version=judged_by(command, denial),
        detail=RepliedDetail(evaluation=denial),
    )


def judged_by(command: Reply | Release, evaluation: Evaluation | None) -> int | None:
    """Return the version of the project by whose grants a recorded evaluation was made."""
    return None if evaluation is None or command.project is None else command.project.version


def _reply_of(command: Reply | Release | Resume) -> ReplyKind:
    if isinstance(command, Reply):
        return command.given.reply
    return "once" if isinstance(command, Resume) else "always"


def released(
    request: Request,
    cause: Cause,
    lifting: Sequence[StandingGrant],
    command: Reply | Release | Resume,
    uses: tuple[str, ...],
) -> Replied:
    """Return the reply for a request that these grants release."""
    project = command.project
    rests = has_shared(lifting, project)
    return Replied(
        request_id=request.request_id,
        reply=_reply_of(command),
        outcome="allowed",
        cause=cause,
        rests_on_project=rests,
        project_version=project.version if project is not None and rests else None,
        proofs=proofs_of(binding(command.policy, request), lifting),
        uses=uses,
    )

"""Conditions for a recheck: an allow by a project's grant counts only while the project's grants allow it. Pure."""

from __future__ import annotations

from ledger.project.state import ProjectState
from ledger.session.state import SessionState, Settled


def rests_on_project(settled: Settled) -> bool:
    """Return whether a grant of the project allowed the request, no person answered it, and nobody has claimed it.

    What is claimed may be running, so it is never reopened.
    """
    answered = settled.reply is not None and settled.cause is None
    claimed = settled.claim is not None and settled.claim.status != "released"
    return settled.outcome == "allowed" and settled.request.rests_on_project and not answered and not claimed


def may_change(state: SessionState, request_id: str, *, is_asked: bool) -> bool:
    """Return whether the project's current grants may change the outcome of a request.

    `is_asked`: the request is submitted (again), so that a new grant may release it, and another run follows a finished
    one. A caller that only reads changes neither.
    """
    if request_id in state.pending:
        return is_asked
    settled = state.settled.get(request_id)
    return settled is not None and rests_on_project(settled) and (is_asked or not settled.finished)


def has_changed(state: SessionState, request_id: str, shared: ProjectState, now_ms: int) -> bool:
    """Return whether a grant of the project was made, was revoked or has expired since the request was judged."""
    request = state.find(request_id)
    if request is None:
        return False
    if shared.judged_version > (request.project_version or 0):
        return True
    settled = state.settled.get(request_id)
    since_ms = request.asked_ms if settled is None else settled.at_ms
    return shared.grants.expires_between(since_ms, now_ms)

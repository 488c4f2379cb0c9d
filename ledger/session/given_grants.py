"""The bounds and the patterns that a person gives for the grants of an answer: what is accepted. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ledger.core.errors import InputError, NotCoveredError, WiderError
from ledger.core.grants import StandingGrant
from ledger.core.standing import as_policy_grants
from ledger.policy.edited_entries import uncovered, wider_entries
from ledger.session.commands import Reply
from ledger.session.demands import grants_for
from ledger.session.state import Request, SessionState, call_of
from ledger.session.uses import unlimited
from ledger.session.would_run.lines import quoted


def require_grants_only(request: Request, command: Reply) -> None:
    """Raise InputError for bounds or patterns with an answer that makes no grants."""
    given = command.given
    if given.reply in ("session", "always") or (given.bounds is None and given.patterns is None):
        return
    raise InputError(
        f"`expires`, `uses` and `patterns` bound what an answer remembers, and `{given.reply}` remembers nothing; "
        "answer `session` or `always` with them",
        request_id=request.request_id,
    )


def wider_patterns(
    state: SessionState, request: Request, command: Reply, standing: Sequence[StandingGrant]
) -> frozenset[str]:
    """Return the given patterns that allow more than was offered.

    Raises NotCoveredError where they do not cover the request itself, and WiderError where the person may not widen.
    """
    given = command.given
    if given.patterns is None:
        return frozenset()
    call, offered = call_of(request), offered_entries(request)
    known = as_policy_grants(grants_for(request, unlimited(standing)))
    why = uncovered(command.policy, call, request.always, given.patterns, known)
    where = {"request_id": request.request_id, "session": state.session_id}
    if why is not None:
        raise NotCoveredError(
            f"{_named(given.patterns)} would not allow request `{request.request_id}` itself: {why}; "
            "give a pattern that does, or answer `once`",
            **where,
            patterns=list(given.patterns),
        )
    wider = wider_entries(command.policy, call, offered, given.patterns)
    if wider and not given.may_widen:
        raise WiderError(
            f"{_named(wider)} may allow more than the offered {_named(offered) or 'nothing'}, and only who may grant "
            "can widen an offer; give a narrower pattern, or one of the offered",
            **where,
            patterns=list(wider),
            offered=list(offered),
        )
    return frozenset(wider)


def offered_entries(request: Request) -> tuple[str, ...]:
    """Return the patterns that a pending request offers: its `always`, the call alone, and calls like it without one."""
    reaches = ("exact",) if request.always else ("exact", "kind")
    choices = [one for one in request.offers if one.reach in reaches and not one.wide]
    return tuple(dict.fromkeys([*request.always, *(entry for one in choices for entry in one.entries)]))


def _named(patterns: Sequence[str]) -> str:
    return quoted(patterns, None)

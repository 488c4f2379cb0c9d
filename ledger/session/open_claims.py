"""The open claims of a session: those whose run has no recorded end yet. Pure.

All claims of a session have the same timeout, so the earliest one ends first. Claims are numbered in order; ending one
moves the number of the earliest on, each number once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.events import Claimed, ClaimReleased, EndCause, EndUnknown, ToolFinished
from ledger.core.grants import Recorded, TakenUse, add_uses
from ledger.session.state import HeldClaim, Request, SessionState, Settled, use_claim_id


def fold_claimed(state: SessionState, recorded: Recorded, event: Claimed) -> SessionState:
    settled = state.settled.get(event.request_id)
    if settled is None or settled.outcome != "allowed":
        return state
    if settled.claim is not None and settled.claim.status == "open":
        state = _ended(state, settled.claim)
    if event.uses:
        state = with_uses_taken(state, recorded, settled.request, event.uses, event.claim_id)
    number = state.claims_count + 1
    held = HeldClaim(
        claim_id=event.claim_id,
        runner=event.runner,
        by=recorded.actor,
        at_ms=recorded.ms,
        version=recorded.version,
        round=event.round,
        number=number,
        project_version=event.project_version,
    )
    return replace(
        state,
        settled=state.settled.insert(event.request_id, replace(settled, claim=held)),
        open_claims=state.open_claims.insert(number, event.request_id),
        claims_count=number,
        first_claim=state.first_claim if state.open_claims else number,
        first_claim_ms=state.first_claim_ms if state.open_claims else recorded.ms,
        # The members that `evolve` would set, which saves a copy of the state.
        version=recorded.version,
        last_ms=recorded.ms,
    )


def with_uses_taken(
    state: SessionState, recorded: Recorded, request: Request, grant_ids: tuple[str, ...], claim_id: str = ""
) -> SessionState:
    """Return the state with the uses of the session's own grants; those of a project's grants are in its own stream."""
    use = TakenUse(state.session_id, request.request_id, use_claim_id(request, claim_id), recorded.ms)
    return replace(state, grants=add_uses(state.grants, grant_ids, use))


def fold_released(state: SessionState, recorded: Recorded, event: ClaimReleased) -> SessionState:
    settled = state.settled.get(event.request_id)
    held = _open(settled, event.claim_id)
    if settled is None or held is None:
        return state
    ids = (*settled.request.released_claims, held.claim_id)
    settled = replace(settled, request=replace(settled.request, released_claims=ids))
    return _with_end(state, settled, replace(held, status="released", ended_ms=recorded.ms))


def fold_end_unknown(state: SessionState, recorded: Recorded, event: EndUnknown) -> SessionState:
    settled = state.settled.get(event.request_id)
    held = _open(settled, event.claim_id)
    if settled is None or held is None:
        return state
    return _with_end(state, settled, replace(held, status="unknown", ended_ms=recorded.ms))


def fold_finished(state: SessionState, recorded: Recorded, event: ToolFinished) -> SessionState:
    """Fold the end of a run. A run whose claim was given back, or lost, counts too: such a call may not run again."""
    settled = state.settled.get(event.request_id) if event.request_id else None
    request = state.pending.get(event.request_id) if event.request_id else None
    if settled is not None:
        held = settled.claim
        if held is not None and event.claim_id in (None, held.claim_id) and held.status in ("open", "unknown"):
            state = _with_end(
                state, replace(settled, finished=True), replace(held, status="finished", ended_ms=recorded.ms)
            )
        else:
            ran = settled.request.ran or event.claim_id is not None
            if (ran, True) != (settled.request.ran, settled.finished):
                state = _with_settled(state, replace(settled, finished=True, request=_as_run(settled.request, ran)))
    elif request is not None and event.claim_id is not None and not request.ran:
        state = replace(state, pending=state.pending.insert(request.request_id, _as_run(request, ran=True)))
    return state if event.key is None else replace(state, noted=state.noted.insert(event.key, True))


def _as_run(request: Request, ran: bool) -> Request:
    return request if request.ran == ran else replace(request, ran=ran)


def without_claim(state: SessionState, request_id: str) -> SessionState:
    """Return the state without the open claim of a request, if it has one."""
    settled = state.settled.get(request_id)
    return state if settled is None or settled.claim is None else _ended(state, settled.claim)


def without_open_claims(state: SessionState) -> SessionState:
    """Return the state of a session that is closed: none of its claims has a deadline any more."""
    if not state.open_claims:
        return state
    return replace(state, open_claims=type(state.open_claims)(), first_claim=state.claims_count + 1)


def open_claims(state: SessionState) -> Iterator[tuple[str, HeldClaim]]:
    """Iterate over the open claims with the ids of their requests, the earliest first."""
    for number in sorted(state.open_claims):
        request_id = state.open_claims[number]
        held = state.settled[request_id].claim
        assert held is not None, "an open claim is that of its request"
        yield request_id, held


def due_claims(state: SessionState, now_ms: int, limit: int) -> list[tuple[str, HeldClaim]]:
    """Return the open claims whose timeout has passed, the earliest first, at most `limit`."""
    due: list[tuple[str, HeldClaim]] = []
    number = state.first_claim
    while number <= state.claims_count and len(due) < limit:
        request_id = state.open_claims.get(number)
        number += 1
        if request_id is None:
            continue
        held = state.settled[request_id].claim
        assert held is not None, "an open claim is that of its request"
        if held.at_ms + state.settings.claim_timeout_ms > now_ms:
            break
        due.append((request_id, held))
    return due


def ends_unknown(claims: Iterable[tuple[str, HeldClaim]], cause: EndCause) -> list[EndUnknown]:
    """Return the events by which open claims end without a recorded end of their runs."""
    return [EndUnknown(request_id=request_id, claim_id=held.claim_id, cause=cause) for request_id, held in claims]


def _open(settled: Settled | None, claim_id: str) -> HeldClaim | None:
    held = None if settled is None else settled.claim
    return held if held is not None and held.claim_id == claim_id and held.status == "open" else None


def _with_end(state: SessionState, settled: Settled, held: HeldClaim) -> SessionState:
    return _with_settled(_ended(state, held), replace(settled, claim=held))


def _with_settled(state: SessionState, settled: Settled) -> SessionState:
    return replace(state, settled=state.settled.insert(settled.request.request_id, settled))


def _ended(state: SessionState, held: HeldClaim) -> SessionState:
    if held.number not in state.open_claims:
        return state
    remaining = state.open_claims.remove(held.number)
    first = state.first_claim
    while first <= state.claims_count and first not in remaining:
        first += 1
    if first == state.first_claim:
        return replace(state, open_claims=remaining)
    return replace(state, open_claims=remaining, first_claim=first, first_claim_ms=_claimed_ms(state, remaining, first))


def _claimed_ms(state: SessionState, open_claims: HashTrieMap[int, str], number: int) -> int:
    """Return the time (server ms) of an open claim; 0 for a number that none has."""
    request_id = open_claims.get(number)
    held = None if request_id is None else state.settled[request_id].claim
    return 0 if held is None else held.at_ms

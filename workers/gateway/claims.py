"""Claims over HTTP: the runner of a request's body or key, and who may take, end and give back a claim."""

from __future__ import annotations

from ledger.core.errors import InputError
from ledger.core.runners import Runner, claim_id_of
from ledger.session.state import SessionState
from workers.gateway.bodies import FinishBody, RunnerBody
from workers.gateway.idempotency import derived
from workers.gateway.principals import ForbiddenError, Principal

Said = RunnerBody | str | bool | None


def runner_of(said: Said, principal: Principal, key: str | None, session: str, request_id: str) -> Runner:
    """Return the runner that a caller states, else the one of its `Idempotency-Key`. Raises InputError for neither."""
    if isinstance(said, RunnerBody):
        return Runner(said.name, said.call)
    if isinstance(said, str):
        return Runner(said, request_id)
    made = derived(principal, key, f"claim\n{session}\n{request_id}")
    if made is None:
        raise InputError("give `runner`: the name of what runs the call; or the header Idempotency-Key")
    return Runner(principal.name, made)


def claim_id_in(body: FinishBody, principal: Principal, key: str | None, session: str, request_id: str) -> str:
    """Return the id of the claim whose run has ended. Raises InputError."""
    if body.claim_id is not None and body.runner is not None:
        raise InputError("give `claim_id` or `runner`, not both")
    if body.claim_id is not None:
        return body.claim_id
    return claim_id_of(runner_of(body.runner, principal, key, session, request_id))


def require_own_claim(principal: Principal, state: SessionState, request_id: str) -> None:
    """Raise ForbiddenError where an agent gives back the claim of a request that it did not ask."""
    request = state.find(request_id)
    if principal.role != "agent" or request is None or request.asker.name == principal.name:
        return
    raise ForbiddenError(
        f"request `{request_id}` was asked by `{request.asker.name}`; an agent gives back only claims of its own requests",
        session=state.session_id,
        request_id=request_id,
    )

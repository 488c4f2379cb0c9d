"""Freezes: listed, made, ended."""

from __future__ import annotations

from typing import Any

from litestar import delete, get, post
from litestar.params import JSONBody

from ledger.core.freezes import Freeze
from ledger.core.ids import check_id
from workers.gateway.bodies import FreezeBody
from workers.gateway.parameters import OptionalText, TheGateway, ThePrincipal
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.rows import Row


@get("/v1/freeze", operation_id="list_freezes")
async def list_freezes(gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the freezes in force that concern the caller: that of the whole ledger, then those of its projects."""
    found = await gateway.ledger.freezes.in_force()
    return {"freezes": [one.as_json() for one in found if _concerns(principal, one)]}


@post("/v1/freeze", status_code=200, operation_id="freeze")
async def freeze(data: JSONBody[FreezeBody], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Stop everything, or one project: after this response nothing is allowed or claimed there.

    503 IN_DOUBT: not all of the ledger is frozen with certainty; repeat the request.
    """
    _require_reach(principal, data.project)
    made = await gateway.ledger.freezes.freeze(data.project, reason=data.reason, actor=principal.actor)
    return made.as_json()


@delete("/v1/freeze", status_code=200, operation_id="unfreeze")
async def unfreeze(
    gateway: TheGateway, principal: ThePrincipal, project: OptionalText = None, reason: OptionalText = None
) -> Row:
    """End the freeze of the whole ledger, or of `project`; requests that only it held back are judged again."""
    _require_reach(principal, project)
    ended = await gateway.ledger.freezes.unfreeze(project, reason=reason, actor=principal.actor)
    left = await gateway.ledger.freezes.in_force()
    return {
        "ended": None if ended is None else ended.as_json(),
        "freezes": [one.as_json() for one in left if _concerns(principal, one)],
    }


def _concerns(principal: Principal, one: Freeze) -> bool:
    return one.project is None or principal.reaches_project(one.project)


def _require_reach(principal: Principal, project: str | None) -> None:
    """Raise ForbiddenError for a reach beyond the caller's own."""
    if project is None:
        if principal.projects or principal.sessions:
            raise ForbiddenError(
                "this token is bound to some projects or sessions, and may not freeze or unfreeze everything; "
                "name a `project`",
                projects=list(principal.projects),
            )
        return
    if not principal.reaches_project(check_id(project, "project id")):
        raise ForbiddenError(f"this token has no access to project `{project}`", projects=list(principal.projects))


HANDLERS: list[Any] = [list_freezes, freeze, unfreeze]

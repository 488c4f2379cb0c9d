"""Judging a call by given rules without a session, and the explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from litestar import delete, get, post
from litestar.params import JSONBody

from ledger.core.errors import InputError
from ledger.core.freezes import Freeze
from workers.gateway.bodies import FreezeBody
from workers.gateway.descriptions import Row
from workers.gateway.gateway import OptionalText, TheGateway, ThePrincipal
from workers.gateway.principals import ForbiddenError, Principal
from workers.runtime.project_rules import trusted_records
from workers.transport.trusted import no_longer_trusted

LINES_COUNT_MAX: Final = 1000
WORK_SECONDS_MAX: Final = 2.0
"""Limit of processor time for one answer, spent beside the loop."""


@post("/v1/policy/check", status_code=200, operation_id="check_policy")
async def check_policy(
    data: JSONBody[dict[str, Any] | list[dict[str, Any]]], gateway: TheGateway, principal: ThePrincipal
) -> Any:
    """Answer one line of `policy check`, or a list of them; each line contains its rules. A line may contain facts
    about files (`fs`); without them, those of the gateway's machine count.
    """
    lines = [data] if isinstance(data, dict) else data
    if len(lines) > LINES_COUNT_MAX:
        raise InputError(f"{len(lines)} lines are too many; at most {LINES_COUNT_MAX} are accepted")
    rows = await gateway.pool.run(principal.caller, "check", lines, seconds=WORK_SECONDS_MAX)
    return rows[0] if isinstance(data, dict) else rows


@post("/v1/policy/explain", status_code=200, operation_id="explain_policy")
async def explain_policy(data: JSONBody[dict[str, Any]], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Answer as `policy explain`: the rules that decided, those that nearly did, and changes with another verdict."""
    found: Row = await gateway.pool.run(principal.caller, "explain", data, seconds=WORK_SECONDS_MAX)
    return found


@get("/v1/policy/projects", operation_id="list_changed_rules")
async def list_changed_rules(gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the projects whose file, or a file that it names, is not as the gateway's user trusted it: of their rules
    only the denies count.
    """
    found = no_longer_trusted(trusted_records())
    return {
        "projects": [
            {"file": file, "changed": path, "command": command}
            for file, path, command in found
            if _concerns(principal, file)
        ]
    }


def _concerns(principal: Principal, file: str) -> bool:
    if not (principal.projects or principal.sessions):
        return True
    return principal.reaches_project(str(Path(file).parent))


@get("/v1/freeze", operation_id="list_freezes")
async def list_freezes(gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Return the freezes in force that concern the caller: that of the whole ledger, then those of its projects."""
    found = await gateway.ledger.freezes.in_force()
    return {"freezes": [one.as_json() for one in found if _freeze_concerns(principal, one)]}


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
        "freezes": [one.as_json() for one in left if _freeze_concerns(principal, one)],
    }


def _freeze_concerns(principal: Principal, one: Freeze) -> bool:
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
    principal.require_project(project)

"""Judging a call by given rules without a session, and the explanation."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from litestar import get, post
from litestar.params import JSONBody

from ledger.core.errors import InputError
from workers.gateway.parameters import TheGateway, ThePrincipal
from workers.gateway.principals import Principal
from workers.gateway.rows import Row
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
    rows = await gateway.beside.run(principal.caller, "check", lines, seconds=WORK_SECONDS_MAX)
    return rows[0] if isinstance(data, dict) else rows


@post("/v1/policy/explain", status_code=200, operation_id="explain_policy")
async def explain_policy(data: JSONBody[dict[str, Any]], gateway: TheGateway, principal: ThePrincipal) -> Row:
    """Answer as `policy explain`: the rules that decided, those that nearly did, and changes with another verdict."""
    found: Row = await gateway.beside.run(principal.caller, "explain", data, seconds=WORK_SECONDS_MAX)
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


HANDLERS: list[Any] = [check_policy, explain_policy, list_changed_rules]

"""Every route for every role: permitted callers succeed, all others are refused, also callers without a token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar import Litestar
from litestar.handlers import HTTPRouteHandler

from ledger import Ledger
from ledger.core.access_events import Role
from tests.gateway.callers import ROLES, Served, application
from tests.gateway.who_may import BODIES
from workers.gateway.access import ACCESS, ADMIN, AGENT, ANYBODY, APPROVER, AUDITOR
from workers.gateway.app import require_roles
from workers.gateway.authentication import operation_of
from workers.gateway.gateway import Gateway
from workers.gateway.settings import GatewaySettings

IN_BROWSERS_ALONE = {"choose_notifications", "test_device"}
"""Operations for a browser in which a person signed in: a token of any role is refused, whatever the body."""

BY_HOOKS_ALONE = {"claude_hook", "read_claude_hook"}
"""Operations for a token that names its folders: any other is refused."""

PLACES = {
    "session": "ses_1",
    "request_id": "r1",
    "client": "phone",
    "grant": "grn_1",
    "token": "tok_1",
}


@pytest.mark.slow
async def test_each_role_reaches_the_routes_of_the_table_and_no_other(gateway: Served, tmp_path: Path) -> None:
    callers: dict[Role, Any] = {role: await gateway.caller(role) for role in ROLES}
    nobody, hook = await gateway.caller(None), await gateway.caller("agent", "hook", folders=(str(tmp_path),))
    wrong: list[str] = []
    for method, path, operation in routes(gateway.gateway):
        roles = ACCESS[operation]
        if roles is ANYBODY:
            continue
        if await nobody.status(method, path) != 401:
            wrong.append(f"{method} {path} answers somebody without a token")
        for role, caller in callers.items():
            # A client is whose it was when it came: each has one of their own.
            own_path = path.replace("phone", f"phone-of-{role}")
            body = BODIES.get(operation) if operation in BY_HOOKS_ALONE else None
            refused = await caller.status(method, own_path, body) in (401, 403)
            may = role in roles and operation not in IN_BROWSERS_ALONE | BY_HOOKS_ALONE
            if refused is may:
                wrong.append(f"{method} {path}: {role} is {'refused' if refused else 'let in'}")
        if operation in BY_HOOKS_ALONE and (status := await hook.status(method, path, BODIES.get(operation))) != 200:
            wrong.append(f"{method} {path} answers a hook {status}")
    assert wrong == []


def test_what_an_agent_must_never_do_is_not_in_its_reach() -> None:
    never = {"reply", "create_grant", "revoke_grant", "connect_client", "take_lock", "pass_lock", "open_inbox"}
    never |= {"create_token", "list_tokens", "revoke_token", "leave_inbox", "disconnect_client"}
    assert {operation for operation in never if AGENT in ACCESS[operation]} == set()


def test_an_auditor_changes_nothing() -> None:
    reading = {operation for operation, roles in ACCESS.items() if AUDITOR in roles}
    changing = {"open_session", "close_session", "ask", "reply", "cancel_ask", "create_grant", "revoke_grant"}
    assert reading & changing == set()


def test_an_administrator_may_do_all_that_anybody_may() -> None:
    assert [operation for operation, roles in ACCESS.items() if roles and ADMIN not in roles] == []
    assert APPROVER in ACCESS["reply"]


def test_a_route_that_nobody_has_said_anything_of_keeps_the_gateway_from_starting() -> None:
    class Handler:
        operation_id = "surprise"

    with pytest.raises(KeyError, match="surprise"):
        require_roles([Handler()])


async def test_every_place_of_the_table_is_a_route(ledger: Ledger) -> None:
    assert set(ACCESS) - {operation for _, _, operation in routes(Gateway(ledger, GatewaySettings()))} == set()


def routes(gateway: Gateway) -> list[tuple[str, str, str]]:
    with application(gateway) as app:
        return list(routes_of(app))


def routes_of(app: Litestar) -> Iterator[tuple[str, str, str]]:
    """Method, a path with something in each place, and the operation."""
    for route in app.routes:
        for handler in getattr(route, "route_handlers", ()):
            if isinstance(handler, HTTPRouteHandler):
                path = route.path_format
                for name, value in PLACES.items():
                    path = path.replace(f"{{{name}}}", value)
                for method in sorted(set(handler.http_methods) - {"OPTIONS", "HEAD"}):
                    yield method, path, operation_of(handler)

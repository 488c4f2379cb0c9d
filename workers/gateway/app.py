"""The application: routes, guard, errors, OpenAPI. A route missing from the table of roles prevents the start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from litestar import Litestar, Request, Router
from litestar.config.response_cache import ResponseCacheConfig
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from litestar.types import ControllerRouterHandler

from ledger.client.spans import recording_api
from ledger.core.errors import LedgerError
from workers.gateway import opencode
from workers.gateway.access import ACCESS
from workers.gateway.authentication import guard, operation_of
from workers.gateway.gateway import Gateway
from workers.gateway.inbox import pages
from workers.gateway.presence import Presences
from workers.gateway.principals import Principal
from workers.gateway.problems import http_problem, ledger_problem, own_fault, unreadable
from workers.gateway.routes import (
    answers,
    asks,
    claims,
    events,
    freezes,
    grants,
    identity,
    notifications,
    passkeys,
    pending,
    policy,
    presence,
    search,
    service,
    sessions,
    tokens,
)
from workers.gateway.settings import BODY_BYTES_MAX
from workers.gateway.tracing import take_context

RESOURCES = (
    sessions,
    asks,
    claims,
    events,
    pending,
    search,
    grants,
    freezes,
    presence,
    policy,
    tokens,
    identity,
    answers,
    passkeys,
    notifications,
    opencode,
    service,
    pages,
)


def make_app(gateway: Gateway) -> Litestar:
    """Return the ASGI application of one gateway."""

    async def the_gateway() -> Gateway:
        served: Gateway = app.state.gateway
        return served

    async def the_presences() -> Presences:
        presences: Presences = app.state.presences
        return presences

    handlers: list[ControllerRouterHandler] = [one for module in RESOURCES for one in module.HANDLERS]
    require_roles(handlers)
    app = Litestar(
        route_handlers=handlers,
        dependencies={
            "gateway": Provide(the_gateway),
            "presences": Provide(the_presences),
            "principal": Provide(the_principal),
        },
        guards=[guard],
        before_request=None if recording_api() is None else take_context,
        exception_handlers={
            LedgerError: ledger_problem,
            HTTPException: http_problem,
            UnicodeDecodeError: unreadable,
            RecursionError: unreadable,
            Exception: own_fault,
        },
        openapi_config=OpenAPIConfig(
            title="permission-ledger",
            version="1",
            components=Components(security_schemes={"token": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"token": []}],
            # Only the document itself: every viewer would load its scripts from somebody else's servers.
            render_plugins=[JsonRenderPlugin(path="/")],
            openapi_router=Router(
                "/openapi.json", route_handlers=[], opt={"operation": "openapi"}, include_in_schema=False
            ),
        ),
        request_max_body_size=BODY_BYTES_MAX,
        response_cache_config=ResponseCacheConfig(default_expiration=None),
        logging_config=None,
    )
    connect(app, gateway)
    return app


def connect(app: Litestar, gateway: Gateway) -> None:
    """Have an application serve a gateway, in place of any that it served before."""
    app.state.gateway = gateway
    app.state.presences = Presences(gateway.ledger)


async def the_principal(request: Request[Any, Any, Any], gateway: NamedDependency[Gateway]) -> Principal:
    """Return the principal that the guard found.

    `gateway` is unused. Without it the framework would resolve this dependency concurrently with others, in a task of
    its own, which takes as long as the rest of the framework does.
    """
    found: Principal = request.scope["user"]
    return found


def require_roles(handlers: Iterable[Any]) -> None:
    """Raise KeyError for a route that is missing from the table of roles."""
    for handler in handlers:
        if operation_of(handler) not in ACCESS:
            raise KeyError(operation_of(handler))

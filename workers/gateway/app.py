"""The application: routes, guard, errors, OpenAPI. A route missing from the table of roles prevents the start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from litestar import Litestar, Request, Response, Router, get
from litestar.config.response_cache import ResponseCacheConfig
from litestar.di import NamedDependency, Provide
from litestar.exceptions import HTTPException
from litestar.handlers import HTTPRouteHandler
from litestar.openapi.config import OpenAPIConfig
from litestar.openapi.plugins import JsonRenderPlugin
from litestar.openapi.spec import Components, SecurityScheme
from prometheus_client import CONTENT_TYPE_LATEST

from ledger.client.spans import recording_api
from ledger.core.errors import LedgerError
from workers.gateway import opencode
from workers.gateway.access import ACCESS
from workers.gateway.authentication import guard, operation_of
from workers.gateway.descriptions import Row
from workers.gateway.gateway import Gateway, TheGateway, ThePrincipal
from workers.gateway.inbox import pages
from workers.gateway.metrics import take_context
from workers.gateway.principals import ForbiddenError, Principal
from workers.gateway.problems import http_problem, ledger_problem, own_fault, unreadable
from workers.gateway.routes import (
    answers,
    asks,
    grants,
    hooks,
    identity,
    passkeys,
    pending,
    policy,
    presence,
    sessions,
    tokens,
)
from workers.gateway.settings import BODY_BYTES_MAX


@get("/healthz", operation_id="health")
async def health() -> Row:
    """Return whether this process runs."""
    return {"ok": True}


@get("/readyz", operation_id="readiness")
async def readiness(gateway: TheGateway) -> Row:
    """Return whether this process reaches the ledger's server and it takes writes; 503 with the reason otherwise."""
    await gateway.ledger.store.check_writable()
    return {"ok": True}


@get("/metrics", media_type=CONTENT_TYPE_LATEST, operation_id="read_metrics")
async def metrics(gateway: TheGateway, principal: ThePrincipal) -> Response[bytes]:
    """Return metrics of the whole ledger in Prometheus's format; requires the role auditor or admin."""
    if principal.projects or principal.sessions:
        raise ForbiddenError("metrics cover all projects; use a token that is not bound to projects")
    await gateway.views.of_everything()
    return Response(await gateway.metrics.text(), media_type=CONTENT_TYPE_LATEST)


RESOURCES = (
    sessions,
    asks,
    hooks,
    pending,
    grants,
    presence,
    policy,
    tokens,
    identity,
    answers,
    passkeys,
    opencode,
    pages,
)


def route_handlers() -> list[HTTPRouteHandler]:
    """Return the handlers of all routes."""
    of_modules = [one for module in RESOURCES for one in vars(module).values() if isinstance(one, HTTPRouteHandler)]
    return [health, readiness, metrics, *of_modules]


def make_app(gateway: Gateway) -> Litestar:
    """Return the ASGI application of one gateway."""

    async def the_gateway() -> Gateway:
        served: Gateway = app.state.gateway
        return served

    handlers = route_handlers()
    require_roles(handlers)
    app = Litestar(
        route_handlers=handlers,
        dependencies={
            "gateway": Provide(the_gateway),
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

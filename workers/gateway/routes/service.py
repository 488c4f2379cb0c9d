"""The service itself: health, readiness, metrics for Prometheus."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from prometheus_client import CONTENT_TYPE_LATEST

from workers.gateway.parameters import TheGateway, ThePrincipal
from workers.gateway.principals import ForbiddenError
from workers.gateway.rows import Row


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


HANDLERS: list[Any] = [health, readiness, metrics]

"""Metrics for Prometheus."""

from __future__ import annotations

from typing import Any

from litestar import Response, get
from prometheus_client import CONTENT_TYPE_LATEST

from workers.gateway.parameters import TheGateway, ThePrincipal
from workers.gateway.principals import ForbiddenError


@get("/metrics", media_type=CONTENT_TYPE_LATEST, operation_id="read_metrics")
async def metrics(gateway: TheGateway, principal: ThePrincipal) -> Response[bytes]:
    """Return metrics of the whole ledger in Prometheus's format; requires the role auditor or admin."""
    if principal.projects or principal.sessions:
        raise ForbiddenError("metrics cover all projects; use a token that is not bound to projects")
    await gateway.views.of_everything()
    return Response(await gateway.metrics.text(), media_type=CONTENT_TYPE_LATEST)


HANDLERS: list[Any] = [metrics]

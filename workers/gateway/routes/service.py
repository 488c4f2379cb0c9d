"""The service itself: is it up, can it reach the ledger, what does it offer."""

from __future__ import annotations

from typing import Any

from litestar import Request, get

from workers.gateway.parameters import TheGateway
from workers.gateway.rows import Row


@get("/healthz", operation_id="health")
async def health() -> Row:
    """This process runs."""
    return {"ok": True}


@get("/readyz", operation_id="readiness")
async def readiness(gateway: TheGateway) -> Row:
    """This process reaches the ledger's server; 503 when it does not."""
    await gateway.ledger.store.now_ms()
    return {"ok": True}


@get("/openapi.json", include_in_schema=False, operation_id="openapi")
async def openapi(request: Request[Any, Any, Any]) -> Row:
    """This interface, as an OpenAPI document."""
    document: Row = request.app.openapi_schema.to_schema()
    return document


HANDLERS: list[Any] = [health, readiness, openapi]

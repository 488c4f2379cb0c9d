"""The service itself: health, readiness, version."""

from __future__ import annotations

from typing import Any

from litestar import get

from workers.gateway.parameters import TheGateway
from workers.gateway.rows import Row


@get("/healthz", operation_id="health")
async def health() -> Row:
    """Return whether this process runs."""
    return {"ok": True}


@get("/readyz", operation_id="readiness")
async def readiness(gateway: TheGateway) -> Row:
    """Return whether this process reaches the ledger's server; 503 when it does not."""
    await gateway.ledger.store.now_ms()
    return {"ok": True}


HANDLERS: list[Any] = [health, readiness]

from __future__ import annotations

from tests.support.gateways import gateway

__all__ = ["gateway"]

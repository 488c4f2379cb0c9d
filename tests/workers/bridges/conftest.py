from __future__ import annotations

from tests.support.gateways import ann, gateway

__all__ = ["ann", "gateway"]

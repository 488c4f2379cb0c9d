"""Event streams on real sockets."""

from __future__ import annotations

from tests.gateway.conftest import gateway_on_socket as gateway

__all__ = ["gateway"]

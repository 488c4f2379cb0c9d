"""The errors between an agent and the gateway.

BridgeError                 what a person must put right: an option, a file, a token
├── GatewayRefusalError     the gateway answered, and refused
└── UnreachableError        there was no answer for longer than the grace; nothing is allowed by it
"""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` takes longer to import than a hook may take to start
if TYPE_CHECKING:
    from typing import Any

_TEMPORARY = (429, 502, 503, 504)


class BridgeError(Exception):
    """The root of these errors; LedgerError would import the ledger, which is too slow for a bridge."""

    code = "INPUT"

    @property
    def text(self) -> str:
        return str(self)


class GatewayRefusalError(BridgeError):
    """The gateway's problem details: `status` of HTTP, `code` of the ledger, the rest in `data`."""

    def __init__(self, status: int, problem: dict[str, Any]) -> None:
        super().__init__(str(problem.get("detail") or f"the gateway answered with status {status}"))
        self.status = status
        self.code = str(problem.get("code") or "HTTP")
        self.data = problem

    @property
    def is_temporary(self) -> bool:
        """Return whether the same request may succeed in a moment."""
        return self.status in _TEMPORARY


class UnreachableError(BridgeError):
    """The gateway, or the ledger behind it, could not be reached in time."""

    code = "UNREACHABLE"

"""The trace context of this process's environment, as headers of requests to the gateway, which checks it.

Imports nothing, since a hook starts with every call.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

PARENT = "TRACEPARENT"
STATE = "TRACESTATE"
_PARENT_CHARS_MAX = 256
_STATE_CHARS_MAX = 512


def trace_headers(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `traceparent` and `tracestate`; nothing without a context that can be a header."""
    parent, state = environment.get(PARENT, ""), environment.get(STATE, "")
    if not _is_header(parent, _PARENT_CHARS_MAX):
        return {}
    return {"traceparent": parent, **({"tracestate": state} if _is_header(state, _STATE_CHARS_MAX) else {})}


def _is_header(text: str, chars_max: int) -> bool:
    return 0 < len(text) <= chars_max and text.isascii() and text.isprintable()

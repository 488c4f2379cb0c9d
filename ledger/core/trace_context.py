"""The W3C trace context of a caller: the trace and the span from which an ask was made. Pure.

It comes from outside, so it is checked and bounded here. A context that is not valid is ignored, as the specification
demands: it never fails an ask.
"""

from __future__ import annotations

import re
from typing import Final

from ledger.core.event_shapes import Value
from ledger.core.late_patterns import late_pattern

STATE_CHARS: Final = 512
"""The length of a `tracestate` that must be propagated; a longer one is left out."""

STATE_MEMBERS_COUNT: Final = 32

_PARENT_CHARS: Final = 55
_LATER_CHARS_MAX: Final = 256
"""The length of a `traceparent` of a later version, of which the beginning is read."""

_PARENT: Final = late_pattern(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})", re.ASCII)
_KEY: Final = r"[a-z0-9][a-z0-9_\-*/]{0,240}(?:@[a-z][a-z0-9_\-*/]{0,13})?"
_STATE_MEMBER: Final = late_pattern(
    rf"{_KEY}=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{{0,255}}[\x21-\x2b\x2d-\x3c\x3e-\x7e]", re.ASCII
)


class TraceContext(Value, frozen=True):
    """A valid context. `parent` is a `traceparent` of version 00, `state` the `tracestate` that came with it."""

    parent: str
    state: str = ""


def read_trace_context(parent: object, state: object = None) -> TraceContext | None:
    """Return the context of two header values; None for a `traceparent` that is absent or not valid.

    A `tracestate` that is not valid, or too long, is left out.
    """
    if not isinstance(parent, str) or len(parent) > _LATER_CHARS_MAX:
        return None
    parent = parent.strip(" \t")
    found = _PARENT.match(parent)
    if found is None:
        return None
    version, trace_id, span_id, flags = found.groups()
    is_longer = len(parent) > _PARENT_CHARS
    if version == "ff" or (is_longer and (version == "00" or parent[_PARENT_CHARS] != "-")):
        return None
    if not int(trace_id, 16) or not int(span_id, 16):
        return None
    return TraceContext(f"00-{trace_id}-{span_id}-{flags}", _state(state))


def _state(state: object) -> str:
    if not isinstance(state, str) or len(state) > STATE_CHARS:
        return ""
    members = [one.strip(" \t") for one in state.split(",")]
    members = [one for one in members if one]
    keys = {one.partition("=")[0] for one in members}
    is_valid = len(members) <= STATE_MEMBERS_COUNT and len(keys) == len(members)
    return ",".join(members) if is_valid and all(map(_STATE_MEMBER.fullmatch, members)) else ""

"""The digest of a call, for the ledger, bridges and hooks. The standard library alone: a hook starts with every call.

It covers what decides the effect of a call: tool, input, folder, permission, patterns, and the environment that is shown.
The files that a call executes are compared by their own digests: at the claim, and before a request is taken over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Any

_ENCODER = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> bytes:
    # A lone surrogate has no UTF-8. The gateway refuses it; a digest of it harms nobody.
    return _ENCODER.encode(value).encode("utf-8", "surrogatepass")


def call_digest(
    *,
    permission: str | None,
    patterns: Sequence[str] | None,
    tool_name: str | None,
    tool_input: Any,
    cwd: str | None,
    metadata: Mapping[str, Any],
    always: Sequence[str] = (),
    tool: Any = None,
    encode: Callable[[Any], bytes] = _canonical,
) -> str:
    """Return the lower-case hex SHA-256 over canonical JSON (sorted keys, no white space) of a call as it is asked.

    `cwd` None omits the member. `always` and `tool` bind a question of the ledger to one answer, and are no part of the
    call: whoever compares calls leaves them out. `encode` is a faster encoder of canonical JSON, where the caller has one.
    """
    asked = {
        "permission": permission,
        "patterns": patterns,
        "always": always,
        "metadata": metadata,
        "tool": tool,
        "tool_name": tool_name,
        "input": tool_input,
    }
    if cwd is not None:
        asked["cwd"] = cwd
    return sha256(encode(asked)).hexdigest()

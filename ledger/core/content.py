"""The content of a request and the digest that binds an answer to it. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Protocol

from ledger.core.codec import canonical_json
from ledger.core.events import ToolRef
from ledger.core.policy import Call


class Content(Protocol):
    """The members of a request that its digest covers; implemented by `Question` and the command `Ask`."""

    @property
    def call(self) -> Call: ...
    @property
    def always(self) -> tuple[str, ...]: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def tool(self) -> ToolRef | None: ...


def request_digest(content: Content, folder: str | None) -> str:
    """Return the lower-case hex SHA-256 over canonical JSON (sorted keys, no white space) of a request in `folder`.

    None omits the member `cwd`, as in the digests of requests logged before folders were recorded.
    """
    call = content.call
    asked = {
        "permission": call.permission,
        "patterns": call.patterns,
        "always": content.always,
        "metadata": content.metadata,
        "tool": content.tool,
        "tool_name": call.tool_name,
        "input": call.input,
    }
    if folder is not None:
        asked["cwd"] = folder
    return sha256(canonical_json(asked)).hexdigest()

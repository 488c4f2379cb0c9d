"""The content of a request and the digest that binds an answer to it. Pure."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Protocol

from ledger.core.codec import canonical_json
from ledger.core.events import ToolRef
from ledger.core.policy import Call


class Content(Protocol):
    """The members of a request that its digest covers; `Question` and the command `Ask` have them."""

    @property
    def call(self) -> Call: ...
    @property
    def always(self) -> tuple[str, ...]: ...
    @property
    def metadata(self) -> dict[str, Any]: ...
    @property
    def tool(self) -> ToolRef | None: ...


def request_digest(content: Content, folder: str | None) -> str:
    """Lower-case hex SHA-256 over canonical JSON (sorted keys, no white space) of what was asked in `folder`.

    None leaves the member `cwd` out: requests logged before folders were recorded have such digests.
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

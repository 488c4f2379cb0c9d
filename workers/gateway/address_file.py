"""How programs on this machine find the gateway: a file in the data folder with its address and an agent's token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from ledger.client import default_actor_name
from ledger.errors import UnauthorizedError
from ledger.tokens import Tokens

FILE_NAME: Final = "gateway.json"
SOCKET_NAME: Final = "gateway.sock"


async def write_address(folder: Path, url: str, inbox: str, tokens: Tokens) -> None:
    """Write `{"url", "token", "inbox"}`, readable by our user alone. A token that still holds is kept.

    The token is an agent's, and may bring rules: whoever can read the file can read the user's own rule files too.
    """
    path = folder / FILE_NAME
    text = await _kept_token(path, tokens)
    if text is None:
        made = await tokens.create(default_actor_name(), "agent", brings_rules=True)
        text = made.text
    beside = path.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        json.dump({"url": url, "token": text, "inbox": inbox}, file)
    beside.replace(path)


def read_address(folder: Path) -> dict[str, Any]:
    """What the file says; nothing when there is none or it is not ours to read."""
    try:
        found = json.loads((folder / FILE_NAME).read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


async def _kept_token(path: Path, tokens: Tokens) -> str | None:
    text = read_address(path.parent).get("token")
    if not isinstance(text, str):
        return None
    try:
        return text if (await tokens.find(text)).role == "agent" else None
    except UnauthorizedError:
        return None

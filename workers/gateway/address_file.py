"""A file in the data folder by which programs on this machine find the gateway: its address and an agent's token."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Final

from ledger.client.machine import default_actor_name
from ledger.client.tokens import Tokens
from ledger.core.errors import UnauthorizedError
from ledger.core.regular_files import read_regular

FILE_NAME: Final = "gateway.json"
TOKEN_FILE_NAME: Final = "gateway-token"  # noqa: S105 - the name of a file
SOCKET_NAME: Final = "gateway.sock"


async def write_address(folder: Path, url: str, inbox: str, tokens: Tokens) -> None:
    """Write `{"url", "token", "inbox", "process"}`, readable by our user alone. Raises OSError.

    The token has the role agent and may bring rules: whoever can read the file can also read the user's own rule files.
    It is kept in a second file, and the next gateway uses it again while it is valid. It works in every project,
    because hooks and bridges name the project's folder, and reaches the sessions that were opened with it.
    """
    text = await _kept_token(folder, tokens)
    if text is None:
        made = await tokens.create(default_actor_name(), "agent", brings_rules=True, any_project=True)
        text = made.text
    _write(folder / TOKEN_FILE_NAME, text)
    row = {"url": url, "token": text, "inbox": inbox, "process": os.getpid()}
    _write(folder / FILE_NAME, json.dumps(row))


def read_address(folder: Path) -> dict[str, Any]:
    """Return the content of the file; an empty object when it is missing or not owned by our user."""
    try:
        found = json.loads(read_regular(str(folder / FILE_NAME)))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def remove_address(folder: Path) -> None:
    """Remove the file. The token is kept for the next gateway."""
    (folder / FILE_NAME).unlink(missing_ok=True)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    beside.replace(path)


async def _kept_token(folder: Path, tokens: Tokens) -> str | None:
    """Return the token of this folder's last gateway if it is still valid on this ledger."""
    text = read_address(folder).get("token") or _read(folder / TOKEN_FILE_NAME)
    if not isinstance(text, str):
        return None
    try:
        token = await tokens.find(text)
    except UnauthorizedError:
        return None
    return text if token.role == "agent" and not token.claims_one else None


def _read(path: Path) -> str | None:
    try:
        return read_regular(path).decode().strip() or None
    except (OSError, ValueError):
        return None

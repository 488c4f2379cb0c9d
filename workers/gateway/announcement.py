"""Announces the gateway in the data folder, so that programs on this machine find it. The first running gateway wins.

With two gateways the file names the first as long as it answers. After it has ended, the other takes its place within
`LOOK_SECONDS`. A file whose gateway does not answer is stale and is replaced.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from ledger.client.machine import default_actor_name
from ledger.client.tokens import Tokens
from ledger.core.errors import UnauthorizedError
from ledger.core.regular_files import read_regular
from workers.gateway.names import LOOPBACK
from workers.gateway.server import url_of
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import BridgeError, parse_place

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
    new = path.with_suffix(f".{os.getpid()}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(text)
    new.replace(path)


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


log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 5.0
"""Interval at which a gateway that is not announced tries to take over."""

ANSWER_SECONDS: Final = 2.0
"""Time limit for the health check of the announced gateway."""

_EVERY_ADDRESS: Final = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # noqa: S104 - compared, not bound


def local_url(listeners: Sequence[socket.socket], *, only_local: bool) -> str | None:
    """Return the address for programs on this machine, a unix socket first; None when there is none to announce.

    With `only_local`, an address that other machines can reach is not announced.
    """
    for one in sorted(listeners, key=lambda listener: not isinstance(listener.getsockname(), str)):
        name = one.getsockname()
        if isinstance(name, str) or name[0] in LOOPBACK:
            return url_of(one)
        if not only_local:
            host = _EVERY_ADDRESS.get(name[0])
            return url_of(one) if host is None else f"http://{host}:{name[1]}"
    return None


async def is_running(found: dict[str, Any]) -> bool:
    """Return whether the gateway that the file names answers."""
    url = found.get("url")
    if not isinstance(url, str):
        return False
    try:
        async with asyncio.timeout(ANSWER_SECONDS), GatewayClient(lambda: parse_place(url, None), grace=0) as client:
            return bool((await client.call("GET", "/healthz")).get("ok"))
    except (BridgeError, TimeoutError):
        return False


@asynccontextmanager
async def announced(folder: Path, url: str, inbox: str, tokens: Tokens) -> AsyncIterator[str | None]:
    """Announce the gateway while the block runs. Yields the address of another gateway that is announced instead."""
    other = await _claim(folder, url, inbox, tokens)
    looking = asyncio.create_task(_keep_claiming(folder, url, inbox, tokens), name="announce gateway")
    try:
        yield other
    finally:
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        if read_address(folder).get("process") == os.getpid():
            remove_address(folder)


async def _claim(folder: Path, url: str, inbox: str, tokens: Tokens) -> str | None:
    """Write the file unless it names another running gateway; return that gateway's address."""
    found = read_address(folder)
    own = found.get("url") == url  # also after a restart: the supervisor hands the sockets down
    if not own and await is_running(found):
        return str(found["url"])
    try:
        await write_address(folder, url, inbox, tokens)
    except OSError as error:
        log.warning("programs on this machine will not find this gateway: `%s`: %s", folder, error.strerror or error)
    return None


async def _keep_claiming(folder: Path, url: str, inbox: str, tokens: Tokens) -> None:
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if read_address(folder).get("process") != os.getpid() and await _claim(folder, url, inbox, tokens) is None:
            log.info("programs on this machine now find this gateway")

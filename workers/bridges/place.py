"""Where the gateway is, and with which token to speak to it. Hooks start with every call, so little is imported."""

from __future__ import annotations

import json
import os
import re

from workers.bridges.errors import BridgeError, RefusedError, UnreachableError

TYPE_CHECKING = False  # `typing` takes longer to import than a hook may take to start
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ADDRESS = "PERMISSION_LEDGER_GATEWAY"
TOKEN = "PERMISSION_LEDGER_TOKEN"  # noqa: S105 - the name of a variable
HOME = "PERMISSION_LEDGER_HOME"
FILE = "gateway.json"

GRACE_SECONDS = 30.0
"""How long a gateway may be away before that counts, for every bridge and hook that is not told another time."""

PORT_MAX = 65535
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^/:@?#\s]+)(?::(\d{1,5}))?/?")


class Place:
    """A gateway: a unix socket's `path`, or a `host` and `port`, behind TLS or not; and the `token` for it."""

    def __init__(
        self, path: str | None = None, host: str = "gateway", port: int = 0, *, tls: bool = False, token: str | None
    ) -> None:
        self.path = path
        self.host = host
        self.port = port
        self.tls = tls
        self.token = token

    @property
    def host_header(self) -> str:
        if self.path is not None:
            return self.host
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As it is written in PERMISSION_LEDGER_GATEWAY."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"{'https' if self.tls else 'http'}://{self.host_header}"


def data_folder(environ: Mapping[str, str] = os.environ) -> str:
    """PERMISSION_LEDGER_HOME, else `permission-ledger` where the desktop's standard keeps data."""
    named = environ.get(HOME)
    if named:
        return named
    base = environ.get("XDG_DATA_HOME") or f"{os.path.expanduser('~')}/.local/share"  # noqa: PTH111 - pathlib is slow to import
    return f"{base}/permission-ledger"


def find_place(environ: Mapping[str, str] = os.environ) -> Place:
    """The gateway of the environment, else the one that the data folder's `gateway.json` names.

    Read again for each new connection: a gateway that was started again may have a new address and token.
    Raises BridgeError for an address that is none, UnreachableError when no gateway is named.
    """
    url, token = environ.get(ADDRESS), environ.get(TOKEN)
    written = {} if url and token else _written(data_folder(environ))
    url = url or written.get("url")
    if not isinstance(url, str) or not url:
        raise UnreachableError(
            f"no gateway is running here; start `permission-ledger up` or `permission-ledger serve`, or set {ADDRESS}"
        )
    kept = written.get("token")
    return parse_place(url, token or (kept if isinstance(kept, str) else None))


def parse_place(url: str, token: str | None) -> Place:
    """`unix:/path`, `http://host:port` or `https://host`. Raises BridgeError."""
    if url.startswith("unix:/"):
        # `unix:///run/x.sock` is written by many; it is the same path.
        return Place("/" + url.removeprefix("unix:").lstrip("/"), token=token)
    found = _URL.fullmatch(url)
    port = int(found[3] or (443 if found[1] == "https" else 80)) if found else 0
    if not found or not 0 < port <= PORT_MAX:
        raise BridgeError(f"`{url}` is no gateway's address; write it like `http://127.0.0.1:8420` or `unix:/path`")
    return Place(None, found[2].strip("[]"), port, tls=found[1] == "https", token=token)


def unreachable(cause: BaseException, find: Callable[[], Place] = find_place) -> str:
    """The words for a gateway that cannot be reached: its address, the cause, and what to do."""
    try:
        url = find().url
    except BridgeError as error:
        return f"the permission ledger cannot be reached: {error}"
    if isinstance(cause, RefusedError):
        return (
            f"the permission ledger cannot be reached: the gateway at `{url}` says: {cause}; look at it with "
            "`permission-ledger doctor`"
        )
    return (
        f"the permission ledger cannot be reached: {why_lost(cause)} at `{url}`; start the gateway with "
        f"`permission-ledger up`, or set {ADDRESS} to where it runs"
    )


def why_lost(cause: BaseException) -> str:
    """Return in a few words why there was no answer; never an error number."""
    if isinstance(cause, FileNotFoundError | ConnectionRefusedError) or "refused" in str(cause):
        return "nothing listens"
    if isinstance(cause, TimeoutError):
        return "no answer came in time"
    if isinstance(cause, OSError):
        return (cause.strerror or str(cause) or "the connection was lost").lower()
    return str(cause) if isinstance(cause, EOFError) and str(cause) else "the connection was lost"


def _written(folder: str) -> dict[str, Any]:
    try:
        with open(f"{folder}/{FILE}", encoding="utf-8") as file:  # noqa: PTH123 - pathlib is slow to import
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}

"""The gateway's address, the token for it, and the trace context of this process. Imports little, since a hook starts with every call.

The errors between an agent and the gateway are here, too:

BridgeError                 what a person must put right: an option, a file, a token
├── GatewayRefusalError     the gateway answered, and refused
└── UnreachableError        there was no answer for longer than the grace; nothing is allowed by it
"""

from __future__ import annotations

import json
import os
import re

from ledger.core.regular_files import read_regular

TYPE_CHECKING = False  # `typing` takes longer to import than a hook may take to start

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

ADDRESS = "PERMISSION_LEDGER_GATEWAY"
TOKEN = "PERMISSION_LEDGER_TOKEN"  # noqa: S105 - the name of a variable
HOME = "PERMISSION_LEDGER_HOME"
PLAIN_HTTP = "PERMISSION_LEDGER_PLAIN_HTTP"
FILE = "gateway.json"

GRACE_SECONDS = 30.0
"""The default time that a gateway may be away, for bridges and hooks."""

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 20.0
"""A server that is silent for this long, beyond the wait asked for, counts as gone."""

BODY_BYTES_MAX = 64 * 1024 * 1024
"""Limit of an answer's body."""

PORT_MAX = 65535
_LOOPBACK = re.compile(r"127(?:\.\d{1,3}){3}|::1")
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[^/:@?#\s]+)(?::(\d{1,5}))?/?")

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


class ServerAddress:
    """A server: a unix socket's `path`, or a `host` and `port`, behind TLS or not; and the `token` for it."""

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
    def is_local(self) -> bool:
        """Return whether data sent there stays on this machine."""
        return self.path is not None or self.host == "localhost" or _LOOPBACK.fullmatch(self.host) is not None

    @property
    def url(self) -> str:
        """Return the address in the form of PERMISSION_LEDGER_GATEWAY."""
        if self.path is not None:
            return f"unix:{self.path}"
        return f"{'https' if self.tls else 'http'}://{self.host_header}"


def data_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Return PERMISSION_LEDGER_HOME, else `permission-ledger` in the desktop standard's data folder."""
    named = environ.get(HOME)
    if named:
        return named
    base = environ.get("XDG_DATA_HOME") or f"{os.path.expanduser('~')}/.local/share"  # noqa: PTH111 - pathlib is slow to import
    return f"{base}/permission-ledger"


def find_place(environ: Mapping[str, str] = os.environ) -> ServerAddress:
    """Return the gateway of the environment, else the one in the data folder's `gateway.json`.

    A token goes only to the address it was read with: that of the file to the address of the file, that of the
    environment to the address of the environment, or to this machine. Read again for each new connection: a restarted
    gateway may have a new address and token. Raises BridgeError for an invalid address or one that may not have a
    token, UnreachableError when no gateway is named.
    """
    url, token = environ.get(ADDRESS), environ.get(TOKEN)
    if url and token:
        require_private_way(url, environ)
        return parse_place(url, token)
    written = _written(data_folder(environ))
    found, kept = written.get("url"), written.get("token")
    if url:
        return _without_own_token(parse_place(url, None), found, kept)
    if not isinstance(found, str) or not found:
        raise UnreachableError(
            f"no gateway is running here; start `permission-ledger up` or `permission-ledger serve`, or set {ADDRESS}"
        )
    if not token:
        return parse_place(found, kept if isinstance(kept, str) else None)
    place = parse_place(found, token)
    if not place.is_local:
        raise BridgeError(
            f"{TOKEN} is set without {ADDRESS}, and `{FILE}` names `{place.url}`, which is another machine; "
            f"set {ADDRESS} to the gateway that the token is for"
        )
    return place


def _without_own_token(place: ServerAddress, found: Any, kept: Any) -> ServerAddress:
    """Return an address of the environment without a token: that of the file goes to the file's own address only."""
    if isinstance(found, str) and isinstance(kept, str) and parse_place(found, None).url == place.url:
        place.token = kept
        return place
    if not place.is_local:
        raise BridgeError(f"{ADDRESS} names `{place.url}`, and there is no token for it; set {TOKEN} as well")
    return place


def require_private_way(url: str, environ: Mapping[str, str] = os.environ) -> None:
    """Raise BridgeError if a third party could read a token on the way to a web address."""
    place = parse_place(url, None)
    if not (place.tls or place.is_local or environ.get(PLAIN_HTTP) == "1"):
        raise BridgeError(
            f"`{place.url}` is another machine: plain http exposes the token on the network; use https, "
            f"or set {PLAIN_HTTP}=1 where the network is your own"
        )


def parse_place(url: str, token: str | None) -> ServerAddress:
    """Parse `unix:/path`, `http://host:port` or `https://host`. Raises BridgeError."""
    if url.startswith("unix:/"):
        # `unix:///run/x.sock` is common; it is the same path.
        return ServerAddress("/" + url.removeprefix("unix:").lstrip("/"), token=token)
    found = _URL.fullmatch(url)
    port = int(found[3] or (443 if found[1] == "https" else 80)) if found else 0
    if not found or not 0 < port <= PORT_MAX:
        raise BridgeError(f"`{url}` is not a gateway's address; write it like `http://127.0.0.1:8420` or `unix:/path`")
    return ServerAddress(None, found[2].strip("[]"), port, tls=found[1] == "https", token=token)


def unreachable(cause: BaseException, find: Callable[[], ServerAddress] = find_place) -> str:
    """Return the message for an unreachable gateway: its address, the cause, and what to do."""
    try:
        url = find().url
    except BridgeError as error:
        return f"the permission ledger cannot be reached: {error}"
    if isinstance(cause, GatewayRefusalError):
        return (
            f"the permission ledger cannot be reached: the gateway at `{url}` says: {cause}; look at it with "
            "`permission-ledger doctor`"
        )
    return (
        f"the permission ledger cannot be reached: {why_lost(cause)} at `{url}`; start the gateway with "
        f"`permission-ledger up`, or set {ADDRESS} to where it runs"
    )


def why_lost(cause: BaseException) -> str:
    """Return the reason for a missing answer in a few words; never an error number."""
    if isinstance(cause, FileNotFoundError | ConnectionRefusedError) or "refused" in str(cause):
        return "nothing listens"
    if isinstance(cause, TimeoutError):
        return "no answer came in time"
    if isinstance(cause, OSError):
        return (cause.strerror or str(cause) or "the connection was lost").lower()
    return str(cause) if isinstance(cause, EOFError) and str(cause) else "the connection was lost"


def _written(folder: str) -> dict[str, Any]:
    try:
        found = json.loads(read_regular(f"{folder}/{FILE}"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


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

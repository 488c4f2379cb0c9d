"""Creation of a store from a URL. Only a store that is made imports its client library."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ledger.core.errors import InputError
from ledger.stores.durability import Durability, durability_in
from ledger.stores.store import Clock, Store

if TYPE_CHECKING:
    from ledger.stores.memory import MemoryServer
    from ledger.stores.redis.link import Revive

_SCHEMES: Final = (
    *("redis", "rediss", "unix"),
    *("redis+cluster", "rediss+cluster", "redis+sentinel", "rediss+sentinel"),
)
_KNOWN: Final = "redis://, rediss://, unix://, redis+cluster://, redis+sentinel://, embedded:///folder, memory://"

_shared_memory: dict[str, MemoryServer] = {}


def open_store(
    url: str,
    *,
    clock: Clock | None = None,
    partition_count: int | None = None,
    revive: Revive | None = None,
    durability: Durability | None = None,
) -> Store:
    """Return the store of a URL, not yet started. Raises InputError for an unsupported URL.

    `memory://` is a new ledger each time, `memory://name` one that this process shares. `embedded://` is opened by
    `StoreConnection`, which holds the server while it is used. `durability` takes precedence over the URL's query.
    """
    scheme = url.partition("://")[0]
    if scheme == "memory":
        from ledger.stores.memory import MemoryStore  # noqa: PLC0415 - commands and agents on a server need none

        return MemoryStore(_memory_server(url.partition("://")[2], clock, partition_count))
    if scheme not in _SCHEMES:
        raise InputError(f"unsupported URL scheme in `{redact(url)}`; use one of {_KNOWN}")
    # The client library takes longer to import than most commands take otherwise.
    from ledger.stores.redis.addresses import servers_of  # noqa: PLC0415
    from ledger.stores.redis.store import RedisStore  # noqa: PLC0415

    address, in_url = durability_in(url)
    try:
        servers = servers_of(address)
    except (ValueError, TypeError) as error:
        raise _unreadable(address, error) from None
    return RedisStore(
        servers,
        partition_count=partition_count,
        clock=clock,
        revive=revive,
        durability=durability or in_url,
    )


def _unreadable(url: str, error: Exception) -> InputError:
    """Return the error for a malformed URL, without the parser's message, which may hold part of a password."""
    if "@" in url or "password" in url:
        why = "signs such as / @ : ? # [ in a user name or password are written as %2F %40 %3A %3F %23 %5B"
    else:
        why = str(error)
    return InputError(f"the URL `{redact(url)}` cannot be read: {why}")


def _memory_server(name: str, clock: Clock | None, partition_count: int | None) -> MemoryServer:
    from ledger.stores.memory import MemoryServer  # noqa: PLC0415 - as above

    counts = {} if partition_count is None else {"partition_count": partition_count}
    if not name:
        return MemoryServer(clock, **counts)
    return _shared_memory.setdefault(name, MemoryServer(clock, **counts))


def redact(url: str) -> str:
    """Return the URL without its password, for logs and messages, even if it cannot be parsed."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "", url
    # The text before the last @ may be secret; in a URL that starts with the path, @ has no meaning.
    credentials, at, address = ("", "", rest) if rest.startswith("/") else rest.rpartition("@")
    if at:
        user, colon, _ = credentials.partition(":")
        credentials = f"{user}:***" if colon else "***"
    address = re.sub(r"(?i)(password=)[^&#]*", r"\1***", address)
    return f"{scheme}{separator}{credentials}{at}{address}"


def url_of_environment() -> str | None:
    """Return `PERMISSION_LEDGER_URL`, else the text of `PERMISSION_LEDGER_URL_FILE`, else None. Raises InputError."""
    url, file = os.environ.get("PERMISSION_LEDGER_URL"), os.environ.get("PERMISSION_LEDGER_URL_FILE")
    if url or not file:
        return url or None
    try:
        found = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or "it is no text"
        raise InputError(f"the file `{file}` of PERMISSION_LEDGER_URL_FILE cannot be read: {why}") from None
    if not found:
        raise InputError(f"the file `{file}` of PERMISSION_LEDGER_URL_FILE is empty; write the ledger's URL into it")
    return found


def embedded_folder(url: str) -> Path:
    """Return the data folder of `embedded:///folder`; without a path, the default data folder."""
    path = unquote(urlsplit(url).path)
    return Path(path) if path.strip("/") else default_home()


def default_home() -> Path:
    """Return the default data folder.

    `PERMISSION_LEDGER_HOME`, else `$XDG_DATA_HOME/permission-ledger`, else `~/.local/share/permission-ledger`.
    """
    named = os.environ.get("PERMISSION_LEDGER_HOME")
    if named:
        return Path(named)
    data = os.environ.get("XDG_DATA_HOME")
    return (Path(data) if data else Path.home() / ".local" / "share") / "permission-ledger"

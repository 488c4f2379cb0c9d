"""A check of the access to a server without password and certificate."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec

from ledger.core.errors import LedgerError
from ledger.stores.keys import Keys
from ledger.stores.redis.addresses import servers_of
from ledger.stores.redis.link import LinkError
from ledger.stores.redis.refusals import Refusal

ANSWER_SECONDS: Final = 5.0

_OURS: Final = frozenset(
    {"username", "password", "ssl_certfile", "ssl_keyfile", "ssl_password"},
)
"""Credentials among the members of a URL's query."""


class OpenDoors(msgspec.Struct, frozen=True, kw_only=True):
    """The ways to access a server without credentials."""

    without_credentials: bool = False
    socket_of_everybody: str | None = None


async def open_doors(url: str) -> OpenDoors:
    """Try the URL's servers without credentials; a server in this process's memory has no access from outside."""
    if url.startswith("memory://"):
        return OpenDoors()
    socket = _socket_for_everybody(url)
    return OpenDoors(
        without_credentials=await _lets_strangers_in(url), socket_of_everybody=None if socket is None else str(socket)
    )


async def _lets_strangers_in(url: str) -> bool:
    """Return whether a server of this URL answers a read of the ledger's key without credentials."""
    servers = servers_of(_without_credentials(url))
    commands = servers.commands(ANSWER_SECONDS)
    try:
        for server in await commands.everywhere():
            [reply] = await server.run([("EXISTS", Keys(1).config())])
            if not isinstance(reply, Refusal):
                return True
    except (LinkError, LedgerError, OSError):
        # Refused before the read: by password, by certificate, or by a cluster that does not return its slot map.
        return False
    finally:
        await commands.close()
        await servers.close()
    return False


def _socket_for_everybody(url: str) -> Path | None:
    """Return the path of the URL's unix socket if every user of this machine may connect to it."""
    parts = urlsplit(url)
    if parts.scheme != "unix":
        return None
    path = Path(unquote(parts.path))
    try:
        is_open = bool(path.stat().st_mode & stat.S_IWOTH)
        return path if is_open and all(one.stat().st_mode & stat.S_IXOTH for one in path.parents) else None
    except OSError:
        return None


def _without_credentials(url: str) -> str:
    parts = urlsplit(url)
    query = [(name, value) for name, value in parse_qsl(parts.query, keep_blank_values=True) if name not in _OURS]
    # Not built by urlunsplit, which drops the slashes of `unix:///path`.
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}?{urlencode(query)}".rstrip("?")

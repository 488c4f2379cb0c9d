"""The gateway as a part of `up`: its sockets, and the lines on how to sign in."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

from ledger import Ledger
from ledger.client.machine import default_actor_name
from ledger.core.errors import SetupError
from workers.gateway.address_file import SOCKET_NAME
from workers.gateway.command import public_url_of
from workers.gateway.server import ListenAddress, listen, parse_address, url_of
from workers.gateway.settings import PORT_DEFAULT, SIGN_IN_LINK_MINUTES
from workers.gateway.signing_in import sign_in_link


def gateway_sockets(folder: Path | None, wanted: str | None) -> list[socket.socket]:
    """Return a TCP socket of this machine, and the data folder's socket unless another gateway has it already.

    Without `wanted`, any free port is used when the usual one is taken. Raises InputError, SetupError.
    """
    if wanted is not None:
        return [listen(parse_address(wanted)), *_of_folder(folder)]
    try:
        over_tcp = listen(ListenAddress(host="127.0.0.1", port=PORT_DEFAULT))
    except SetupError:
        over_tcp = listen(ListenAddress(host="127.0.0.1"))
    return [over_tcp, *_of_folder(folder)]


def _of_folder(folder: Path | None) -> list[socket.socket]:
    if folder is None:
        return []
    try:
        return [listen(ListenAddress(path=folder / SOCKET_NAME))]
    except SetupError:
        return []  # another gateway of the same ledger answers there


async def how_to_get_in(ledger: Ledger, listeners: Sequence[socket.socket]) -> list[str]:
    """Return lines for a person: the addresses, and a link that signs a browser in."""
    link = await sign_in_link(ledger.tokens, public_url_of(listeners), default_actor_name())
    return [
        "",
        *(f"  {url_of(one)}" for one in listeners),
        "",
        "Open the inbox (signs one browser in, once; `permission-ledger inbox` makes another link):",
        f"  {link}",
        f"  It is good for {SIGN_IN_LINK_MINUTES} minutes.",
    ]

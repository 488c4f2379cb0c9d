"""A check for processes of versions that cannot run beside this one. They show by the name of their connections."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from redis.exceptions import ResponseError

from ledger.core.errors import SetupError
from ledger.stores.redis.refusals import refusal_code, refusal_of

CLIENT_NAME: Final = "permission-ledger/2"
"""The name of this version's connections. Its number changes when two versions cannot run side by side."""

_OLDER_NAME: Final = "permission-ledger"
_NAMED_MAX: Final = 5


def require_no_older(replies: Sequence[Any], *, must_know: bool) -> None:
    """Raise SetupError where a server's reply to CLIENT LIST shows a connection of an older version.

    `must_know`: a server that does not let this user look is an error too.
    """
    older: list[str] = []
    for reply in replies:
        if isinstance(reply, ResponseError):
            if refusal_code(reply) != "NOPERM":
                raise refusal_of(reply) from reply
            if must_know:
                raise _unknown() from reply
        else:
            older += _older_in(reply.decode(errors="replace"))
    if older:
        named = ", ".join(older[:_NAMED_MAX])
        more = f" and {len(older) - _NAMED_MAX} more" if len(older) > _NAMED_MAX else ""
        raise SetupError(
            f"an older version of permission-ledger is connected to this server (client {named}{more}), and the two "
            "cannot run side by side: end its processes (agents, workers, gateways), then start this one again",
            hint="docs/guides/upgrade.md describes the upgrade",
            clients=older,
        )


def _unknown() -> SetupError:
    return SetupError(
        "this ledger was written by an older version of permission-ledger, and the server does not let this user see "
        "whether that still runs; end its processes, and give this user the right `+client|list`",
        hint="docs/guides/operating.md lists the rights; docs/guides/upgrade.md describes the upgrade",
    )


def _older_in(clients: str) -> list[str]:
    """Return id and address of each connection of an older version."""
    found = []
    for line in clients.splitlines():
        facts = dict(one.partition("=")[::2] for one in line.split(" "))
        if facts.get("name") == _OLDER_NAME:
            found.append(f"{facts.get('id', '?')} at {facts.get('addr', '?')}")
    return found

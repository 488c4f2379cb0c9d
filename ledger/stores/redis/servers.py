"""The servers of a ledger: one server, the primary that sentinels name, or the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ledger.stores.keys import Keys
from ledger.stores.port import Listener
from ledger.stores.redis.link import Argument, CommandLine, LinkError, Receiver

Revive = Callable[[], Awaitable[None]]
"""A callback that restarts a server which died while this process held it (the embedded one); never raises."""


class Commands(Protocol):
    """A command interface to the servers, wherever the keys are."""

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """Return the replies in order; a refusal of a server is a Refusal among them. Raises LinkError.

        With `in_order` each command runs after those before it, also across nodes.
        """
        ...

    def send(self, command: CommandLine, receiver: Receiver) -> None:
        """Send one command at once; where that is impossible, `receiver` gets a LinkError that says so."""
        receiver.fail(LinkError("only `run` sends to several servers or in batches", sent=False))

    @property
    def server(self) -> str:
        """Return the id of the connected server (new after each start and promotion), if known for sure, else ''."""
        return ""

    @property
    def connection(self) -> int:
        """Return the number of the present connection, or 0 where there is none, or several."""
        return 0

    def note_server(self, server: str, connection: int) -> None:
        """Note the id of the connected server as told over this connection, if it is still the present one."""
        return

    async def one(self, *command: Argument) -> Any:
        """Return the reply to one command. Raises Refusal or LinkError."""
        ...

    async def everywhere(self) -> Sequence[Commands]:
        """Return an interface to each server that holds keys, for commands that all must run. Raises LinkError."""
        ...

    def replica(self, address: tuple[str, int]) -> Commands | None:
        """Return an interface to a replica at the address that its primary names; None where it is not for us."""
        return None

    async def close(self) -> None: ...


class WakeUps(Protocol):
    """Subscriptions of this process to partitions' wake-ups."""

    def listen(self, listener: Listener) -> None: ...

    async def subscribe(self, partition: int) -> None:
        """Return when the subscription to this partition's wake-ups is confirmed."""
        ...

    async def close(self) -> None: ...


class Servers(Protocol):
    """A factory of command interfaces and subscriptions for one deployment."""

    @property
    def others_take_over(self) -> bool:
        """Return whether another server takes over from a lost one."""
        ...

    def commands(self, answer_seconds: float, *, confirmed: bool = False) -> Commands:
        """Return a command interface; `confirmed` is for writes followed by WAIT, which blocks its connection."""
        ...

    def wake_ups(self, keys: Keys, revive: Revive | None) -> WakeUps: ...

    async def close(self) -> None: ...

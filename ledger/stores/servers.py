"""Where a ledger's keys lie: one server, the primary that sentinels name, or the nodes of a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from ledger.stores.keys import Keys
from ledger.stores.link import Argument, CommandLine, Receiver
from ledger.stores.port import Listener

Revive = Callable[[], Awaitable[None]]
"""Starts a server again that died while this process held it (the embedded one); never raises."""


class Commands(Protocol):
    """Commands in, answers out in the same order, wherever their keys lie."""

    async def run(self, commands: Sequence[CommandLine], *, in_order: bool = False) -> list[Any]:
        """The answers in order; a refusal of a server is a ResponseError among them. Raises LinkError.

        With `in_order` no command runs before those in front of it, also where they run on several nodes.
        """
        ...

    @property
    def can_post(self) -> bool:
        """Whether `post` would send something just now."""
        ...

    def post(self, command: bytes, receiver: Receiver) -> bool:
        """Send one packed command now; False, and nothing was sent, where only `run` will do."""
        ...

    async def one(self, *command: Argument) -> Any:
        """The answer to one command. Raises ResponseError or LinkError."""
        ...

    async def everywhere(self) -> Sequence[Commands]:
        """One for each server that holds keys, for what must be asked of all of them. Raises LinkError."""
        ...

    async def close(self) -> None: ...


class WakeUps(Protocol):
    """Subscriptions of this process to partitions' wake-ups."""

    def listen(self, listener: Listener) -> None: ...

    async def subscribe(self, partition: int) -> None:
        """Return when this partition's wake-ups arrive from now on."""
        ...

    async def close(self) -> None: ...


class Servers(Protocol):
    """Makes what a store needs to speak to where its keys lie."""

    @property
    def others_take_over(self) -> bool:
        """Whether another server takes the place of one that is gone."""
        ...

    def commands(self, answer_seconds: float, *, confirmed: bool = False) -> Commands:
        """`confirmed`: for writes with a WAIT behind them, which hold up whatever else uses the connection."""
        ...

    def wake_ups(self, keys: Keys, revive: Revive | None) -> WakeUps: ...

    async def close(self) -> None: ...

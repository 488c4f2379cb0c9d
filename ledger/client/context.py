"""The base of every part of a client: the open store and its streams, the author of events, and the compiled rules."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from secrets import token_hex
from typing import TYPE_CHECKING, Final

from ledger.client.machine import default_actor_name
from ledger.core.events import Actor
from ledger.core.requests import check_actor, check_name
from ledger.log.streams import Streams
from ledger.stores.store import Store

if TYPE_CHECKING:
    from ledger.client.plugins import Decider
    from ledger.client.policies import CompiledPolicies

_RUNNER_CHARS: Final = 200


class Context:
    """The store and streams of a ledger, once it is open; the name of this process, its deciders and compiled rules."""

    def __init__(self, *, plugins: Sequence[Decider], actor: str | None) -> None:
        self.actor_name = check_name(actor or default_actor_name(), "actor")
        self.runner_name = f"{self.actor_name[:_RUNNER_CHARS]}#{token_hex(4)}"
        """The runner of this opened ledger, which no other process has."""
        self.deciders = plugins
        self._store: Store | None = None
        self._streams: Streams | None = None

    @property
    def store(self) -> Store:
        assert self._store is not None, "use it as `async with Ledger.connect(...) as ledger`"
        return self._store

    @property
    def streams(self) -> Streams:
        assert self._streams is not None, "use it as `async with Ledger.connect(...) as ledger`"
        return self._streams

    @cached_property
    def policies(self) -> CompiledPolicies:
        """The compiled rules of this opened ledger."""
        from ledger.client.policies import CompiledPolicies  # noqa: PLC0415 - what only reads imports no rules

        return CompiledPolicies()

    def actor(self, actor: Actor | str | None, kind: str) -> Actor:
        """Return the author of an event: as given, else this process's own name."""
        if isinstance(actor, Actor):
            return check_actor(actor)
        return Actor(kind, self.actor_name if actor is None else check_name(actor, "actor"))

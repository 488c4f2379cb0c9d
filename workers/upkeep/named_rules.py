"""The rules that sessions name: found in their bytes, and read from their own streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from ledger.client.passkey_audit import Demands
from ledger.core.errors import DamageError, RulesUnreadableError
from ledger.core.policy import demand_rules
from ledger.log.rulesets import read_ruleset
from ledger.log.verify import Problem
from ledger.stores.port import Entry, Store, StreamKey

UNREADABLE: Final = RulesUnreadableError.code
"""The code of an ask in a session whose rules cannot be read, which begins the text of the problem."""

_NAMING: Final = frozenset(("session_opened", "policy_changed"))


class _Event(msgspec.Struct):
    type: str
    policy_digest: str = ""


class _Payload(msgspec.Struct):
    event: _Event
    x: str | None = None


_decoder: Final = msgspec.json.Decoder(_Payload)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def named_rules(key: StreamKey, entries: Sequence[Entry]) -> dict[str, int]:
    """Return the digests of the rules that a session names, each with its first version.

    `entries` are those that may name rules, or all.
    """
    named: dict[str, int] = {}
    for entry in entries if key.kind == "session" else ():
        try:
            told = _decoder.decode(entry.payload)
        except _UNREADABLE:
            continue
        is_redacted = told.x is not None and entry.content is None
        if told.event.type in _NAMING and told.event.policy_digest and not is_redacted:
            named.setdefault(told.event.policy_digest, entry.version)
    return named


class NamedRules:
    """The demands of rules by digest, read once; None for rules that are missing or damaged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._demands: dict[str, Demands | None] = {}

    async def read(self, digests: Mapping[str, int]) -> dict[str, Demands | None]:
        """Return the demands of some rules. Raises StoreError."""
        for one in digests:
            if one not in self._demands:
                self._demands[one] = await self._read(one)
        return {one: self._demands[one] for one in digests}

    async def _read(self, policy_digest: str) -> Demands | None:
        try:
            source = (await read_ruleset(self._store, policy_digest)).source
        except DamageError:
            return None
        return None if source is None else demand_rules(source)


def missing_rules(named: Mapping[str, int], demands: Mapping[str, Demands | None]) -> list[Problem]:
    """Return the problems of a session whose rules are not there."""
    return [
        Problem(
            version, "missing", f"{UNREADABLE}: the rules of version {version} cannot be read: stream `policy:{one}`"
        )
        for one, version in named.items()
        if demands.get(one, ()) is None
    ]

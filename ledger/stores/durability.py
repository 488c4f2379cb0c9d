"""The replication and fsync required (`WAIT`) before a grant or an allow takes effect, and what a server provides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qsl, urlencode

import msgspec

from ledger.core.errors import InputError

WAIT_MS_DEFAULT: Final = 1000
WAIT_MS_MAX: Final = 60_000
WAIT_REPLICAS_MAX: Final = 16

_NAMES: Final = ("wait_replicas", "wait_ms", "wait_aof")


class Durability(msgspec.Struct, frozen=True, kw_only=True):
    """The replication required before a grant or an allow takes effect; by default none.

    `wait_replicas` replicas must confirm within `wait_ms`, and with `wait_aof` the primary's fsync as well. Otherwise
    the write is in doubt and never an allow; it is not undone.
    """

    wait_replicas: int = 0
    wait_ms: int = WAIT_MS_DEFAULT
    wait_aof: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.wait_replicas <= WAIT_REPLICAS_MAX:
            raise InputError(f"`wait_replicas={self.wait_replicas}` is out of range; use 0 to {WAIT_REPLICAS_MAX}")
        if not 0 < self.wait_ms <= WAIT_MS_MAX:
            raise InputError(f"`wait_ms={self.wait_ms}` is out of range; use 1 to {WAIT_MS_MAX}")

    @property
    def is_demanding(self) -> bool:
        """Return whether a confirmation is required."""
        return self.wait_replicas > 0 or self.wait_aof

    def commands(self) -> tuple[tuple[str | int, ...], ...]:
        """Return the commands to send right after a write, on the same connection."""
        waits: list[tuple[str | int, ...]] = []
        if self.wait_replicas:
            waits.append(("WAIT", self.wait_replicas, self.wait_ms))
        if self.wait_aof:
            waits.append(("WAITAOF", 1, 0, self.wait_ms))
        return tuple(waits)

    def shortfall(self, replies: Sequence[Any]) -> str | None:
        """Return what the replies to `commands` lack; None when the write is confirmed as required."""
        left = list(replies)
        if self.wait_replicas:
            reached = left.pop(0)
            if not isinstance(reached, int) or reached < self.wait_replicas:
                what = f"{reached} of" if isinstance(reached, int) else f"{reached}: fewer than"
                return f"{what} {self.wait_replicas} replicas have it after {self.wait_ms} ms"
        if self.wait_aof:
            synced = left.pop(0)
            if not isinstance(synced, list) or int(synced[0]) < 1:
                return f"the server's disk does not have it after {self.wait_ms} ms"
        return None


def durability_in(url: str) -> tuple[str, Durability]:
    """Split a URL into one without these settings in its query, and the settings. Raises InputError."""
    if not any(f"{name}=" in url for name in _NAMES):
        return url, Durability()
    address, _, query = url.partition("?")
    pairs = parse_qsl(query, keep_blank_values=True)
    given = {name: _number(name, value) for name, value in pairs if name in _NAMES}
    rest = urlencode([pair for pair in pairs if pair[0] not in _NAMES])
    durability = Durability(
        wait_replicas=given.get("wait_replicas", 0),
        wait_ms=given.get("wait_ms", WAIT_MS_DEFAULT),
        wait_aof=bool(given.get("wait_aof", 0)),
    )
    return f"{address}?{rest}" if rest else address, durability


def _number(name: str, value: str) -> int:
    if not value.isdecimal():
        raise InputError(f"`{name}={value}` in the URL is not a whole number")
    return int(value)


def shortcomings(facts: Mapping[str, str], durability: Durability) -> list[str]:
    """Return the reasons for which this server cannot provide the durability. `facts` are those of INFO."""
    if not durability.wait_aof:
        return []
    if facts.get("aof_enabled") == "0":
        return ["wait_aof needs an append-only file, and the server has none; set appendonly yes"]
    if "valkey_version" not in facts and version_of(facts.get("redis_version", "0")) < (7, 2):
        return ["wait_aof needs Redis 7.2 or newer, or a Valkey"]
    return []


class Advice(NamedTuple):
    """A possible loss, and the setting that prevents it."""

    text: str
    hint: str


def advice(facts: Mapping[str, str], durability: Durability) -> list[Advice]:
    """Return what a failover can lose. `facts` are the server's INFO fields, and its CONFIG GET as `config_<name>`."""
    if facts.get("role", "master") != "master":
        return [Advice("this server is a replica", "give the URL of the primary")]
    found = []
    replicas = int(facts.get("connected_slaves", "0"))
    if replicas < durability.wait_replicas:
        lacking = f"grants and allows wait for {durability.wait_replicas}, so each is in doubt"
        found.append(Advice(lacking, "start more replicas"))
    if replicas and not durability.wait_replicas:
        found.append(
            Advice("a failover may lose a grant that was acknowledged", "put wait_replicas=1 into the URL"),
        )
    if replicas and facts.get("config_min-replicas-to-write") == "0":
        cut_off = "a primary that is cut off goes on taking writes that will be lost"
        found.append(Advice(cut_off, "set min-replicas-to-write 1"))
    return found


def version_of(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a server's version."""
    return tuple(int(part) for part in text.split(".")[:2] if part.isdigit())

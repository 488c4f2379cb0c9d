"""Streams changed by somebody with access to the server: damaged, or with a valid chain and invalid values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import redis
from redis.asyncio import Redis

from ledger import Ledger
from ledger.core.commitments import after_entry, commitment_bytes
from ledger.stores.keys import Keys
from ledger.stores.port import StreamKey
from tests.support.servers import RealServer

TOO_LONG_MS: Final = 2**62
TOO_LATE_MS: Final = 2**60

Payload = dict[str, Any]


def forge(url: str, key: str, change: Callable[[Payload], None], shift_ms: int = 0) -> None:
    """Rewrite a stream with other payloads or times, and with a chain that fits them."""
    with redis.Redis.from_url(url) as client:
        found: Any = client.xrange(key)
        client.delete(key)
        before: tuple[int, int, bytes] | None = None
        for entry_id, fields in found:
            ms, version = (int(part) for part in entry_id.split(b"-"))
            payload = json.loads(fields[b"d"])
            change(payload)
            if before is not None:
                payload["prev"] = after_entry(*before)
            written = json.dumps(payload, separators=(",", ":"), ensure_ascii=False).encode()
            client.xadd(key, {**fields, b"d": written}, id=f"{ms + shift_ms}-{version}")
            before = (ms + shift_ms, version, written)


def with_endless_durations(payload: Payload) -> None:
    """A stream with a request that may wait for 146 million years."""
    event = payload["event"]
    if event["type"] == "asked":
        event.update(duration_ms=TOO_LONG_MS, unattended_ms=TOO_LONG_MS, cap_ms=TOO_LONG_MS)


def unchanged(payload: Payload) -> None:
    """Return the payload as it is, for a stream of which only the times are forged."""


def with_an_edit(url: str, key: str) -> None:
    """Edit the first entry under its own id; the chain shows it."""
    with redis.Redis.from_url(url) as client:
        found: Any = client.xrange(key)
        client.delete(key)
        for number, (entry_id, fields) in enumerate(found, 1):
            payload = fields[b"d"] + (b" " if number == 1 else b"")
            client.xadd(key, {**fields, b"d": payload}, id=entry_id)


def person(name: str, **more: str) -> dict[str, str]:
    """Return the actor of a person at the inbox."""
    return {"kind": "person", "name": name, "via": "inbox", **more}


async def append_forged(
    server: RealServer,
    ledger: Ledger,
    stream: StreamKey,
    event: Payload,
    actor: dict[str, str],
    *,
    spelling: tuple[str, str] = ("type", "type"),
) -> None:
    """Append an event with a valid chain; `spelling` is a word in it, and how that is written."""
    last = (await ledger.store.open(stream)).entries[-1]
    content = json.dumps(event["detail"]).encode() if event.get("detail") else None
    payload = {
        "v": 1,
        "id": f"evt_forged_{last.version}",
        "prev": after_entry(last.ms, last.version, last.payload),
        "actor": actor,
        **({} if content is None else {"x": commitment_bytes(content).decode()}),
        "event": {name: value for name, value in event.items() if name != "detail"},
    }
    data = json.dumps(payload, separators=(",", ":")).replace(f'"{spelling[0]}"', f'"{spelling[1]}"')
    fields: dict[Any, Any] = {"d": data} if content is None else {"d": data, "x": content}
    async with Redis.from_url(server.url, protocol=2) as client:
        name = Keys(ledger.store.partition_count).stream(stream)
        await client.xadd(name, fields, id=f"{last.ms + 1}-{last.version + 1}")

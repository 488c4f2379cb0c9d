"""Conversion between replies of a Redis or Valkey server and values of the port."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ledger.core.errors import DamageError, InDoubtError
from ledger.core.events import Presence
from ledger.stores.port import START, Due, Entry, FeedItem, Foreign, Position, StreamInfo, StreamKey
from ledger.stores.redis.link import Argument
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.values import RawEntry

NO_SUCH_KEY: Final = "no such key"
"""The words of XINFO's refusal where nothing has the key."""

_NONE_DELETED: Final = str(START)
_OTHERS: Final = "something else writes to this key"


def beside_of(key: StreamKey, reply: Any) -> tuple[Entry, ...]:
    """Return the entries of the stream that was read with an append. Raises InDoubtError if the read was refused."""
    if isinstance(reply, Refusal):
        raise InDoubtError(
            f"{key.kind} `{key.id}` could not be read with the append ({reply}): ask again with the same request id"
        ) from reply
    try:
        return entries_of(reply)
    except Foreign as error:
        raise DamageError(f"stream `{key.name}`: {error.text}", stream=key.name) from error


def due_arguments(due: Due | str) -> tuple[str, Argument]:
    if isinstance(due, str):
        return "no", ""
    if due.ms is None:
        return "at", "inf"
    return ("in" if due.relative else "at"), due.ms


def entries_of(reply: Any) -> tuple[Entry, ...]:
    """Return the entries of a reply. Raises Foreign for one with other fields than `d`, or `d` and `x`."""
    entries = []
    # The class's own constructor takes a third longer, for each entry of every pass.
    new = tuple.__new__
    for entry_id, fields in reply or ():
        ms, _, version = entry_id.partition(b"-")
        if len(fields) == 4 and fields[0] == b"d" and fields[2] == b"x":
            entries.append(new(Entry, (int(ms), int(version), fields[1], fields[3])))
        elif len(fields) == 2 and fields[0] == b"d":
            entries.append(new(Entry, (int(ms), int(version), fields[1], None)))
        else:
            other = f"entry {entry_id.decode()} has other fields than `d` and `x`: {_OTHERS}"
            raise Foreign(other, tuple(RawEntry(one.decode(), _in_pairs(own)) for one, own in reply))
    return tuple(entries)


def info_of(reply: Any, size: int | None = None) -> StreamInfo | None:
    if isinstance(reply, Refusal):
        if NO_SUCH_KEY in str(reply):
            return None
        raise refusal_of(reply) from reply
    facts = dict(zip(reply[::2], reply[1::2], strict=True))
    max_deleted = facts[b"max-deleted-entry-id"].decode()
    return StreamInfo(
        length=int(facts[b"length"]),
        entries_added=int(facts[b"entries-added"]),
        last=Position.parse(facts[b"last-generated-id"].decode()),
        max_deleted=START if max_deleted == _NONE_DELETED else Position.parse(max_deleted),
        size_bytes=size,
    )


def lease_of(client: Presence) -> bytes:
    """Return the member of a client's lease."""
    return f"{client.client_id}\n{client.name}".encode()


def clients_of(members: Sequence[bytes]) -> tuple[Presence, ...]:
    """Return the clients of leases. Bytes of another program must not stop whoever looks who is there."""
    pairs = [member.decode(errors="replace").partition("\n") for member in members]
    return tuple([Presence(client_id, name) for client_id, _, name in pairs])


def score_of(reply: bytes) -> float:
    return float(reply)


def refused_with(reply: Any, code: str) -> bool:
    return isinstance(reply, Refusal) and reply.code == code


def feed_item_of(partition: int, line: Any) -> FeedItem:
    entry_id, fields = line
    values = {fields[i]: fields[i + 1] for i in range(0, len(fields), 2)}
    key = StreamKey.parse(values[b"s"].decode())
    return FeedItem(f"{partition}/{entry_id.decode()}", key, int(values[b"v"]), is_move=b"m" in values)


def pairs_of(flat: Any) -> dict[str, Any]:
    """Return the values of a flat reply by their names."""
    return {name.decode(): value for name, value in _in_pairs(flat)}


def _in_pairs(flat: Any) -> tuple[tuple[bytes, Any], ...]:
    return tuple(zip(flat[::2], flat[1::2], strict=True))

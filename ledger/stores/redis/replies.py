"""Conversion between replies of a Redis or Valkey server and values of the port; refusals, with the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from ledger.core.errors import DamageError, InDoubtError, LedgerError, SetupError, StoreError
from ledger.core.events import Presence
from ledger.stores.port import START, Due, Entry, FeedItem, Foreign, Position, RawEntry, StreamInfo, StreamKey

_LOG_IN_HINT: Final = "correct USER:PASSWORD in --url or PERMISSION_LEDGER_URL; it stands between `//` and `@`"

_ADMINISTRATORS: Final = (
    "use an administrator's user in --url: docs/guides/operating.md lists the rights that redaction and sealing need"
)

_HINTS: Final = {
    "NOAUTH": _LOG_IN_HINT,
    "WRONGPASS": _LOG_IN_HINT,
    "NOPERM": "give this user the rights that docs/guides/operating.md lists, or another user in the URL",
    "OOM": "raise maxmemory on the server",
    "MISCONF": "free space on the server's disk",
    "READONLY": "give the URL of the primary",
    "MOVED": "write `redis+cluster://` in the URL",
    "NOREPLICAS": "start the server's replicas, or lower min-replicas-to-write",
}

_SETUP = {
    "NOAUTH": "the server wants a password; put it into the URL",
    "WRONGPASS": "the server does not take this user name or password",
    "NOPERM": "the server does not let this user run what the ledger needs",
    "OOM": "the server has no memory left; raise maxmemory (nothing that was accepted is lost)",
    "MISCONF": "the server cannot write to its disk and takes no more writes; free space there",
    "READONLY": "this server is a read-only replica; give the URL of the primary",
    "MOVED": "this server is one node of a cluster; write redis+cluster:// in the URL",
    "NOREPLICAS": "the server has fewer replicas than min-replicas-to-write demands",
}

_PASSING = {
    "LOADING": "the server is still loading its data; try again in a moment",
    "BUSY": "the server is busy with a script; try again in a moment",
    "MASTERDOWN": "the server has lost its primary; try again in a moment",
}


_FULL: Final = "ERR max number of clients"


class Refusal(Exception):  # noqa: N818 - a reply among others
    """A server's refusal of a command, with the text of its reply."""

    @property
    def code(self) -> str:
        """Return the first word of the reply."""
        return str(self).partition(" ")[0]

    @property
    def sends_away(self) -> bool:
        """Return whether the server accepts no commands over this connection."""
        return self.code == "LOADING" or str(self).startswith(_FULL)

    @property
    def will_pass(self) -> bool:
        """Return whether to try again: the server is not ready yet, or has too many clients."""
        return self.sends_away or self.code in _PASSING

    @property
    def redirection(self) -> tuple[int, str, int]:
        """Return the slot, host and port of MOVED or ASK; the host may be empty."""
        _, slot, address = str(self).split(" ")
        host, _, port = address.rpartition(":")
        return int(slot), host, int(port)


def refusal_of(error: Refusal) -> LedgerError:
    """Return the error to raise for a server's refusal, which quotes it."""
    text = str(error)
    word = error.code
    if word == "WRONGTYPE":
        return DamageError(f"a key of the ledger holds something else: {text}; something else writes to this server")
    if word in _SETUP:
        return SetupError(f"{_SETUP[word]} (it said: {text})", hint=_HINTS[word])
    if word in _PASSING:
        return StoreError(f"{_PASSING[word]} (it said: {text})")
    return StoreError(f"the server refused: {text}")


def accepted(reply: Any) -> Any:
    """Return a reply. Raises the error of a refusal."""
    if isinstance(reply, Refusal):
        raise refusal_of(reply) from reply
    return reply


def right_refused(error: Refusal, purpose: str) -> SetupError | None:
    """Return the error for a right that a script's user lacks; None for another refusal."""
    # Inside a script the refusal of a command has no code of its own.
    text = str(error)
    if error.code == "NOPERM" or "ACL failure" in text or "can't run this command" in text:
        return SetupError(f"the server does not let this user {purpose} (it said: {text})", hint=_ADMINISTRATORS)
    return None


NO_SUCH_KEY: Final = "no such key"
"""The words of XINFO's refusal where nothing has the key."""

_NONE_DELETED: Final = str(START)
_OTHERS: Final = "something else writes to this key"


def also_read_of(key: StreamKey, reply: Any) -> tuple[Entry, ...]:
    """Return the entries of the stream that was read with an append. Raises InDoubtError if the read was refused."""
    if isinstance(reply, Refusal):
        raise InDoubtError(
            f"{key.kind} `{key.id}` could not be read with the append ({reply}): ask again with the same request id"
        ) from reply
    try:
        return entries_of(reply)
    except Foreign as error:
        raise DamageError(f"stream `{key.name}`: {error.text}", stream=key.name) from error


def due_arguments(due: Due | str) -> tuple[str, str | int]:
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

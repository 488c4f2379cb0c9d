"""All streams page by page, with a cursor that outlives the process."""

from __future__ import annotations

from typing import Final, NamedTuple

from ledger.core.errors import InputError
from ledger.stores.port import StreamKey
from ledger.stores.redis.commands import RetriedCommands

_PARTS_COUNT: Final = 3
_DIGITS_MAX: Final = 20


class _Cursor(NamedTuple):
    """The place in a pass over all keys: a server by its number, its run, and the cursor of its SCAN."""

    server: int = 0
    run: str = ""
    at: str = "0"

    @classmethod
    def parse(cls, text: str) -> _Cursor:
        """Raises InputError for a text that is no cursor."""
        if not text:
            return cls()
        parts = text.split("/")
        if len(parts) != _PARTS_COUNT or not all(one.isdecimal() and len(one) <= _DIGITS_MAX for one in parts[::2]):
            raise InputError(f"`{text[:80]}` is not a cursor that was handed out")
        return cls(int(parts[0]), parts[1], parts[2])

    def __str__(self) -> str:
        return "/".join(map(str, self))


async def streams_page(store: RetriedCommands, cursor: str, count: int) -> tuple[list[StreamKey], str]:
    """See `ledger.stores.admin.Admin.streams_page`."""
    place, servers = _Cursor.parse(cursor), await store.everywhere()
    if place.server >= len(servers):
        place = _Cursor()
    server = servers[place.server]
    run = _run_in(await store.command_at(server, "INFO", "server"))
    # The cursor of a SCAN holds for one run of a server.
    at = place.at if place.run == run else "0"
    words = ("MATCH", store.keys.stream_glob(), "COUNT", count, "TYPE", "stream")
    reply, names = await store.command_at(server, "SCAN", at, *words)
    keys = [key for name in dict.fromkeys(names) if (key := store.keys.parse_stream(name.decode())) is not None]
    if reply != b"0":
        return keys, str(_Cursor(place.server, run, reply.decode()))
    return keys, str(_Cursor(place.server + 1)) if place.server + 1 < len(servers) else ""


def _run_in(info: bytes) -> str:
    for line in info.decode(errors="replace").splitlines():
        if line.startswith("run_id:"):
            return line.partition(":")[2]
    return ""

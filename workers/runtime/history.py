"""The comparison of a server with what this machine last saw there, so that lost history is reported.

A file of the data folder holds the last entry of some streams: of the one that each partition's feed names last, and of
tokens and freezes: it costs the same in a ledger of any size. Sealing, restoring, redaction and import keep all ids.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from hashlib import sha256
from typing import Final, NamedTuple

import msgspec

from ledger.access.freeze import FREEZE_ID
from ledger.access.state import ACCESS_ID
from ledger.core.errors import DamageError, LedgerError
from ledger.core.regular_files import private_file, read_regular
from ledger.core.times import format_time
from ledger.log.tail import raw_page
from ledger.stores.port import START, Position, StreamKey
from ledger.stores.store import Store
from ledger.stores.urls import default_home, redact
from workers.runtime.place import LedgerPlace

log = logging.getLogger(__name__)

LOOK_SECONDS: Final = 60.0
LAST_LOOK_SECONDS: Final = 2.0
"""The interval of comparisons, and the time limit of the one at the end of a process."""

FILE_BYTES_MAX: Final = 1024 * 1024

Heads = dict[StreamKey, Position]


class Comparison(NamedTuple):
    """The result of a comparison; `hint` says what to do about a fault."""

    ok: bool
    text: str
    hint: str | None = None


class _Seen(msgspec.Struct, frozen=True):
    """The content of the file: when the server was seen (ms of this machine), and the last entries by stream."""

    server: str
    seen_ms: int
    heads: dict[str, str]


async def compare_history(store: Store, place: LedgerPlace) -> Comparison | None:
    """Compare a server with the file, and note there what it holds now; None in memory. Raises StoreError."""
    if place.url.startswith("memory://"):
        return None
    server = str(place.folder or redact(place.url))
    file = (place.folder or default_home()) / f"history-{sha256(server.encode()).hexdigest()[:12]}.json"
    seen, known, fault = _Seen(server, 0, {}), Heads(), None
    try:
        seen = msgspec.json.decode(read_regular(file, FILE_BYTES_MAX), type=_Seen)
        known = {StreamKey.parse(name): Position.parse(head) for name, head in seen.heads.items()}
    except FileNotFoundError:
        pass
    except (OSError, ValueError) as error:
        fault = f"`{file}`, which tells what this machine saw before, cannot be read: {error}"
    try:
        gone, heads = await _compared(store, known)
    except DamageError as error:
        return Comparison(False, f"history cannot be compared: {error.text}", "`permission-ledger verify --all`")
    if gone:
        some = f"{len(gone)} of {len(known)} streams, such as `{gone[0].name}`"
        text = f"HISTORY IS GONE from `{server}`: {some}, are missing or shorter than at {format_time(seen.seen_ms)}"
        return Comparison(False, text, f"bring the server's files back; if it was emptied on purpose, remove `{file}`")
    try:
        if heads != known:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            now = _Seen(server, time.time_ns() // 1_000_000, {key.name: str(at) for key, at in heads.items()})
            with private_file(file) as written:
                written.write(msgspec.json.encode(now))
    except OSError as error:
        fault = f"`{file}` cannot be written, so that lost history would not be noticed: {error.strerror}"
    if fault is not None:
        return Comparison(True, fault, "name a data folder that this process may write (PERMISSION_LEDGER_HOME)")
    return Comparison(True, f"all {len(known)} streams that this machine knew are there; {len(heads)} are noted")


@asynccontextmanager
async def watched_history(store: Store, place: LedgerPlace) -> AsyncIterator[None]:
    """Compare at once, at intervals while the block runs, and at its end; log each thing found once."""
    logged: set[str] = set()

    async def look() -> None:
        with suppress(LedgerError):  # the server is away, or a stream is being moved: the next look compares
            found = await compare_history(store, place)
            if found is not None and found.hint is not None and found.text not in logged:
                logged.add(found.text)
                log.log(logging.WARNING if found.ok else logging.ERROR, "%s; %s", found.text, found.hint)

    async def watch() -> None:
        while True:
            await look()
            await asyncio.sleep(LOOK_SECONDS)

    watching = asyncio.create_task(watch(), name="watch history")
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        with suppress(TimeoutError):
            async with asyncio.timeout(LAST_LOOK_SECONDS):
                await look()


async def _compared(store: Store, known: Heads) -> tuple[list[StreamKey], Heads]:
    """Return the streams that do not hold what is known of them, open or sealed; and the last entries to note."""
    access = (StreamKey("access", ACCESS_ID), StreamKey("access", FREEZE_ID))
    newest = (*(one.last.key for one in await store.feeds() if one.last is not None), *access)
    keys = list(dict.fromkeys((*known, *newest)))
    heads = dict(zip(keys, await store.heads(keys), strict=True))

    gone = []
    for key, at in known.items():
        head, seal = heads[key]
        if head == at or (seal and head.version >= at.version):
            continue
        found = () if seal else await raw_page(store, key, Position(at.ms, at.version - 1), 1)
        if [one.id for one in found] != [str(at)]:
            gone.append(key)
    return gone, {key: heads[key].at for key in newest if heads[key].at != START}

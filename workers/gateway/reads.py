"""Records of reads at a gateway, written without delaying any answer.

Reads are gathered in memory and written every few seconds. The same read within that time increases a count; views of
one session by one person within ten minutes are one read. Each kind has a limit; reads beyond it are only counted.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from contextlib import suppress
from typing import Final

import msgspec

from ledger.core.errors import LedgerError
from ledger.log.reads import KINDS, AuditedRead, ReadKind, record
from ledger.stores.store import Store
from workers.gateway.principals import Principal

log = logging.getLogger(__name__)

FLUSH_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 3.0
GATHERED_COUNT_MAX: Final = 256
"""Distinct reads of one kind between two writes; there are five kinds."""

LOOK_AGAIN_SECONDS: Final = 600.0
LOOKS_COUNT_MAX: Final = 10_000
OTHERS: Final = "others, too many at once to name"


class Reads:
    """The records of one gateway."""

    def __init__(self, store: Store, kept_ms: int) -> None:
        self._store = store
        self._kept_ms = kept_ms
        self._gathered: dict[ReadKind, Counter[AuditedRead]] = {kind: Counter() for kind in KINDS}
        self._looks: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._writing: asyncio.Task[None] | None = None
        self._turn = asyncio.Lock()
        self._closing = asyncio.Event()

    def note(self, read: AuditedRead) -> None:
        """Gather a read; it is written soon."""
        gathered = self._gathered[read.kind]
        if read not in gathered and len(gathered) >= GATHERED_COUNT_MAX:
            read = AuditedRead(kind=read.kind, what=OTHERS)
        gathered[read] += 1
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write_soon(), name="record reads")

    def look(self, principal: Principal, session: str) -> None:
        """Gather a view of a session by a person or an auditor. Reads of an agent are not recorded."""
        if principal.role == "agent":
            return
        key, now = (principal.caller, session), asyncio.get_running_loop().time()
        if now - self._looks.get(key, -LOOK_AGAIN_SECONDS) < LOOK_AGAIN_SECONDS:
            return
        self._looks[key] = now
        self._looks.move_to_end(key)
        if len(self._looks) > LOOKS_COUNT_MAX:
            self._looks.popitem(last=False)
        self.note(_by(principal, "look", session))

    async def flush(self) -> None:
        """Write what was gathered. It is lost if the server does not answer: nobody waits for it."""
        async with self._turn:
            await self._write()

    async def _write(self) -> None:
        reads = tuple(
            msgspec.structs.replace(read, count=count)
            for gathered in self._gathered.values()
            for read, count in gathered.items()
        )
        for gathered in self._gathered.values():
            gathered.clear()
        if not reads:
            return
        try:
            await record(self._store, reads, self._kept_ms)
        except LedgerError as error:
            log.warning("%s reads were not recorded: %s", len(reads), error)

    async def _write_soon(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(FLUSH_SECONDS):
                await self._closing.wait()
        await self.flush()

    async def close(self) -> None:
        """Write the rest, within a short time limit."""
        self._closing.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                if self._writing is not None:
                    await self._writing
                await self.flush()


def _by(principal: Principal, kind: ReadKind, session: str) -> AuditedRead:
    return AuditedRead(
        kind=kind,
        name=principal.name,
        role=principal.role,
        token_id=principal.token_id,
        via=principal.via,
        session=session,
    )

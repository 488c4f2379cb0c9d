"""Sealing of streams on a Redis or Valkey server: a stub takes a stream's place, and the stream that of its stub."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Final

from ledger.core.errors import LedgerError, StoreError
from ledger.core.limits import FEED_LENGTH_COUNT
from ledger.stores.port import START, Due, Entry, Position, StreamKey
from ledger.stores.redis.appends import Appends
from ledger.stores.redis.link import Argument
from ledger.stores.redis.rewrites import ATTEMPTS_MAX, COPY_LIVES_MS, SLICE_BYTES, SLICE_COUNT
from ledger.stores.redis.script import Script
from ledger.stores.sealed import CLOSED_MS, SEALING_MS, Seal, check_entries, check_sealable, encode_seal

_COPY_AGAIN: Final = 2


class Stubs(Appends):
    """Stubs in the place of streams, and entries under their own ids."""

    async def seal(self, key: StreamKey, seal: Seal, old: Seal | None = None) -> bool:
        check_sealable(key)
        keys, partition = self.keys, self.partition_of(key)
        done = await self.run_confirmed(
            self.append_calls.clocked("seal.lua"),
            (
                keys.stream(key),
                keys.sealing(partition, key.name),
                keys.due(partition),
                keys.feed(partition),
                keys.closed_file(partition, seal.file),
            ),
            (
                *encode_seal(seal),
                *(("", "") if old is None else encode_seal(old)),
                str(seal.head),
                key.name,
                key.id,
                FEED_LENGTH_COUNT,
                seal.sealed_ms + SEALING_MS,
                "" if old is None or old.head == seal.head else keys.channel(partition),
                *self.append_calls.clock_arguments(),
            ),
            partition=partition,
            purpose="seal a stream" if old is None else "move a sealed stream to another file",
        )
        return bool(done)

    async def close_file(self, keys: Sequence[StreamKey], file: str) -> None:
        for partition in sorted({self.partition_of(key) for key in keys}):
            await self.run_confirmed(
                Script.named("close_file.lua"),
                (self.keys.closed_file(partition, file),),
                (CLOSED_MS,),
                partition=partition,
                purpose="close a file of the archive",
            )

    async def unseal(self, key: StreamKey, seal: Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        check_entries(key, seal, entries)
        unsealing = _Unsealing(self, key, seal, entries)
        try:
            for _ in range(ATTEMPTS_MAX):
                # Without its stub there is nothing to copy for; who was first is found out by the last step alone.
                if await self.seals([key]) == [seal]:
                    await unsealing.copy()
                reply = await unsealing.finish(due)
                if reply != _COPY_AGAIN:
                    return bool(reply)
        finally:
            await unsealing.close()
        raise StoreError(f"stream `{key.name}` could not be copied in {ATTEMPTS_MAX} attempts; try again")

    async def restore(self, key: StreamKey, after: Position, entries: Sequence[Entry], due: Due | None) -> bool:
        partition, keys = self.partition_of(key), self.keys
        score: Argument = "" if due is None else "inf" if due.ms is None else due.ms
        arguments: list[Argument] = [str(after), score, key.name, key.id, keys.channel(partition), FEED_LENGTH_COUNT]
        for entry in entries:
            arguments += [str(entry.position), entry.payload, entry.content or ""]
        names = (keys.stream(key), keys.due(partition), keys.feed(partition))
        return bool(await self.evaluate_on(key, Script.named("restore.lua"), names, arguments))


class _Unsealing:
    """The entries of one sealed stream, written beside its stub piece by piece, and put in its place in one step."""

    def __init__(self, store: Appends, key: StreamKey, seal: Seal, entries: Sequence[Entry]) -> None:
        keys, self._partition = store.keys, store.partition_of(key)
        self._store = store
        self._key = key
        self._seal = seal
        self._entries = entries
        self._copy = keys.sealing(self._partition, token_hex(8))
        self._copies = Script.named("unseal_copy.lua")

    async def copy(self) -> None:
        """Write what the copy lacks; a copy that ends meanwhile is found too short by the last step."""
        copied = START
        for some in _slices(self._entries):
            if some[-1].position <= copied:
                continue
            arguments: list[Argument] = [str(copied), COPY_LIVES_MS]
            for entry in some:
                arguments += [str(entry.position), entry.payload, entry.content or ""]
            reply = await self._store.evaluate(self._copies, (self._copy,), arguments)
            copied = Position.parse(reply.decode())
            if copied < some[-1].position:
                return

    async def finish(self, due: Due | None) -> int:
        keys, key, last = self._store.keys, self._key, self._entries[-1]
        score: Argument = "" if due is None else "inf" if due.ms is None else due.ms
        reply: int = await self._store.run_confirmed(
            Script.named("unseal.lua"),
            (keys.stream(key), self._copy, keys.due(self._partition), keys.feed(self._partition)),
            (
                *encode_seal(self._seal),
                str(self._seal.head),
                last.payload,
                len(self._entries),
                score,
                key.name,
                key.id,
                keys.channel(self._partition),
                FEED_LENGTH_COUNT,
            ),
            partition=self._partition,
            purpose="bring back a sealed stream",
        )
        return reply

    async def close(self) -> None:
        # The copy has a TTL, so that a failure here leaves nothing behind for ever.
        with suppress(LedgerError):
            await self._store.command("UNLINK", self._copy)


def _slices(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Iterate over entries in slices that one call writes, because the server does nothing else meanwhile."""
    some: list[Entry] = []
    size_bytes = 0
    for entry in entries:
        entry_bytes = len(entry.payload) + len(entry.content or b"")
        if some and (len(some) == SLICE_COUNT or size_bytes + entry_bytes > SLICE_BYTES):
            yield some
            some, size_bytes = [], 0
        some.append(entry)
        size_bytes += entry_bytes
    if some:
        yield some

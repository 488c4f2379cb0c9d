"""Sealing and rewriting of streams on a Redis or Valkey server.

A stub takes a stream's place, the stream that of its stub, and a copy in the same slot that of a stream which loses
some content.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final

from ledger.core.errors import LedgerError, StoreError
from ledger.core.limits import CONFLICT_TAIL_COUNT, FEED_LENGTH_COUNT, GIVE_UP_SECONDS
from ledger.stores.port import START, Append, AppendResult, Due, Entry, Position, StreamKey
from ledger.stores.redis.appends import Appends
from ledger.stores.redis.commands import Attempts, in_doubt
from ledger.stores.redis.link import Argument, Script
from ledger.stores.redis.replies import Refusal, refusal_of, right_refused
from ledger.stores.sealed import CLOSED_MS, SEALING_MS, Seal, check_entries, check_sealable, encode_seal
from ledger.stores.store import Following

SLICE_COUNT: Final = 250
SLICE_BYTES: Final = 1024 * 1024
"""Bounds of what one call copies, because the server does nothing else meanwhile."""

COPY_LIVES_MS: Final = 120_000
"""The TTL of a copy after each slice; one that nobody finishes ends by itself."""

LOOK_SECONDS: Final = 0.05

ATTEMPTS_MAX: Final = 8
"""Copies that were lost, or found too short, before an error."""

_COPY_ON: Final = 5


class Rewriting(Appends):
    """Streams without some of their content, put in the place of the old ones."""

    async def rewrite(self, key: StreamKey, versions: Sequence[int], following: Following) -> None:
        rewriting, result = _Rewrite(self, key, versions), None
        try:
            while (append := await following(result)) is not None:
                result = await rewriting.finish(append)
        finally:
            await rewriting.close()


class _Rewrite:
    """The copy of one stream, written piece by piece, and put in its place in one step."""

    def __init__(self, store: Appends, key: StreamKey, versions: Sequence[int]) -> None:
        keys, partition = store.keys, key.partition(store.partition_count)
        self._store = store
        self._key = key
        self._versions = versions
        self._stream = keys.stream(key)
        self._holder = token_hex(8)
        self._copy = keys.redaction(partition, self._holder)
        self._lease = keys.redaction(partition, key.name)
        self._feed = keys.feed(partition)
        self._channel = keys.channel(partition)
        self._copied = START
        self._give_up = 0.0
        self._copies = Script.named("redact_copy.lua")
        self._finishes = store.append_calls.clocked("redact.lua")

    async def finish(self, append: Append) -> AppendResult:
        self._give_up = asyncio.get_running_loop().time() + GIVE_UP_SECONDS
        for _ in range(ATTEMPTS_MAX):
            await self._copy_until(append.after.version)
            reply = await self._finish(append)
            if reply[0] != _COPY_ON:
                return self._store.append_calls.answer(reply)
            self._copied = Position.parse(reply[2].decode())
        raise StoreError(f"stream `{self._key.name}` could not be copied in {ATTEMPTS_MAX} attempts; try again")

    async def close(self) -> None:
        # The copy has a TTL, so that a failure here leaves nothing behind.
        with suppress(LedgerError):
            await self._store.command("UNLINK", self._copy)
            if await self._store.command("GET", self._lease) == self._holder.encode():
                await self._store.command("DEL", self._lease)

    async def _copy_until(self, version: int) -> None:
        """Copy slices until a version is copied, or nothing is left."""
        while self._copied.version < version:
            before = self._copied
            last = min(before.version + SLICE_COUNT, version)
            first, end = bisect_right(self._versions, before.version), bisect_right(self._versions, last)
            reply = await self._run(
                self._copies,
                (self._stream, self._copy, self._lease),
                (str(before), last, SLICE_COUNT, SLICE_BYTES, COPY_LIVES_MS, self._holder, *self._versions[first:end]),
            )
            if not reply:
                await self._wait_for_the_other()
                continue
            self._copied = Position.parse(reply.decode())
            if self._copied == before:
                return

    async def _wait_for_the_other(self) -> None:
        if asyncio.get_running_loop().time() > self._give_up:
            raise StoreError(f"stream `{self._key.name}` is being redacted by another process; try again")
        await asyncio.sleep(LOOK_SECONDS)

    async def _finish(self, append: Append) -> Any:
        ((payload, content),) = append.payloads
        return await self._run(
            self._finishes,
            (self._stream, self._copy, self._lease, self._feed),
            (
                append.after.ms,
                append.after.version,
                self._versions[-1],
                CONFLICT_TAIL_COUNT,
                self._key.name,
                self._channel,
                payload,
                content or "",
                self._holder,
                *self._store.append_calls.clock_arguments(),
            ),
        )

    async def _run(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run a script; both may be sent again after a lost reply."""
        attempts = Attempts()
        reply = (await self._store.patiently(lambda: self._store.run_now(script, keys, arguments), attempts))[0]
        if isinstance(reply, Refusal):
            if attempts.lost:
                raise in_doubt(str(reply)) from reply
            sealed = await self._store.refused_by_stub(self._key, reply)
            raise sealed or right_refused(reply, "rewrite a stream") or refusal_of(reply) from reply
        return reply


_COPY_AGAIN: Final = 2


class Stubs(Appends):
    """Stubs in the place of streams, and entries under their own ids."""

    async def seal(self, key: StreamKey, seal: Seal, old: Seal | None = None) -> bool:
        check_sealable(key)
        keys, partition = self.keys, key.partition(self.partition_count)
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
        for partition in sorted({key.partition(self.partition_count) for key in keys}):
            await self.run_confirmed(
                Script.named("close_file.lua"),
                (self.keys.closed_file(partition, file),),
                (CLOSED_MS,),
                partition=partition,
                purpose="close a file of the archive",
            )

    async def _unseal(self, key: StreamKey, seal: Seal, entries: Sequence[Entry], due: Due | None) -> bool:
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

    async def restore(self, key: StreamKey, after: Position | Seal, entries: Sequence[Entry], due: Due | None) -> bool:
        if isinstance(after, Seal):
            return await self._unseal(key, after, entries, due)
        partition, keys = key.partition(self.partition_count), self.keys
        score: Argument = "" if due is None else "inf" if due.ms is None else due.ms
        arguments: list[Argument] = [str(after), score, key.name, key.id, keys.channel(partition), FEED_LENGTH_COUNT]
        for entry in entries:
            arguments += [str(entry.position), entry.payload, entry.content or ""]
        names = (keys.stream(key), keys.due(partition), keys.feed(partition))
        return bool(await self.evaluate_on(key, Script.named("restore.lua"), names, arguments))


class _Unsealing:
    """The entries of one sealed stream, written beside its stub piece by piece, and put in its place in one step."""

    def __init__(self, store: Appends, key: StreamKey, seal: Seal, entries: Sequence[Entry]) -> None:
        keys, self._partition = store.keys, key.partition(store.partition_count)
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

"""Rewrites of streams on a Redis or Valkey server, by a copy in the same slot that takes the stream's place."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from secrets import token_hex
from typing import Any, Final

from ledger.core.errors import LedgerError, StoreError
from ledger.core.limits import CONFLICT_TAIL_COUNT, GIVE_UP_SECONDS
from ledger.stores.port import START, Append, AppendResult, Following, Position, StreamKey
from ledger.stores.redis.appends import Appends
from ledger.stores.redis.commands import Attempts, in_doubt
from ledger.stores.redis.link import Argument
from ledger.stores.redis.refusals import Refusal, refusal_of, right_refused
from ledger.stores.redis.script import Script

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
        keys, partition = store.keys, store.partition_of(key)
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

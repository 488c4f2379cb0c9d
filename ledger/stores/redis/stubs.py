"""Stubs of sealed streams on a Redis or Valkey server: a hash of two fields under the stream's own key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

from ledger.core.errors import LedgerError
from ledger.stores.port import StreamKey
from ledger.stores.redis.commands import RetriedCommands
from ledger.stores.redis.link import Argument, CommandLine
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.replies import refused_with
from ledger.stores.redis.script import Script
from ledger.stores.sealed import Seal, Stub, broken_stub, decode_seal, sealed_error

_FIELDS: Final = {b"seal", b"file"}
"""The fields of a stub, also in `seal.lua`, `unseal.lua` and `correct_due.lua`.

A small hash whose values have at most 64 bytes each takes the least memory.
"""

LOOKS_MAX: Final = 3
"""Reads of a key that is a stub to one command and a stream to the next, because it is brought back meanwhile."""


class Stubs(RetriedCommands):
    """The stubs of sealed streams, and what they make of a refused command."""

    async def seals(self, keys: Sequence[StreamKey]) -> list[Seal | None]:
        replies = await self.ask_each([("HGETALL", self.keys.stream(key)) for key in keys])
        return [_seal_in(key, reply) for key, reply in zip(keys, replies, strict=True)]

    async def sealed_streams(self) -> AsyncIterator[StreamKey]:
        async for name in self.scan(self.keys.sealable_glob(), "TYPE", "hash"):
            key = self.keys.parse_stream(name)
            if key is not None:
                yield key

    async def refused_by_stub(self, key: StreamKey, refusal: Refusal) -> LedgerError | None:
        """Return the error for a refused command on a stream's key if a stub is there; None if none is."""
        if not refused_with(refusal, "WRONGTYPE"):
            return None
        (seal,) = await self.seals([key])
        return None if seal is None else sealed_error(key, seal)

    async def ask_of_streams(
        self, wanted: Sequence[tuple[StreamKey, CommandLine]], *, let_through: str | None = None
    ) -> list[Any]:
        """As `ask`, each command on a stream's key. Raises SealedError where a stub is there.

        A refusal in the words `let_through` is returned as a reply.
        """
        look = 0
        while True:
            look += 1
            replies = await self.ask_each([command for _, command in wanted])
            refusals = [
                (key, reply)
                for (key, _), reply in zip(wanted, replies, strict=True)
                if isinstance(reply, Refusal) and (let_through is None or let_through not in str(reply))
            ]
            if not refusals:
                return replies
            error = await self.refused_by_stub(*refusals[0])
            # Without a stub the stream may just have been brought back: it is read again.
            if error is not None or look == LOOKS_MAX or not refused_with(refusals[0][1], "WRONGTYPE"):
                raise error or refusal_of(refusals[0][1]) from refusals[0][1]

    async def evaluate_on(
        self, key: StreamKey, script: Script, keys: Sequence[str], arguments: Sequence[Argument]
    ) -> Any:
        """As `evaluate`, of a script on a stream. Raises SealedError where a stub is there."""
        reply = (await self.patiently(lambda: self.run_now(script, keys, arguments)))[0]
        if isinstance(reply, Refusal):
            raise await self.refused_by_stub(key, reply) or refusal_of(reply) from reply
        return reply


def _seal_in(key: StreamKey, reply: Any) -> Seal | None:
    """Return the seal in what HGETALL replies; no hash is no seal."""
    if refused_with(reply, "WRONGTYPE"):
        return None
    if isinstance(reply, Refusal):
        raise refusal_of(reply) from reply
    if not reply:
        return None
    fields = dict(zip(reply[::2], reply[1::2], strict=True))
    if fields.keys() != _FIELDS:
        raise broken_stub(key, "it has other fields than `seal` and `file`")
    return decode_seal(key, Stub(fields[b"seal"], fields[b"file"]))

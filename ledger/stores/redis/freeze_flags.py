"""The flags of freezes on Redis or Valkey servers, one in each partition, which the append script checks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from ledger.stores.port import FreezeFlag, Position
from ledger.stores.redis.appends import Appends
from ledger.stores.redis.link import Argument, CommandLine
from ledger.stores.redis.refusals import Refusal, refusal_of
from ledger.stores.redis.script import Script

_FREEZE: Final = Script.named("freeze.lua")

_OWN_FIELDS: Final = (b"at", b"server")


class FreezeFlags(Appends):
    """The flag of each partition: the freezes in force, as of an entry of the stream of freezes."""

    async def set_flags(self, flag: FreezeFlag, server: str | None = None) -> list[Position]:
        arguments: list[Argument] = [flag.at.ms, flag.at.version, server or ""]
        for reach, freeze in flag.freezes.items():
            arguments += [reach, freeze]
        calls = [_FREEZE.call([self.keys.freeze(one)], arguments) for one in range(self.partition_count)]
        replies = await self._flagged(calls)
        return [Position.parse(reply.decode()) for reply in _accepted(replies)]

    async def _flagged(self, calls: Sequence[CommandLine]) -> list[Any]:
        """Run the script in every partition, with the confirmation that `Durability` asks for."""
        waits = self._durability.commands()
        if not waits:
            return await self.evaluate_each(_FREEZE, calls)
        return await asyncio.gather(*(self._confirmed(call, waits) for call in calls))

    async def _confirmed(self, call: CommandLine, waits: Sequence[CommandLine]) -> Any:
        replies = await self.patiently(lambda: self.run_loaded((call, *waits), _FREEZE, self._sure_link))
        if not isinstance(replies[0], Refusal):
            self._check_sure(replies[1:])
        return replies[0]

    async def flags(self) -> list[FreezeFlag | None]:
        wanted = [("HGETALL", self.keys.freeze(one)) for one in range(self.partition_count)]
        servers = {_server_in(info) for info in await self.at_each_server("INFO", "replication")}
        return [_flag_of(reply, servers) for reply in _accepted(await self.ask_each(wanted))]


def _server_in(info: bytes) -> bytes:
    """Return a server's identity, which is new after each start and promotion, from its INFO."""
    lines = dict(line.split(b":", 1) for line in info.splitlines() if b":" in line)
    return lines.get(b"master_replid", b"")


def _flag_of(flat: Sequence[bytes], servers: set[bytes]) -> FreezeFlag | None:
    fields = {flat[i]: flat[i + 1] for i in range(0, len(flat), 2)}
    if not fields:
        return None
    freezes = {name.decode(): text for name, text in fields.items() if name not in _OWN_FIELDS}
    return FreezeFlag(Position.parse(fields[b"at"].decode()), freezes, fields.get(b"server") in servers)


def _accepted(replies: Sequence[Any]) -> Sequence[Any]:
    for reply in replies:
        if isinstance(reply, Refusal):
            raise refusal_of(reply) from reply
    return replies

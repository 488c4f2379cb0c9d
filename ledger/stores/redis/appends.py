"""Appends to streams on a Redis or Valkey server, the confirmation of their replication, and flags that forbid some."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ledger.core.errors import InDoubtError
from ledger.core.limits import PAGE_COUNT
from ledger.stores.clock import Clock
from ledger.stores.durability import Durability
from ledger.stores.port import Answered, Append, Appended, AppendResult, Entry, FreezeFlag, Position, StreamKey
from ledger.stores.redis.append_calls import AppendCalls, FirstAttempt, server_in
from ledger.stores.redis.commands import ANSWER_SECONDS, Attempts, in_doubt
from ledger.stores.redis.link import Argument, CommandLine
from ledger.stores.redis.refusals import Refusal, refusal_of, right_refused
from ledger.stores.redis.replies import beside_of, entries_of, refused_with
from ledger.stores.redis.script import Script
from ledger.stores.redis.servers import Commands, Revive, Servers
from ledger.stores.redis.streams import LOOKS_MAX, StreamReads

_FREEZE: Final = Script.named("freeze.lua")
_OWN_FIELDS: Final = (b"at", b"server")

SURE_MS = 60_000
"""The TTL of a key that is written only to be waited for (WAIT)."""


class Appends(StreamReads):
    """Compare-and-append by script. The first attempt needs no task; a retry, and a wait for replicas, run in one."""

    _append_calls: AppendCalls

    @property
    def append_calls(self) -> AppendCalls:
        return self._append_calls

    def __init__(
        self,
        servers: Servers,
        *,
        clock: Clock | None = None,
        revive: Revive | None = None,
        durability: Durability | None = None,
    ) -> None:
        super().__init__(servers, clock=clock, revive=revive)
        self._durability = durability or Durability()
        # WAIT blocks all later commands on its connection.
        self._sure_link = (
            servers.commands(ANSWER_SECONDS + self._durability.wait_ms / 1000, confirmed=True)
            if self._durability.is_demanding
            else self._link
        )
        self._appends: set[asyncio.Task[None]] = set()

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        if append.binding or also_read is not None or self._is_closed:
            self._append_soon(append, answered, also_read)
        else:
            again = partial(self._append_soon, append, answered, None)
            command = self._append_calls.command(append, self._link.server if append.allows else "")
            self._link.send(command, FirstAttempt(self._append_calls, self._link, answered, again))

    def _append_soon(
        self,
        append: Append,
        answered: Answered,
        also_read: tuple[StreamKey, Position] | None,
        lost: bool = False,
    ) -> None:
        task = asyncio.create_task(self._answer(answered, append, also_read, Attempts(lost=lost)))
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)

    async def _answer(
        self, answered: Answered, append: Append, also_read: tuple[StreamKey, Position] | None, attempts: Attempts
    ) -> None:
        try:
            result, beside = await self._append(append, also_read, attempts)
        except Exception as error:  # noqa: BLE001 - the callback is the only way to report it
            answered(error, ())
        else:
            answered(result, beside)

    async def _append(
        self, append: Append, also_read: tuple[StreamKey, Position] | None, attempts: Attempts
    ) -> tuple[AppendResult, tuple[Entry, ...]]:
        """Compare and append; without a reply, retry with the same events, which compare-and-append makes harmless."""
        waits = self._durability.commands() if append.binding else ()
        link = self._sure_link if waits else self._link
        for _ in range(LOOKS_MAX):
            replies = await self.patiently(lambda: self._run_append(append, waits, also_read, link), attempts)
            if not refused_with(replies[0], "WRONGTYPE") or attempts.lost:
                break
            # Nothing was written. Without a stub the stream may just have been brought back: the append is sent again.
            if (sealed := await self.refused_by_stub(append.key, replies[0])) is not None:
                raise sealed from replies[0]
        if isinstance(replies[0], Refusal):
            # A refusal now does not settle an earlier attempt without a reply.
            raise in_doubt(str(replies[0])) if attempts.lost else refusal_of(replies[0]) from replies[0]
        result = self._append_calls.answer(replies[0])
        if waits and isinstance(result, Appended):
            self._check_sure(replies[1 : 1 + len(waits)])
        return result, () if also_read is None else beside_of(also_read[0], replies[-1])

    async def _run_append(
        self,
        append: Append,
        waits: Sequence[CommandLine],
        also_read: tuple[StreamKey, Position] | None,
        link: Commands,
    ) -> list[Any]:
        beside = () if also_read is None else (self.range_of(*also_read, PAGE_COUNT),)
        # Nothing is awaited between the look at the connection and the first write to it.
        calls, over = self._append_calls, link.connection
        command = calls.command(append, link.server if append.allows else "")
        replies = await self.run_loaded(
            (command, *waits, *beside),
            calls.script,
            link,
            # A server that lacks the script may be another one than the connection knew.
            lambda: (calls.command(append), *waits, *beside),
        )
        if (server := server_in(replies[0])) is not None:
            link.note_server(server, over)
        return replies

    @property
    def durability(self) -> Durability:
        return self._durability

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        """Confirm an entry: replicas that have a later write also have all earlier ones of the same server."""
        waits = self._durability.commands()
        sure = self.keys.sure(self.partition_of(key))
        commands: list[CommandLine] = [
            ("XRANGE", self.keys.stream(key), str(at), str(at)),
            ("SET", sure, str(at), "PX", SURE_MS),
            *waits,
        ]
        replies = await self.patiently(lambda: self._sure_link.run(commands, in_order=True))
        for reply in replies[:2]:
            if isinstance(reply, Refusal):
                raise await self.refused_by_stub(key, reply) or refusal_of(reply) from reply
        self._check_sure(replies[2:])
        found = entries_of(replies[0])
        return found[0] if found else None

    async def run_confirmed(
        self, script: Script, keys: Sequence[str], arguments: Sequence[Argument], *, partition: int, purpose: str
    ) -> Any:
        """Run a script that may be repeated, and confirm what it found or wrote (`Durability`).

        `purpose` names what a user without the right is refused. Raises InDoubtError when the confirmation, or the reply to an attempt that was sent, does not come.
        """
        waits, attempts = self._durability.commands(), Attempts()
        commands: list[CommandLine] = [script.call(keys, arguments)]
        if waits:
            # A repeated call writes nothing, and WAIT waits for the writes of its own connection.
            commands += [("SET", self.keys.sure(partition), script.sha, "PX", SURE_MS), *waits]
        link = self._sure_link if waits else self._link
        replies = await self.patiently(lambda: self.run_loaded(commands, script, link), attempts)
        for reply in replies[:2]:
            if isinstance(reply, Refusal):
                refused = right_refused(reply, purpose) or refusal_of(reply)
                raise in_doubt(str(reply)) if attempts.lost else refused from reply
        if waits and replies[0]:
            self._check_sure(replies[2:])
        return replies[0]

    def _check_sure(self, replies: Sequence[Any]) -> None:
        shortfall = self._durability.shortfall(replies)
        if shortfall is not None:
            raise InDoubtError(
                f"it is in the log, but not confirmed yet: {shortfall}; ask again with the same request id",
            )

    # --- the flag of each partition: the freezes in force, as of an entry of the stream of freezes ----------------------

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
        servers = {_identity_in(info) for info in await self.at_each_server("INFO", "replication")}
        return [_flag_of(reply, servers) for reply in _accepted(await self.ask_each(wanted))]


def _identity_in(info: bytes) -> bytes:
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

"""Writes to streams on a Redis or Valkey server: appends, their confirmed replication, and flags that forbid some.

Beside them the hints of sessions: their earliest deadlines, and the leases of clients and askers.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ledger.core.errors import InDoubtError
from ledger.core.events import Presence
from ledger.core.freezes import reach_of
from ledger.core.limits import PAGE_COUNT
from ledger.stores.durability import Durability
from ledger.stores.keys import Keys
from ledger.stores.port import (
    NOTHING_DUE,
    Append,
    Appended,
    AppendResult,
    Behind,
    Blocked,
    Conflict,
    Due,
    Entry,
    FreezeFlag,
    OthersPresent,
    OutsideWindow,
    Place,
    Position,
    StreamKey,
    Unverified,
)
from ledger.stores.redis.commands import ANSWER_SECONDS, Attempts, in_doubt
from ledger.stores.redis.link import Argument, CommandLine, Commands, LinkError, Revive, Script, Servers
from ledger.stores.redis.replies import (
    Refusal,
    accepted,
    also_read_of,
    clients_of,
    due_arguments,
    entries_of,
    lease_of,
    refusal_of,
    refused_with,
    right_refused,
    score_of,
)
from ledger.stores.redis.streams import LOOKS_MAX, StreamReads
from ledger.stores.store import Answered, Clock

_SERVER_CLOCK = """local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_LOOKED_UP: Final = 3
"""The place of the server's id in the reply to a written append."""

_OTHERS_PRESENT: Final = 5

_NOBODY: Final = b"0\0"

_TEST_CLOCK = "local now = tonumber(table.remove(ARGV))\n"


def clocked_script(name: str, *, test_clock: bool) -> Script:
    """Return a script that reads the clock; `test_clock` gives the variant that takes the time as its last argument."""
    script = Script.named(name)
    if not test_clock:
        return script
    text = script.text.replace(_SERVER_CLOCK, _TEST_CLOCK)
    assert text != script.text, f"{name} no longer reads its clock as it did"
    return Script(text)


class AppendCalls:
    """Encoding of appends as server commands, and decoding of replies as results of the port."""

    def __init__(self, keys: Keys, clock: Clock, *, moved_by_a_test: bool) -> None:
        self.script = clocked_script("append.lua", test_clock=moved_by_a_test)
        self._keys = keys
        self._clock = clock
        self._moved_by_a_test = moved_by_a_test

    def command(self, append: Append, server: str = "") -> CommandLine:
        """Return the call of the script; `server` is the server's id as the connection knows it."""
        keys = self._keys.of_append(append.key)
        due_mode, due_value = ("", "") if append.due is None else due_arguments(append.due)
        return (
            "EVALSHA",
            self.script.sha,
            # On a cluster that moves a slot, a call that names a key which nobody has set yet would have to wait.
            3 + append.allows + (append.present is not None),
            keys.stream,
            keys.due,
            keys.feed,
            *((keys.freeze,) if append.allows else ()),
            *((keys.lease,) if append.present is not None else ()),
            append.after.ms,
            append.after.version,
            "" if append.not_before_ms is None else append.not_before_ms,
            "" if append.not_after_ms is None else append.not_after_ms,
            due_mode,
            due_value,
            keys.name,
            keys.channel,
            f"{server} {reach_of(append.project)}" if append.allows else "",
            _assumed(append.present) if append.present else "" if append.present is None else _NOBODY,
            *[field or "" for fields in append.payloads for field in fields],
            *(self.clock_arguments() if self._moved_by_a_test else ()),
        )

    def clocked(self, name: str) -> Script:
        """Return another script that reads the clock; its last arguments are `clock_arguments`."""
        return clocked_script(name, test_clock=self._moved_by_a_test)

    def clock_arguments(self) -> tuple[int, ...]:
        return (self._clock.now_ms(),) if self._moved_by_a_test else ()

    def answer(self, reply: list[Any]) -> AppendResult:
        """Decode the script's reply and update the clock with its time."""
        kind, now_ms = reply[0], int(reply[1])
        self._clock.observe(now_ms)
        if kind == 1:
            return Appended(int(reply[2]), now_ms)
        if kind == 0:
            return Conflict(entries_of(reply[3]), Position.parse(reply[2].decode()), now_ms)
        if kind == -1:
            return Behind(Position.parse(reply[2].decode()), now_ms)
        if kind == 2:
            return OutsideWindow(int(reply[2]), now_ms)
        if kind == 3:
            return Blocked(reply[3], Position.parse(reply[2].decode()), now_ms)
        if kind == _OTHERS_PRESENT:
            return OthersPresent(clients_of(reply[2]) if len(reply) > 2 else None, now_ms)
        return Unverified(reply[2].decode(), now_ms)


def _assumed(present: tuple[Presence, ...]) -> bytes:
    return b"%d\0%b" % (len(present), b"".join(b"%b\0" % lease_of(one) for one in present))


def server_in(reply: Any) -> str | None:
    """Return the server's id, where the script looked it up for a written append."""
    return reply[_LOOKED_UP].decode() if type(reply) is list and len(reply) > _LOOKED_UP and reply[0] == 1 else None


class FirstAttempt:
    """The receiver of the reply to an append that was sent once; `again` is called where it has to be sent again.

    Its argument is True when this attempt may have been written.
    """

    __slots__ = ("_again", "_answered", "_calls", "_link", "since")
    open = 1

    def __init__(self, calls: AppendCalls, link: Commands, answered: Answered, again: Callable[[bool], None]) -> None:
        self._calls = calls
        self._link = link
        self._answered = answered
        self._again = again
        self.since = 0.0

    def take(self, replies: list[Any]) -> None:
        """Deliver the reply. After a refusal the append is sent again: the server may lack only the script."""
        (reply,) = replies
        if isinstance(reply, Refusal):
            self._again(False)
            return
        try:
            result = self._calls.answer(reply)
            if len(reply) > _LOOKED_UP and (server := server_in(reply)) is not None:
                # The reply came over the present connection.
                self._link.note_server(server, self._link.connection)
        except Exception as error:  # noqa: BLE001 - raised here it would reach the connection, not the caller
            self._answered(error, ())
        else:
            self._answered(result, ())

    def fail(self, error: LinkError) -> None:
        self._again(error.sent)


_FREEZE: Final = Script.named("freeze.lua")
_OWN_FIELDS: Final = (b"at", b"server")

SURE_MS = 60_000
"""The TTL of a key that is written only to be waited for (WAIT)."""


class Appends(StreamReads):
    """Compare-and-append by script. The first attempt needs no task; a retry, and a wait for replicas, run in one."""

    append_calls: AppendCalls

    def __init__(
        self,
        servers: Servers,
        *,
        clock: Clock | None = None,
        revive: Revive | None = None,
        durability: Durability | None = None,
    ) -> None:
        super().__init__(servers, clock=clock, revive=revive)
        self.durability = durability or Durability()
        # WAIT blocks all later commands on its connection.
        self._sure_link = (
            servers.commands(ANSWER_SECONDS + self.durability.wait_ms / 1000, confirmed=True)
            if self.durability.is_demanding
            else self._link
        )
        self._appends: set[asyncio.Task[None]] = set()

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        if append.binding or also_read is not None or self._is_closed:
            self._append_soon(append, answered, also_read)
        else:
            again = partial(self._append_soon, append, answered, None)
            command = self.append_calls.command(append, self._link.server if append.allows else "")
            self._link.send(command, FirstAttempt(self.append_calls, self._link, answered, again))

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
        waits = self.durability.commands() if append.binding else ()
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
        result = self.append_calls.answer(replies[0])
        if waits and isinstance(result, Appended):
            self._check_sure(replies[1 : 1 + len(waits)])
        return result, () if also_read is None else also_read_of(also_read[0], replies[-1])

    async def _run_append(
        self,
        append: Append,
        waits: Sequence[CommandLine],
        also_read: tuple[StreamKey, Position] | None,
        link: Commands,
    ) -> list[Any]:
        beside = () if also_read is None else (self.range_of(*also_read, PAGE_COUNT),)
        # Nothing is awaited between the look at the connection and the first write to it.
        calls, over = self.append_calls, link.connection
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

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        """Confirm an entry: replicas that have a later write also have all earlier ones of the same server."""
        waits = self.durability.commands()
        sure = self.keys.sure(key.partition(self.partition_count))
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
        waits, attempts = self.durability.commands(), Attempts()
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
        shortfall = self.durability.shortfall(replies)
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
        return [Position.parse(accepted(reply).decode()) for reply in replies]

    async def _flagged(self, calls: Sequence[CommandLine]) -> list[Any]:
        """Run the script in every partition, with the confirmation that `Durability` asks for."""
        waits = self.durability.commands()
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
        return [_flag_of(accepted(reply), servers) for reply in await self.ask_each(wanted)]


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


_CORRECT_DUE = Script.named("correct_due.lua")


class Hints(Appends):
    """The sessions by earliest deadline, and the leases of clients and askers."""

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        limit: Argument = "+inf" if until_ms is None else until_ms
        keys = self.keys.all_due if partitions is None else map(self.keys.due, partitions)
        replies = await self.ask(
            [("ZRANGE", key, "-inf", limit, "BYSCORE", "LIMIT", 0, count, "WITHSCORES") for key in keys]
        )
        found = [
            (score_of(at), session.decode())
            for one in replies
            if one
            for session, at in zip(one[::2], one[1::2], strict=True)
        ]
        found.sort()
        return [(session, _ms_of(at)) for at, session in found[:count]]

    async def due_of(self, sessions: Sequence[str]) -> list[int | str | None]:
        keys = [self.keys.due(StreamKey("session", one).partition(self.partition_count)) for one in sessions]
        scores = await self.ask([("ZSCORE", key, one) for key, one in zip(keys, sessions, strict=True)])
        return [NOTHING_DUE if score is None else _ms_of(score_of(score)) for score in scores]

    async def correct_due(self, session: str, seen_ms: int | str | None, to: Due | str, *, at: Position) -> None:
        key = StreamKey("session", session)
        keys = self.keys.of_append(key)
        new: Argument = ""
        if isinstance(to, Due):
            new = "inf" if to.ms is None else to.ms
        seen: Argument = "inf" if seen_ms is None else "" if seen_ms == NOTHING_DUE else seen_ms
        await self.evaluate_on(key, _CORRECT_DUE, (keys.due, keys.stream), (session, seen, new, str(at)))

    async def lease(self, place: Place, client: Presence, lease_ms: int, *, alone: bool = False) -> bool:
        sent: tuple[Argument, ...] = (client.client_id, lease_of(client), lease_ms, "1" if alone else "")
        script = self.append_calls.clocked("lease.lua")
        done, now_ms = await self.evaluate(
            script, (self.keys.lease(place),), (*sent, *self.append_calls.clock_arguments())
        )
        self.clock.observe(now_ms)
        return bool(done)

    async def leases(self, places: Sequence[Place]) -> list[tuple[Presence, ...]]:
        since = f"({self.clock.now_ms()}"
        read = [("ZRANGE", self.keys.lease(place), since, "+inf", "BYSCORE") for place in places]
        return [clients_of(members) for members in await self.ask(read)]


def _ms_of(score: float) -> int | None:
    return None if score == math.inf else int(score)

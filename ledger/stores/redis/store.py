"""A store on Redis or Valkey: one server, the primary that sentinels name, or a cluster."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from redis.exceptions import ResponseError

from ledger.core.errors import DamageError, InDoubtError, StoreError
from ledger.core.events import Presence
from ledger.core.limits import GIVE_UP_SECONDS, PAGE_COUNT
from ledger.stores.clock import Clock, EstimatedClock
from ledger.stores.durability import Durability
from ledger.stores.keys import Keys
from ledger.stores.port import (
    Answered,
    Append,
    Appended,
    AppendResult,
    Due,
    Entry,
    FeedItem,
    Listener,
    Opening,
    Place,
    Position,
    StreamInfo,
    StreamKey,
    ViewWrite,
    answer_with,
)
from ledger.stores.redis.admin import RedisAdmin
from ledger.stores.redis.append_calls import AppendCalls, FirstAttempt
from ledger.stores.redis.deployment import agree_on_partitions, check_server
from ledger.stores.redis.link import Argument, CommandLine, LinkError
from ledger.stores.redis.refusals import refusal_of
from ledger.stores.redis.replies import (
    beside_of,
    entries_of,
    feed_item_of,
    info_of,
    leases_of,
    refused_with,
    score_of,
)
from ledger.stores.redis.script import Script
from ledger.stores.redis.servers import Commands, Revive, Servers, WakeUps
from ledger.stores.redis.startup import when_ready
from ledger.stores.redis.views import RedisViews

T = TypeVar("T")

log = logging.getLogger(__name__)

ANSWER_SECONDS = 5.0
"""The timeout of one reply, after which the connection counts as broken."""

SCAN_COUNT = 1000
"""The COUNT of one SCAN step."""

RETRY_SECONDS_FIRST = 0.02
RETRY_SECONDS_MAX = 0.5

SURE_MS = 60_000
"""The TTL of a key that is written only to be waited for (WAIT)."""


class RedisStore:
    """A store over Redis servers, which several stores and processes may share."""

    def __init__(
        self,
        servers: Servers,
        *,
        partition_count: int | None = None,
        clock: Clock | None = None,
        revive: Revive | None = None,
        durability: Durability | None = None,
    ) -> None:
        self._servers = servers
        self._revive = revive
        self._durability = durability or Durability()
        self._link = servers.commands(ANSWER_SECONDS)
        # WAIT blocks all later commands on its connection.
        self._sure_link = (
            servers.commands(ANSWER_SECONDS + self._durability.wait_ms / 1000, confirmed=True)
            if self._durability.is_demanding
            else self._link
        )
        self._wanted_partitions = partition_count
        self._test_clock = clock
        self._clock = clock or EstimatedClock()
        self._project_script = Script.named("project.lua")
        self._correct_due_script = Script.named("correct_due.lua")
        self._keys: Keys | None = None
        self._is_closed = False
        self._appends: set[asyncio.Task[None]] = set()
        self._wake_ups: WakeUps | None = None

    # --- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._keys = Keys(await when_ready(self._meet, others_take_over=self._servers.others_take_over))
        self._append_calls = AppendCalls(self._keys, self._clock, moved_by_a_test=self._test_clock is not None)
        self._wake_ups = self._servers.wake_ups(self._keys, self._revive)
        await self.now_ms()

    async def _meet(self) -> int:
        for server in await self.everywhere():
            await check_server(partial(self._command_at, server), self._durability)
        return await agree_on_partitions(self.command, self._wanted_partitions)

    async def close(self) -> None:
        self._is_closed = True
        self._revive = None
        if self._wake_ups is not None:
            await self._wake_ups.close()
        await self._link.close()
        await self._sure_link.close()
        await self._servers.close()

    @property
    def clock(self) -> Clock:
        return self._clock

    @property
    def keys(self) -> Keys:
        assert self._keys is not None, "start() comes first"
        return self._keys

    @property
    def partition_count(self) -> int:
        return self.keys.count

    def partition_of(self, key: StreamKey) -> int:
        return self.keys.partition_of(key)

    @property
    def views(self) -> RedisViews:
        return RedisViews(self)

    @property
    def admin(self) -> RedisAdmin:
        return RedisAdmin(self)

    async def command(self, *command: Argument) -> Any:
        """Run one idempotent command; see `ask`."""
        return (await self.ask((command,)))[0]

    async def ask(self, commands: Sequence[CommandLine]) -> list[Any]:
        """Run idempotent commands and return the replies. Raises StoreError, or the error of the server's refusal."""
        if not commands:
            return []
        replies = await self._patiently(lambda: self._link.run(commands))
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise refusal_of(reply) from reply
        return replies

    async def ask_each(self, commands: Sequence[CommandLine]) -> list[Any]:
        """As `ask`, but return each refusal as a ResponseError among the replies."""
        return await self._patiently(lambda: self._link.run(commands)) if commands else []

    async def everywhere(self) -> Sequence[Commands]:
        """Return a link for each server that holds keys. Raises StoreError."""
        return await self._patiently(self._link.everywhere)

    async def _command_at(self, server: Commands, *command: Argument) -> Any:
        return (await self.ask_at(server, (command,)))[0]

    async def ask_at(self, server: Commands, commands: Sequence[CommandLine]) -> list[Any]:
        """As `ask`, on one of the servers."""
        replies = await self._patiently(lambda: server.run(commands))
        for reply in replies:
            if isinstance(reply, ResponseError):
                raise refusal_of(reply) from reply
        return replies

    async def scan(self, pattern: str, *words: Argument) -> AsyncIterator[str]:
        """Iterate over the keys that match a pattern on every server, unordered; a key may come twice."""
        for server in await self.everywhere():
            cursor = b"0"
            while True:
                cursor, names = await self._command_at(
                    server, "SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT, *words
                )
                for name in names:
                    yield name.decode()
                if cursor == b"0":
                    break

    async def _patiently(self, attempt: Callable[[], Awaitable[T]], writes: Attempts | None = None) -> T:
        """Retry without a connection for up to GIVE_UP_SECONDS.

        Raises StoreError; InDoubtError for `writes` of which one may have reached the server.
        """
        loop = asyncio.get_running_loop()
        give_up = loop.time() + GIVE_UP_SECONDS
        pause = RETRY_SECONDS_FIRST
        while not self._is_closed:
            try:
                return await attempt()
            except LinkError as error:
                if writes is not None:
                    writes.lost = writes.lost or error.sent
                in_doubt = writes is not None and writes.lost
                if error.refused is not None and not in_doubt:
                    raise refusal_of(error.refused) from error
                if loop.time() + pause > give_up or self._keys is None:
                    raise _in_doubt(str(error)) if in_doubt else _unreachable(error) from error
            if self._revive is not None:
                await self._revive()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        # Nothing would close a connection that is opened now.
        if writes is not None and writes.lost:
            raise _in_doubt("the ledger was closed")
        raise StoreError("this ledger is closed; connect again")

    async def evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run an idempotent script."""
        call = script.call(keys, arguments)
        reply = (await self._patiently(lambda: self._run_loaded((call,), script, self._link)))[0]
        if isinstance(reply, ResponseError):
            raise refusal_of(reply) from reply
        return reply

    async def _run_loaded(self, commands: Sequence[CommandLine], script: Script, link: Commands) -> list[Any]:
        """Run commands of which the first is a script; load the script if the server lacks it."""
        replies = await link.run(commands, in_order=True)
        if refused_with(replies[0], "NOSCRIPT"):
            replies = (await link.run((("SCRIPT", "LOAD", script.text), *commands), in_order=True))[1:]
        return replies

    # --- streams ----------------------------------------------------------------------------------------------------

    def post(self, append: Append, answered: Answered, also_read: tuple[StreamKey, Position] | None = None) -> None:
        if append.binding or also_read is not None or self._is_closed:
            self._append_soon(append, answered, also_read)
        else:
            again = partial(self._append_soon, append, answered, None)
            self._link.send(self._append_calls.command(append), FirstAttempt(self._append_calls, answered, again))

    def _append_soon(
        self,
        append: Append,
        answered: Answered,
        also_read: tuple[StreamKey, Position] | None,
        lost: bool = False,
    ) -> None:
        task = asyncio.create_task(answer_with(answered, self._append(append, also_read, Attempts(lost=lost))))
        self._appends.add(task)
        task.add_done_callback(self._appends.discard)

    async def _append(
        self, append: Append, also_read: tuple[StreamKey, Position] | None, attempts: Attempts
    ) -> tuple[AppendResult, tuple[Entry, ...]]:
        """Compare and append; without a reply, retry with the same events, which compare-and-append makes harmless."""
        waits = self._durability.commands() if append.binding else ()
        link = self._sure_link if waits else self._link
        replies = await self._patiently(lambda: self._run_append(append, waits, also_read, link), attempts)
        if isinstance(replies[0], ResponseError):
            # A refusal now does not settle an earlier attempt without a reply.
            raise _in_doubt(str(replies[0])) if attempts.lost else refusal_of(replies[0]) from replies[0]
        result = self._append_calls.answer(replies[0])
        if waits and isinstance(result, Appended):
            self._check_sure(replies[1 : 1 + len(waits)])
        return result, () if also_read is None else beside_of(also_read[0], replies[-1])

    def _run_append(
        self,
        append: Append,
        waits: Sequence[CommandLine],
        also_read: tuple[StreamKey, Position] | None,
        link: Commands,
    ) -> Awaitable[list[Any]]:
        beside = () if also_read is None else (self.range_of(*also_read, PAGE_COUNT),)
        return self._run_loaded((self._append_calls.command(append), *waits, *beside), self._append_calls.script, link)

    @property
    def durability(self) -> Durability:
        return self._durability

    @property
    def confirms(self) -> bool:
        return self._durability.is_demanding

    async def confirm(self, key: StreamKey, at: Position) -> Entry | None:
        """Confirm an entry: replicas that have a later write also have all earlier ones of the same server."""
        waits = self._durability.commands()
        sure = self.keys.sure(self.partition_of(key))
        commands: list[CommandLine] = [
            ("XRANGE", self.keys.stream(key), str(at), str(at)),
            ("SET", sure, str(at), "PX", SURE_MS),
            *waits,
        ]
        replies = await self._patiently(lambda: self._sure_link.run(commands, in_order=True))
        for reply in replies[:2]:
            if isinstance(reply, ResponseError):
                raise refusal_of(reply) from reply
        self._check_sure(replies[2:])
        found = entries_of(replies[0])
        return found[0] if found else None

    def _check_sure(self, replies: Sequence[Any]) -> None:
        shortfall = self._durability.shortfall(replies)
        if shortfall is not None:
            raise InDoubtError(
                f"it is in the log, but not confirmed yet: {shortfall}; ask again with the same request id",
            )

    def range_of(self, key: StreamKey, after: Position, count: int) -> CommandLine:
        return ("XRANGE", self.keys.stream(key), f"({after}", "+", "COUNT", count)

    async def open(self, key: StreamKey) -> Opening:
        stream = self.keys.stream(key)
        replies = await self._patiently(
            lambda: self._link.run(
                (("XINFO", "STREAM", stream), ("XRANGE", stream, "-", "+", "COUNT", PAGE_COUNT), ("TIME",))
            )
        )
        info, entries, time = replies
        if isinstance(entries, ResponseError):
            raise refusal_of(entries) from entries
        return Opening(info_of(info), entries_of(entries), self._observe_time(time))

    async def read(self, key: StreamKey, after: Position, count: int) -> tuple[Entry, ...]:
        return entries_of((await self.ask((self.range_of(key, after, count),)))[0])

    async def read_many(self, wanted: Sequence[tuple[StreamKey, Position]]) -> list[tuple[Entry, ...]]:
        if not wanted:
            return []
        replies = await self.ask([self.range_of(key, after, PAGE_COUNT) for key, after in wanted])
        return [entries_of(reply) for reply in replies]

    async def info(self, key: StreamKey) -> StreamInfo | None:
        stream = self.keys.stream(key)
        replies = await self._patiently(
            lambda: self._link.run((("XINFO", "STREAM", stream), ("MEMORY", "USAGE", stream)))
        )
        size = replies[1] if isinstance(replies[1], int) else None
        return info_of(replies[0], size)

    async def streams(self) -> AsyncIterator[StreamKey]:
        async for name in self.scan(self.keys.stream_glob(), "TYPE", "stream"):
            key = self.keys.parse_stream(name)
            if key is not None:
                yield key

    async def now_ms(self) -> int:
        if self._test_clock is not None:
            return self._test_clock.now_ms()
        return self._observe_time(await self.command("TIME"))

    def _observe_time(self, time: Any) -> int:
        if self._test_clock is not None:
            return self._test_clock.now_ms()
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        self._clock.observe(now_ms)
        return now_ms

    # --- hints ------------------------------------------------------------------------------------------------------

    async def due(
        self, until_ms: int | None, count: int, partitions: Sequence[int] | None = None
    ) -> list[tuple[str, int | None]]:
        limit: Argument = "+inf" if until_ms is None else until_ms
        replies = await self.ask(
            [
                ("ZRANGE", self.keys.due(partition), "-inf", limit, "BYSCORE", "LIMIT", 0, count, "WITHSCORES")
                for partition in (range(self.partition_count) if partitions is None else partitions)
            ]
        )
        found = [(score_of(reply[i + 1]), reply[i].decode()) for reply in replies for i in range(0, len(reply), 2)]
        found.sort()
        return [(session, None if at == math.inf else int(at)) for at, session in found[:count]]

    async def next_due_ms(self) -> int | None:
        replies = await self.ask(
            [("ZRANGE", self.keys.due(partition), 0, 0, "WITHSCORES") for partition in range(self.partition_count)]
        )
        earliest = min((score_of(reply[1]) for reply in replies if reply), default=math.inf)
        return None if earliest == math.inf else int(earliest)

    async def correct_due(self, session: str, seen_ms: int | None, to: Due | str, *, at: Position) -> None:
        keys = self.keys.of_append(StreamKey("session", session))
        new: Argument = ""
        if isinstance(to, Due):
            new = "inf" if to.ms is None else to.ms
        seen: Argument = "inf" if seen_ms is None else seen_ms
        await self.evaluate(self._correct_due_script, (keys.due, keys.stream), (session, seen, new, str(at)))

    async def listen(self, listener: Listener) -> None:
        assert self._wake_ups is not None, "start() comes first"
        self._wake_ups.listen(listener)

    async def subscribe(self, partition: int) -> None:
        assert self._wake_ups is not None, "start() comes first"
        try:
            async with asyncio.timeout(GIVE_UP_SECONDS):
                await self._wake_ups.subscribe(partition)
        except TimeoutError:
            # A wake-up is a hint: without it the sweep finds the new entries, later.
            log.warning("cannot subscribe to the wake-ups of partition %s (is SSUBSCRIBE allowed?)", partition)

    async def renew_lease(self, place: Place, client: Presence, lease_ms: int) -> None:
        key = self.keys.lease(place)
        member = f"{client.client_id}\n{client.name}".encode()
        time, members = await self.ask((("TIME",), ("ZRANGE", key, 0, -1)))
        now_ms = self._observe_time(time)
        renamed = [one for one in leases_of(client.client_id, members) if one != member]
        await self.ask(
            (
                ("ZADD", key, now_ms + lease_ms, member),
                *((("ZREM", key, *renamed),) if renamed else ()),
                ("ZREMRANGEBYSCORE", key, "-inf", now_ms),
                # A key lives at least as long as its longest lease; GT alone has no effect on a key without a TTL.
                ("PEXPIRE", key, lease_ms * 2, "NX"),
                ("PEXPIRE", key, lease_ms * 2, "GT"),
            )
        )

    async def drop_lease(self, place: Place, client_id: str) -> None:
        key = self.keys.lease(place)
        gone = leases_of(client_id, await self.command("ZRANGE", key, 0, -1))
        if gone:
            await self.command("ZREM", key, *gone)

    async def leases(self, place: Place) -> tuple[Presence, ...]:
        key = self.keys.lease(place)
        try:
            members = await self.command("ZRANGE", key, f"({self._clock.now_ms()}", "+inf", "BYSCORE")
        except DamageError as error:
            # A hint: assume that nobody is present. Deadlines, asks and replies must work all the same.
            log.warning("presence cannot be read from `%s`: %s", key, error.text)
            return ()
        pairs = (member.decode().partition("\n") for member in members)
        return tuple(Presence(client_id, name) for client_id, _, name in pairs)

    # --- projections ------------------------------------------------------------------------------------------------

    async def read_feed(self, partitions: Sequence[int], group: str, consumer: str, count: int) -> list[FeedItem]:
        replies = await self._patiently(
            lambda: self._link.run(
                [
                    ("XREADGROUP", "GROUP", group, consumer, "COUNT", count, "STREAMS", self.keys.feed(one), ">")
                    for one in partitions
                ]
            )
        )
        without = [one for one, reply in zip(partitions, replies, strict=True) if refused_with(reply, "NOGROUP")]
        items = [
            feed_item_of(one, line)
            for one, reply in zip(partitions, replies, strict=True)
            if reply and not isinstance(reply, ResponseError)
            for line in reply[0][1]
        ]
        begun = await self._begin_groups(without, group)
        return items + (await self.read_feed(begun, group, consumer, count) if begun else [])

    async def _begin_groups(self, partitions: Sequence[int], group: str) -> list[int]:
        """Create the consumer group on feeds that lack it; most partitions have no feed yet."""
        if not partitions:
            return []
        replies = await self._patiently(
            lambda: self._link.run([("XGROUP", "CREATE", self.keys.feed(one), group, "0") for one in partitions])
        )
        return [
            one
            for one, reply in zip(partitions, replies, strict=True)
            if not isinstance(reply, ResponseError) or refused_with(reply, "BUSYGROUP")
        ]

    async def claim_feed(
        self, partitions: Sequence[int], group: str, consumer: str, idle_ms: int, count: int
    ) -> list[FeedItem]:
        replies = await self._patiently(
            lambda: self._link.run(
                [
                    ("XAUTOCLAIM", self.keys.feed(one), group, consumer, idle_ms, "0", "COUNT", count)
                    for one in partitions
                ]
            )
        )
        return [
            feed_item_of(one, line)
            for one, reply in zip(partitions, replies, strict=True)
            if not isinstance(reply, ResponseError)
            for line in reply[1]
            if line is not None and line[1]
        ]

    async def acknowledge(self, group: str, items: Sequence[FeedItem]) -> None:
        by_partition: dict[int, list[str]] = {}
        for item in items:
            partition, _, entry_id = item.item_id.partition("/")
            by_partition.setdefault(int(partition), []).append(entry_id)
        if by_partition:
            await self.ask([("XACK", self.keys.feed(one), group, *ids) for one, ids in by_partition.items()])

    async def project(self, key: StreamKey, expected_version: int, version: int, writes: Sequence[ViewWrite]) -> bool:
        partition = self.partition_of(key)
        views = list(dict.fromkeys(write.view for write in writes))
        keys = [self.keys.checkpoints(partition), *(self.keys.view(view, partition) for view in views)]
        arguments: list[Argument] = [key.name, expected_version, version]
        for write in writes:
            value = "" if write.value is None else write.value
            arguments += [views.index(write.view) + 2, write.kind, write.field, value, int(write.value is None)]
        return bool(await self.evaluate(self._project_script, keys, arguments))

    async def checkpoint(self, key: StreamKey) -> int:
        return int(await self.command("HGET", self.keys.checkpoints(self.partition_of(key)), key.name) or 0)

    async def view(self, view: str, partition: int) -> Mapping[str, bytes]:
        key = self.keys.view(view, partition)
        flat = await self._of_either_type(("HGETALL", key), ("ZRANGE", key, 0, -1, "WITHSCORES"))
        return {flat[i].decode(): flat[i + 1] for i in range(0, len(flat), 2)}

    async def view_field(self, view: str, partition: int, field: str) -> bytes | None:
        key = self.keys.view(view, partition)
        value: bytes | None = await self._of_either_type(("HGET", key, field), ("ZSCORE", key, field))
        return value

    async def _of_either_type(self, of_hash: CommandLine, of_sorted: CommandLine) -> Any:
        """Run two reads and return the reply of the one that fits the type of the view's key."""
        replies = await self._patiently(lambda: self._link.run((of_hash, of_sorted)))
        reply = replies[1] if refused_with(replies[0], "WRONGTYPE") else replies[0]
        if isinstance(reply, ResponseError):
            raise refusal_of(reply) from reply
        return reply

    async def drop_views(self, partition: int, names: Sequence[str] = ()) -> None:
        keys = {self.keys.checkpoints(partition), *(self.keys.view(name, partition) for name in names)}
        keys.update([key async for key in self.scan(self.keys.view_glob(partition))])
        # One command, hence atomic: a projector that starts again meanwhile finds all keys or none.
        await self.command("UNLINK", *sorted(keys))


class Attempts:
    """The attempts of one write; `lost` is True once one was sent and its reply lost."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost


def _in_doubt(why: str) -> InDoubtError:
    return InDoubtError(
        f"the ledger's server did not answer in time ({why}): the write may or may not have counted; ask again with "
        "the same request id"
    )


def _unreachable(error: LinkError) -> StoreError:
    return StoreError(f"the ledger's server cannot be reached ({error}); is it running, and is --url right?")

"""Commands to the servers, retried while there is no connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, TypeVar

from ledger.core.errors import InDoubtError, StoreError
from ledger.core.limits import GIVE_UP_SECONDS
from ledger.stores.keys import Keys
from ledger.stores.redis.link import Argument, CommandLine, Commands, LinkError, Revive, Script, Servers
from ledger.stores.redis.replies import Refusal, accepted, refusal_of, refused_with
from ledger.stores.store import Clock, EstimatedClock

T = TypeVar("T")

ANSWER_SECONDS = 5.0
"""The timeout of one reply, after which the connection counts as broken."""

SCAN_COUNT = 1000
"""The COUNT of one SCAN step."""

RETRY_SECONDS_FIRST = 0.02
RETRY_SECONDS_MAX = 0.5


class RetriedCommands:
    """Commands to the servers of a deployment, retried without a connection; the keys, and the server's time."""

    def __init__(self, servers: Servers, *, clock: Clock | None = None, revive: Revive | None = None) -> None:
        self._servers = servers
        self._revive = revive
        self._link = servers.commands(ANSWER_SECONDS)
        self._test_clock = clock
        self.clock = clock or EstimatedClock()
        self._keys: Keys | None = None
        self._is_closed = False

    @property
    def keys(self) -> Keys:
        assert self._keys is not None, "start() comes first"
        return self._keys

    @property
    def partition_count(self) -> int:
        return self.keys.count

    async def now_ms(self) -> int:
        if self._test_clock is not None:
            return self._test_clock.now_ms()
        return self._observe_time(await self.command("TIME"))

    def _observe_time(self, time: Any) -> int:
        if self._test_clock is not None:
            return self._test_clock.now_ms()
        now_ms = int(time[0]) * 1000 + int(time[1]) // 1000
        self.clock.observe(now_ms)
        return now_ms

    async def command(self, *command: Argument) -> Any:
        """Run one idempotent command; see `ask`."""
        return (await self.ask((command,)))[0]

    async def ask(self, commands: Sequence[CommandLine]) -> list[Any]:
        """Run idempotent commands and return the replies. Raises StoreError, or the error of the server's refusal."""
        return await self.ask_at(self._link, commands) if commands else []

    async def ask_each(self, commands: Sequence[CommandLine]) -> list[Any]:
        """As `ask`, but return each refusal as a Refusal among the replies."""
        return await self.patiently(lambda: self._link.run(commands)) if commands else []

    async def everywhere(self) -> Sequence[Commands]:
        """Return a link for each server that holds keys. Raises StoreError."""
        return await self.patiently(self._link.everywhere)

    def replica(self, address: tuple[str, int]) -> Commands | None:
        """Return a link to a replica at the address that its primary names; None where it is not for clients."""
        return self._link.replica(address)

    async def at_each_server(self, *command: Argument) -> list[Any]:
        """Return the replies of all servers that hold keys to an idempotent command. Raises StoreError.

        Where one is gone, the servers are looked up anew: after a failover another one holds its keys.
        """

        async def attempt() -> list[list[Any]]:
            servers = await self._link.everywhere()
            return await asyncio.gather(*(server.run((command,)) for server in servers))

        return [accepted(reply) for (reply,) in await self.patiently(attempt)]

    async def command_at(self, server: Commands, *command: Argument) -> Any:
        return (await self.ask_at(server, (command,)))[0]

    async def ask_at(self, server: Commands, commands: Sequence[CommandLine]) -> list[Any]:
        """As `ask`, on one of the servers."""
        replies = await self.patiently(lambda: server.run(commands))
        if any(map(isinstance, replies, repeat(Refusal))):
            refused = next(reply for reply in replies if isinstance(reply, Refusal))
            raise refusal_of(refused) from refused
        return replies

    async def scan(self, pattern: str, *words: Argument) -> AsyncIterator[str]:
        """Iterate over the keys that match a pattern on every server, unordered; a key may come twice."""
        for server in await self.everywhere():
            cursor = b"0"
            while True:
                cursor, names = await self.command_at(
                    server, "SCAN", cursor, "MATCH", pattern, "COUNT", SCAN_COUNT, *words
                )
                for name in names:
                    yield name.decode()
                if cursor == b"0":
                    break

    async def patiently(self, attempt: Callable[[], Awaitable[T]], writes: Attempts | None = None) -> T:
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
                is_in_doubt = writes is not None and writes.lost
                if error.refused is not None and not is_in_doubt:
                    raise refusal_of(error.refused) from error
                if loop.time() + pause > give_up or self._keys is None:
                    raise in_doubt(str(error)) if is_in_doubt else _unreachable(error) from error
            if self._revive is not None:
                await self._revive()
            await asyncio.sleep(pause)
            pause = min(pause * 2, RETRY_SECONDS_MAX)
        # Nothing would close a connection that is opened now.
        if writes is not None and writes.lost:
            raise in_doubt("the ledger was closed")
        raise StoreError("this ledger is closed; connect again")

    async def evaluate(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> Any:
        """Run an idempotent script."""
        reply = (await self.patiently(lambda: self.run_now(script, keys, arguments)))[0]
        if isinstance(reply, Refusal):
            raise refusal_of(reply) from reply
        return reply

    async def evaluate_each(self, script: Script, calls: Sequence[CommandLine]) -> list[Any]:
        """Run calls of one idempotent script, each on the server of its keys; refusals are among the replies."""
        replies = await self.ask_each(calls)
        left = _without_script(replies, range(len(calls)))
        while left:
            # The first one brings the script to its server, by which most of the others get it.
            first, *rest = left
            (replies[first],) = await self.patiently(partial(self.run_loaded, (calls[first],), script, self._link))
            for index, reply in zip(rest, await self.ask_each([calls[one] for one in rest]), strict=True):
                replies[index] = reply
            left = _without_script(replies, rest)
        return replies

    async def run_now(self, script: Script, keys: Sequence[str], arguments: Sequence[Argument]) -> list[Any]:
        """Run a script once; for `patiently`."""
        return await self.run_loaded((script.call(keys, arguments),), script, self._link)

    async def run_loaded(
        self,
        commands: Sequence[CommandLine],
        script: Script,
        link: Commands,
        again: Callable[[], Sequence[CommandLine]] | None = None,
    ) -> list[Any]:
        """Run commands of which the first is a script; every script that is run by its hash is run here.

        A server that lacks the script gets it in one batch with the commands, or with those of `again`: between two
        batches it could be started again, and lack it once more.
        """
        replies = await link.run(commands, in_order=True)
        if refused_with(replies[0], "NOSCRIPT"):
            commands = commands if again is None else again()
            replies = (await link.run((("SCRIPT", "LOAD", script.text), *commands), in_order=True))[1:]
        return replies


def _without_script(replies: Sequence[Any], among: Iterable[int]) -> list[int]:
    return [index for index in among if refused_with(replies[index], "NOSCRIPT")]


class Attempts:
    """The attempts of one write; `lost` is True once one was sent and its reply lost."""

    def __init__(self, *, lost: bool = False) -> None:
        self.lost = lost


def in_doubt(why: str) -> InDoubtError:
    return InDoubtError(
        f"the ledger's server did not answer in time ({why}): the write may or may not have counted; ask again with "
        "the same request id"
    )


def _unreachable(error: LinkError) -> StoreError:
    return StoreError(f"the ledger's server cannot be reached ({error}); is it running, and is --url right?")

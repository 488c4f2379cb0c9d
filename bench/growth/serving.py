"""Questions of people and scrapes: commands, calls and routes, each several times at one size."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from itertools import count
from secrets import token_hex
from typing import Final

from bench.growth.lives import request_of
from bench.growth.questions import ROUTES
from bench.growth.rows import Figures
from bench.http_client import Connection
from bench.place import Place, gateway, run
from ledger import Ledger, UnknownRequestError
from workers.cli.output import Exit

WARM_COUNT: Final = 2
MAY_END_WITH: Final = (Exit.DONE, Exit.UNKNOWN, Exit.FINDINGS)
"""Exit codes of the commands asked: `doctor` may find that a bench's server is set up for no team."""


class Serving:
    """The questions at one size; each settled request is asked about once, so that no fold of it is cached.

    `before` is what the names of the rows begin with.
    """

    def __init__(
        self, place: Place, figures: Figures, size: int, pending: int, repetitions: int, *, before: str = ""
    ) -> None:
        self._before = before
        self._place = place
        self._figures = figures
        self._size = size
        self._repetitions = repetitions
        # Spread over all sessions, those that wait left out.
        step = max(1, (size - pending) // (repetitions * (1 + WARM_COUNT + repetitions)))
        self._settled = (request_of(pending + number % (size - pending)) for number in count(0, step))

    async def measure(self) -> None:
        await in_turn([self], self._repetitions)

    async def turn(self) -> None:
        """Ask everything once more: each command once, calls and routes several times in processes that run."""
        await self._commands()
        await self._calls()
        await self._routes()

    # --- commands ---------------------------------------------------------------------------------------------------

    async def _commands(self) -> None:
        with tempfile.TemporaryDirectory(prefix="pl-") as home:
            await self._command(home, "--version")
            for name, words in (
                ("start", ("--version",)),
                ("reply settled", ("reply", next(self._settled), "once")),
                ("reply unknown", ("reply", unknown(), "once")),
                ("sessions", ("sessions",)),
                ("pending", ("pending",)),
                ("streams", ("streams",)),
                ("doctor", ("doctor",)),
            ):
                self._add(f"command {name}", await self._command(home, *words))

    async def command(self, name: str, *words: str) -> None:
        """Measure one command more."""
        with tempfile.TemporaryDirectory(prefix="pl-") as home:
            for _ in range(self._repetitions):
                self._add(f"command {name}", await self._command(home, *words))

    async def reads(self, sessions: Sequence[str]) -> None:
        """Measure the reading of one whole session after the other by a process that runs."""
        async with Ledger.connect(self._place.url, actor="ann", entry_points=False) as ledger:
            left = iter(sessions)

            async def read() -> None:
                state = await (await ledger.attach(next(left))).state()
                assert state.version, state

            await self._often("call read sealed", read)

    async def _command(self, home: str, *words: str) -> float:
        """Return the milliseconds until a command has ended."""
        url = () if words[0].startswith("-") else ("--url", self._place.url)
        environment = {"PERMISSION_LEDGER_HOME": home}
        ended = await run("-m", "workers.cli", *words, *url, environment=environment, codes=MAY_END_WITH)
        return ended.seconds * 1e3

    # --- calls ------------------------------------------------------------------------------------------------------

    async def _calls(self) -> None:
        async with Ledger.connect(self._place.url, actor="ann", entry_points=False) as ledger:

            async def settled() -> None:
                result = await ledger.reply(next(self._settled), "once")
                assert result.outcome == "allowed", result

            async def missing() -> None:
                with suppress(UnknownRequestError):
                    await ledger.reply(unknown(), "once")

            async def granted() -> None:
                await ledger.grant_in_project(f"granted-{token_hex(4)}", "bash", "make *")

            await self._often("call reply settled", settled)
            await self._often("call reply unknown", missing)
            await self._often("project grant", granted)

    async def _often(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        for turn in range(WARM_COUNT + self._repetitions):
            began = time.perf_counter()
            await work()
            if turn >= WARM_COUNT:
                self._add(name, (time.perf_counter() - began) * 1e3)

    def _add(self, name: str, value: float) -> None:
        self._figures.add(self._before + name, self._size, value)

    # --- routes -----------------------------------------------------------------------------------------------------

    async def _routes(self) -> None:
        async with AsyncExitStack() as stack:
            serving = await gateway(self._place.url, stack)
            connection = await serving.connect()
            self._add("first events", await first_events(await serving.connect()))
            for name, route in ROUTES.items():

                async def get(route: str = route) -> None:
                    status, body = await connection.get(route)
                    assert status == 200, body

                await self._often(name, get)


async def in_turn(servings: Sequence[Serving], turns: int) -> None:
    """Ask each of these everything, then each again, so that the machine's speed of one moment is that of all."""
    for _ in range(turns):
        for one in servings:
            await one.turn()


async def first_events(connection: Connection) -> float:
    """Return the milliseconds from opening a stream of events to the end of its snapshot."""
    began = time.perf_counter()
    lines = await connection.listen("/v1/events")
    await lines.readuntil(b"event: stream.open")
    return (time.perf_counter() - began) * 1e3


def unknown() -> str:
    """Return the id of a request that does not exist."""
    return f"per_none{token_hex(11)}"

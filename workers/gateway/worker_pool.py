"""Pure work beside a gateway's loop: in processes, one piece of a caller at a time, each piece with a budget.

A thread would not do: regular expressions and the shell's grammar hold the interpreter until they are done, and only
the end of their process stops them.

A costly ask, and costly rules, are run here once before the loop runs them: over the budget they never reach the loop,
and within it the same token's next piece is delayed. Only the search for secrets in the texts of a large ask has a thread,
whose result the loop uses: it is made of short steps.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import BrokenExecutor
from typing import Any, Final
from weakref import WeakValueDictionary

import msgspec

from ledger.core.codec import require_payload_size
from ledger.core.errors import InputError, LedgerError
from ledger.core.policy import PolicySource
from ledger.masks.masking import LARGE_CHARS, prefetch_secrets
from ledger.policy.dialects import DEFAULT_DIALECT
from ledger.session.state import SessionState
from workers.gateway import work
from workers.gateway.bodies import AskBody, OpenSession
from workers.runtime.children import Processes

WORKER_COUNT: Final = 2
WAITING_COUNT_MAX: Final = 8
"""Queued pieces of one caller; only one of them runs at a time."""

WALL_SECONDS_MAX: Final = 60.0
"""Time limit for a piece within its budget of processor time, for a busy machine."""

LOOP_SECONDS_MAX: Final = 0.25
"""Limit of processor time for work that the loop repeats, because it blocks all other requests."""

REST_SHARE: Final = 4.0
"""Pause of a caller after a piece whose work the loop repeats, as a multiple of the time that the piece took."""

REST_SECONDS_MAX: Final = REST_SHARE * LOOP_SECONDS_MAX

CALL_BYTES_CHEAP: Final = 4 * 1024
CALL_BYTES_LEAST: Final = 512
"""Minimum length that is counted: every rule is evaluated for a short call too."""

RULE_BYTES: Final = 24
"""Length of a rule in a configuration as JSON, where rules are not listed by themselves."""

COST_CHEAP: Final = 256 * 1024
"""Limit of a cheap ask, in bytes of the call times rules (at least one): about 20 ms of judging."""

RULES_BYTES_CHEAP: Final = 16 * 1024


class TooCostlyError(LedgerError):
    """A piece of work over its limit of processor time, memory or room."""

    code = "TOO_COSTLY"


class BusyError(LedgerError):
    """A caller with too many pieces of work at once."""

    code = "BUSY"


class WorkerPool:
    """Runs pure work in processes. Each is an executor of its own: one that is killed takes no other piece with it."""

    def __init__(self) -> None:
        self._all = {Processes(1, work.begin) for _ in range(WORKER_COUNT)}
        self._free: asyncio.LifoQueue[Processes] = asyncio.LifoQueue()
        for process in self._all:
            self._free.put_nowait(process)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._waiting: Counter[str] = Counter()
        self._is_closed = False

    async def run(self, caller: str, name: str, argument: Any, *, seconds: float, rests: bool = False) -> Any:
        """Return the result of the work of this name. `seconds` are of processor time.

        With `rests` the caller's next piece waits four times as long as this one took, at most a second.
        Raises TooCostlyError, BusyError, and PolicyError or InputError of the work itself.
        """
        if self._waiting[caller] >= WAITING_COUNT_MAX:
            text = f"{WAITING_COUNT_MAX} pieces of work of this token are under way; wait for their answers"
            raise BusyError(text, retry_after=1)
        turn = self._turns.setdefault(caller, asyncio.Lock())
        loop = asyncio.get_running_loop()
        self._waiting[caller] += 1
        try:
            await turn.acquire()
            began = loop.time()
            try:
                value = await self._done(name, msgspec.json.encode(argument), seconds)
            finally:
                rest = min(REST_SHARE * (loop.time() - began), REST_SECONDS_MAX) if rests else 0
                loop.call_later(rest, turn.release)
        finally:
            self._waiting[caller] -= 1
            self._waiting += Counter()  # forgets whoever waits for nothing
        if value is None:
            raise TooCostlyError(
                f"this takes more than {seconds:g} s of work; send less at once: fewer rules, or a shorter input"
            )
        return msgspec.json.decode(value)

    async def _done(self, *piece: Any) -> bytes | None:
        """Return the value of a piece as JSON; None if its process ended."""
        process = await self._free.get()
        if self._is_closed:
            self._free.put_nowait(process)
            raise BusyError("this gateway is shutting down; ask another one", retry_after=1)
        try:
            try:
                future = process.submit(work.do, *piece)
            except BrokenExecutor:  # the system killed the process while it was idle
                process = self._replaced(process)
                future = process.submit(work.do, *piece)
            async with asyncio.timeout(WALL_SECONDS_MAX):
                return await asyncio.wrap_future(future)
        except (BrokenExecutor, TimeoutError):
            process = self._replaced(process)
            return None
        except asyncio.CancelledError:  # the caller left: nothing else ends the piece
            process = self._replaced(process)
            raise
        except InputError:
            raise
        except LedgerError as error:
            raise InputError(error.text) from error
        finally:
            self._free.put_nowait(process)

    def _replaced(self, process: Processes) -> Processes:
        process.kill(waits=False)
        self._all.remove(process)
        self._all.add(new := Processes(1, work.begin))
        return new

    @property
    def is_busy(self) -> bool:
        """Return whether a process is working."""
        return self._free.qsize() < len(self._all)

    def close(self) -> None:
        """End the processes; a piece in progress raises TooCostlyError."""
        self._is_closed = True
        for process in self._all:
            process.kill(waits=True)


async def rehearse_ask(pool: WorkerPool, caller: str, state: SessionState, body: AskBody, source: PolicySource) -> None:
    """Run a costly ask by the rules of its session. Raises TooCostlyError, BusyError, InputError."""
    said = (body.patterns, body.always, body.metadata, body.input)
    size = len(msgspec.json.encode(said))
    require_payload_size(size)
    rules = sum(len(one.rules) + len(msgspec.json.encode(one.config)) // RULE_BYTES for one in source.layers)
    if size <= CALL_BYTES_CHEAP and max(size, CALL_BYTES_LEAST) * max(rules, 1) <= COST_CHEAP:
        return
    tool = body.tool_name or (body.tool if isinstance(body.tool, str) else None)
    if body.permission is None and tool is None:
        return  # refused where the body is read
    asked = {
        "policy": msgspec.to_builtins(source),
        "permission": body.permission,
        "patterns": body.patterns or [],
        "always": body.always,
        "tool": tool,
        "input": body.input,
        "metadata": body.metadata or {},
        "cwd": state.cwd if body.cwd is None else body.cwd,
        "home": state.home,
        "agent": body.agent or state.agent,
    }
    await pool.run(caller, "rehearse", asked, seconds=LOOP_SECONDS_MAX, rests=True)
    if size > LARGE_CHARS:
        await asyncio.to_thread(prefetch_secrets, said)


async def rehearse_rules(pool: WorkerPool, caller: str, body: OpenSession) -> None:
    """Compile costly rules. Raises TooCostlyError, BusyError, InputError."""
    asked = {name: getattr(body, name) for name in ("policy", "rules", "dialect", "options")}
    if len(msgspec.json.encode(asked)) > RULES_BYTES_CHEAP:
        asked["dialect"] = body.dialect or DEFAULT_DIALECT
        await pool.run(caller, "compile", asked, seconds=LOOP_SECONDS_MAX, rests=True)

"""The one `up` of a data folder: its lock and its state, how it is started in the background, found, and stopped.

`up` and its workers hold `up.lock`; the kernel releases it when the last of them has ended, however that happened. So a
state that a killed `up` left behind counts only while the lock is held. Of several that start at once, one gets it.
`up` alone holds `up.owner`: while that is free, its process id may be another program's, and is not signalled.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from ledger.core.errors import LedgerError, SetupError, StoreError
from ledger.core.regular_files import FileLock, is_held, private_file, read_regular
from ledger.stores.embedded.errors import explained
from ledger.stores.embedded.folder import log_tail, open_folder, set_log_aside
from workers.runtime.children import own_command, own_environment
from workers.transport.gateway_client import GatewayClient
from workers.transport.place import BridgeError, parse_place

LOCK: Final = "up.lock"
OWNER: Final = "up.owner"
STATE: Final = "up.json"
LOG: Final = "up.log"
LOG_LINES: Final = 12

Starter = Literal["terminal", "detach", "service"]

READY_SECONDS: Final = 120.0
"""The time to become ready: a server that reads a large log takes its time."""

END_SECONDS: Final = 45.0
"""The time to end: workers have 10 s each, and the server as long for its last writes."""

TURN_SECONDS: Final = 20.0
"""The time that a start waits for the workers of a killed `up`, which end by themselves."""

STARTING_SECONDS: Final = 1.0
"""The time that a start waits for a holder of the lock that has written no state."""

ANSWER_SECONDS: Final = 5.0
LOOK_SECONDS: Final = 0.1


class UpState(msgspec.Struct, frozen=True, kw_only=True):
    """The running `up`. `check`: the address at which its gateway is asked whether it is ready; None without one."""

    process: int
    host: str
    since_ms: int
    started_by: Starter
    server: str
    addresses: list[str] = []
    check: str | None = None
    workers: dict[str, int] = {}
    wanted: list[str] = []
    """The workers that it keeps running."""

    @property
    def is_here(self) -> bool:
        """Return whether it runs on this machine: containers may share a data folder, and not their process ids."""
        return self.host == os.uname().nodename

    @property
    def missing(self) -> list[str]:
        """Return the workers that do not run now."""
        return [name for name in self.wanted if self.is_here and not _is_alive(self.workers.get(name))]


class AlreadyUpError(SetupError):
    """Another `up` runs with this data folder."""

    code = "ALREADY_UP"


class Registration:
    """Our state in the data folder. Raises EmbeddedServerError when it cannot be written."""

    def __init__(self, folder: Path, lock: FileLock, state: UpState) -> None:
        self._folder = folder
        self._lock = lock
        self._state = state
        self.note()

    @property
    def handed_down(self) -> int:
        """Return the descriptor that workers inherit, so that the lock is held until the last has ended."""
        return self._lock.fileno()

    def note(self, **changes: Any) -> None:
        """Write the state with these changes."""
        self._state = msgspec.structs.replace(self._state, **changes)
        with explained(self._folder), private_file(self._folder / STATE) as file:
            file.write(msgspec.json.encode(self._state))


@asynccontextmanager
async def registered(folder: Path, server: str, started_by: Starter) -> AsyncIterator[Registration | None]:
    """Be the folder's `up` while the block runs. None: another one is, and we were started at a terminal.

    Raises AlreadyUpError otherwise, and EmbeddedServerError.
    """
    lock, owner = _lock_files(folder)
    try:
        if not await _taken(folder, lock, owner):
            if started_by != "terminal":
                raise AlreadyUpError(
                    f"an `up` runs already with the data folder `{folder}`", hint="`permission-ledger status` shows it"
                )
            yield None
            return
        host, now_ms = os.uname().nodename, time.time_ns() // 1_000_000
        state = UpState(process=os.getpid(), host=host, since_ms=now_ms, started_by=started_by, server=server)
        registration = Registration(folder, lock, state)
        try:
            yield registration
        finally:
            (folder / STATE).unlink(missing_ok=True)
    finally:
        owner.close()
        lock.close()


def _lock_files(folder: Path) -> tuple[FileLock, FileLock]:
    with explained(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return FileLock(folder / LOCK), FileLock(folder / OWNER)


async def _taken(folder: Path, lock: FileLock, owner: FileLock) -> bool:
    """Take the locks, also after the workers of a killed `up` have ended."""
    began = time.monotonic()
    while not (lock.try_exclusive() and owner.try_exclusive()):
        state = read_state(folder)
        # Without a state, another one is starting, or somebody looked whether a lock is held.
        patience = STARTING_SECONDS if state is None else 0 if is_owned(folder) else TURN_SECONDS
        if time.monotonic() - began >= patience:
            return False
        await asyncio.sleep(LOOK_SECONDS)
    return True


def is_up(folder: Path) -> bool:
    """Return whether an `up` of this folder, or a worker of it, runs; makes nothing."""
    return (folder / LOCK).exists() and is_held(folder / LOCK)


def is_owned(folder: Path) -> bool:
    """Return whether the `up` itself runs, not only workers of a killed one."""
    return (folder / OWNER).exists() and is_held(folder / OWNER)


def read_state(folder: Path) -> UpState | None:
    """Return the state of the running `up`; None while there is none, and while it is starting."""
    if not is_up(folder):
        return None
    try:
        return msgspec.json.decode(read_regular(folder / STATE), type=UpState)
    except (OSError, msgspec.DecodeError):
        return None


async def why_not_ready(folder: Path, state: UpState) -> str | None:
    """Return what is missing until everything works; None when nothing is."""
    if not is_owned(folder):
        return f"its process {state.process} was killed, and its workers are ending"
    if state.missing or not state.wanted:
        return f"not running: {', '.join(state.missing)}" if state.missing else "it is starting"
    if state.check is None:
        return None
    address = state.check
    try:
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            GatewayClient(lambda: parse_place(address, None), grace=0) as client,
        ):
            await client.call("GET", "/readyz")
    except TimeoutError:
        return f"the gateway at {address} does not answer"
    except BridgeError as error:
        return error.text
    return None


async def start(folder: Path, words: Sequence[str], environment: Mapping[str, str]) -> UpState:
    """Start `up` in the background, and return the folder's state when it is ready: ours, or that of a faster one.

    Raises StartError, EmbeddedServerError.
    """
    open_folder(folder)
    with explained(folder):
        begins = set_log_aside(folder / LOG)
        with os.fdopen(os.open(folder / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "wb") as log:
            process = subprocess.Popen(  # noqa: ASYNC220, S603 - our own program; it returns at once
                own_command("up", "--started-by", "detach", *words),
                env={**own_environment(), **environment},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                umask=0o077,
            )
    state = await wait_ready(folder, lambda: process.poll() is None)
    if state is None:
        raise StartError(process.poll() or 0, log_tail(folder / LOG, begins, LOG_LINES))
    process.returncode = 0  # it lives on, and nobody waits for it
    return state


class StartError(LedgerError):
    """An `up` in the background that ended at once: its exit code, and the end of its log."""

    code = "NOT_STARTED"

    def __init__(self, exit_code: int, log: list[str]) -> None:
        super().__init__("\n".join(log), exit_code=exit_code)
        self.exit_code = exit_code
        self.log = log


async def wait_ready(folder: Path, is_coming: Callable[[], bool] = lambda: False) -> UpState | None:
    """Return the state of the running `up` once it is ready or the time is over.

    None when none runs, and none `is_coming`.
    """
    until = time.monotonic() + READY_SECONDS
    state = None
    while (is_coming() or is_up(folder)) and time.monotonic() < until:
        state = read_state(folder)
        if state is not None and await why_not_ready(folder, state) is None:
            return state
        await asyncio.sleep(LOOK_SECONDS)
    return state if is_up(folder) else None


async def stop(folder: Path) -> UpState | None:
    """End the folder's `up`, and return what it was; None when none ran. Raises SetupError, StoreError."""
    state = read_state(folder)
    if state is None:
        if is_up(folder):
            raise StoreError(f"an `up` of `{folder}` is starting; try again in a moment")
        return None
    if not state.is_here:
        raise SetupError(
            f"it runs on `{state.host}`, process {state.process}", hint="stop it there: `permission-ledger down`"
        )
    with suppress(ProcessLookupError):
        if is_owned(folder):
            os.kill(state.process, signal.SIGTERM)
    until = time.monotonic() + END_SECONDS
    while is_up(folder):
        if time.monotonic() > until:
            left = [state.process] if is_owned(folder) else filter(_is_alive, state.workers.values())
            raise StoreError(f"it does not end; end it with `kill -9 {' '.join(map(str, left))}`")
        await asyncio.sleep(LOOK_SECONDS)
    return state


def _is_alive(pid: int | None) -> bool:
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is another user's
    return True

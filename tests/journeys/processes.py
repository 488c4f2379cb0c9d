"""The processes of a journey under a test's control: given commands, waited for, and killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from ledger.stores.embedded.folder import DataFolder
from tests.support.processes import environment_without_settings
from tests.support.waiting import wait_until

ROOT: Final = Path(__file__).resolve().parents[2]

P = TypeVar("P", bound="Process")

ANSWER_S: Final = 60.0
"""The longest time of a call; one that takes longer hangs."""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class Process:
    """A Python process in a session of its own, whose output is read continuously."""

    def __init__(
        self, arguments: Sequence[str], environment: dict[str, str] | None = None, folder: Path = ROOT
    ) -> None:
        ours = environment_without_settings()
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env={**ours, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **(environment or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.said: list[str] = []
        self.complained: list[str] = []
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._hear), daemon=True),
            threading.Thread(target=self._read, args=(self._process.stderr, self.complained.append), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def wait_for_word(self, word: str, count: int = 1) -> str:
        """Return the line of stdout or stderr with this word, after waiting for `count` of them."""

        def found() -> list[str]:
            lines = [line for line in (*self.said, *self.complained) if word in line]
            assert len(lines) >= count or self.is_running, f"it ended:\n{''.join(self.complained)}"
            return lines[count - 1 :]

        return wait_until(found, f"`{word}`", ANSWER_S)[0]

    def kill9(self) -> None:
        """Kill the process with SIGKILL; it writes nothing more."""
        self._process.kill()
        self._ended()

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Terminate the process; return its exit code."""
        self.send(number)
        return self._ended()

    def wait(self) -> int:
        """Wait until the process ends by itself; return its exit code."""
        return self._ended()

    def close(self) -> None:
        """Close the process and its pipes, also when it ended by itself; otherwise a later test would be blamed."""
        if self.is_running:
            self.kill9()
        else:
            self._ended()

    def _ended(self) -> int:
        code = self._process.wait(timeout=ANSWER_S)
        for reader in self._readers:
            reader.join(timeout=ANSWER_S)
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()
        return code

    def _read(self, pipe: Any, handle: Any) -> None:
        for line in pipe:
            handle(line)

    def _hear(self, line: str) -> None:
        self.said.append(line)


class PlayerProcess(Process):
    """A process with a ledger of its own; see `player.py`."""

    def __init__(self, url: str, actor: str, environment: dict[str, str] | None = None) -> None:
        self._awaited: dict[int, Future[dict[str, Any]]] = {0: Future()}
        self._count = 0
        self._telling = threading.Lock()
        super().__init__(["-m", "tests.journeys.player", url, actor], environment)

    def ready(self) -> Self:
        self._awaited[0].result(ANSWER_S)
        return self

    def begin(self, do: str, *args: Any, on: str | None = None, **named: Any) -> Future[dict[str, Any]]:
        """Start a call; return the future of its answer: `{"result"}` or `{"error"}`."""
        awaited: Future[dict[str, Any]] = Future()
        with self._telling:
            self._count += 1
            self._awaited[self._count] = awaited
            assert self._process.stdin
            told = {"n": self._count, "on": on, "do": do, "args": args, "named": named}
            self._process.stdin.write(json.dumps(told) + "\n")
            self._process.stdin.flush()
        return awaited

    def do(self, do: str, *args: Any, on: str | None = None, **named: Any) -> Any:
        """Return the result of a call; fails on an error."""
        answer = self.begin(do, *args, on=on, **named).result(ANSWER_S)
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def refused(self, do: str, *args: Any, on: str | None = None, **named: Any) -> dict[str, Any]:
        """Return the error of a call; fails without one."""
        return error_of(self.begin(do, *args, on=on, **named))

    # --- queries of most journeys -----------------------------------------------------------------------------------

    def types(self, session: str) -> list[str]:
        """Return the types of the session's events."""
        return [event["type"] for event in self.do("events", on=session)]

    def events(self, session: str, *types: str) -> list[dict[str, Any]]:
        return [event for event in self.do("events", on=session) if event["type"] in types]

    def wait_pending(self, session: str, *request_ids: str) -> None:
        """Wait until exactly these requests are pending, in any order: asks begun together may overtake each other."""

        seen: list[str] = []

        def are_pending() -> bool:
            seen[:] = [one["request_id"] for one in self.do("pending", on=session)]
            return sorted(seen) == sorted(request_ids)

        wait_until(are_pending, lambda: f"{request_ids} to be pending, not {seen}", ANSWER_S)

    def wait_event(self, session: str, event_type: str, count: int = 1) -> None:
        wait_until(lambda: self.types(session).count(event_type) >= count, f"{count} {event_type}", ANSWER_S)

    def _hear(self, line: str) -> None:
        super()._hear(line)
        answer = json.loads(line)
        self._awaited[answer["n"]].set_result(answer)


def result_of(answer: Future[dict[str, Any]]) -> dict[str, Any]:
    """Wait for the result of a call and return it; fails on an error."""
    told = answer.result(ANSWER_S)
    assert "error" not in told, told["error"]
    result: dict[str, Any] = told["result"]
    return result


def error_of(answer: Future[dict[str, Any]]) -> dict[str, Any]:
    told = answer.result(ANSWER_S)
    assert "error" in told, told
    error: dict[str, Any] = told["error"]
    return error


class Stage:
    """A ledger in a data folder, and the processes that use it; all ended after the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = DataFolder(folder)
        self.url = f"embedded://{folder}"
        self._processes: list[Process] = []

    def player(self, actor: str) -> PlayerProcess:
        """Start a player, and wait until it is ready."""
        return self.players(actor)[0]

    def players(self, *actors: str) -> list[PlayerProcess]:
        """Start several players at the same time."""
        players = [self._kept(PlayerProcess(self.url, actor)) for actor in actors]
        return [player.ready() for player in players]

    def worker(self, name: str, word: str) -> Process:
        """Start an expiry worker or a projector, and wait until it has printed this word."""
        worker = self._kept(Process(["-m", "workers.cli", "worker", name, "--url", self.url, "--log-level", "info"]))
        worker.wait_for_word(word)
        return worker

    def expiry(self) -> Process:
        return self.worker("expiry", "subscribed to")

    def run(self, *words: str, **environment: str) -> Process:
        """Run `permission-ledger …` in this data folder."""
        place = {"PERMISSION_LEDGER_HOME": str(self.folder.path)}
        return self._kept(Process(["-m", "workers.cli", *words], {**place, **environment}))

    def kill_server(self) -> int:
        """Kill the server; return its process id."""
        pid = self.folder.pid()
        assert pid, "no server runs"
        os.kill(pid, signal.SIGKILL)
        return pid

    def close(self) -> None:
        for process in self._processes:
            process.close()

    def _kept(self, process: P) -> P:
        self._processes.append(process)
        return process

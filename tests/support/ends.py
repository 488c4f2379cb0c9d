"""Both ends of a bridge under a test's control: the host's are its pipes, the agent's is a relay to the test."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final

from tests.support.forks import Fork
from tests.support.processes import ROOT
from tests.support.waiting import wait_until

Message = dict[str, Any]

LONG_S: Final = 60.0

RELAY: Final = """
import os, socket, sys, threading
there = socket.socket(socket.AF_UNIX)
there.connect(sys.argv[1])
def carry():
    while data := os.read(0, 65536):
        there.sendall(data)
    there.shutdown(socket.SHUT_WR)
threading.Thread(target=carry, daemon=True).start()
while data := there.recv(65536):
    if data.startswith(b"exit "):
        os._exit(int(data[5:]))
    while data:
        data = data[os.write(1, data):]
os._exit(0)
"""
"""The agent: it prints what is written to the socket, and sends its input back."""


class End:
    """One side: its messages received, line by line, and a way to send."""

    def __init__(self, source: Iterable[bytes], sink: IO[bytes]) -> None:
        self.lines: list[bytes] = []
        self._sink = sink
        self._reader = threading.Thread(target=self._read, args=(source,), daemon=True)
        self._reader.start()

    def _read(self, source: Iterable[bytes]) -> None:
        with suppress(OSError, ValueError):
            self.lines.extend(source)

    @property
    def messages(self) -> list[Message]:
        return [json.loads(line) for line in list(self.lines)]

    def say(self, message: Message) -> None:
        self.write(json.dumps(message).encode() + b"\n")

    def write(self, data: bytes) -> None:
        self._sink.write(data)
        self._sink.flush()

    def received(self, count: int = 1) -> list[Message]:
        """Return the messages received, after waiting for at least `count` of them."""
        wait_until(lambda: len(self.lines) >= count, f"{count} lines; received {self.lines}", LONG_S)
        return self.messages

    def answer_to(self, rpc_id: Any) -> Message:
        """Return the only answer to a request."""

        def found() -> list[Message]:
            return [one for one in self.messages if one.get("id") == rpc_id and "method" not in one]

        answers = wait_until(found, f"an answer to {rpc_id}; received {self.lines}", LONG_S)
        assert len(answers) == 1
        return answers[0]

    def close(self) -> None:
        with suppress(OSError, ValueError):
            self._sink.close()

    def join(self) -> None:
        self._reader.join(LONG_S)


class Between:
    """A running bridge with an agent of ours behind it."""

    def __init__(self, name: str, words: Sequence[str], environment: dict[str, str]) -> None:
        # Short: socket paths are limited in length.
        self._folder = tempfile.TemporaryDirectory(prefix="pl-end-")
        place = str(Path(self._folder.name) / "agent.sock")
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(place)
        listening.listen()
        listening.settimeout(LONG_S)
        self._errors = (Path(self._folder.name) / "errors").open("w+b")
        self._process: subprocess.Popen[bytes] = Fork(
            ["bridge", name, *words, "--", sys.executable, "-I", "-S", "-c", RELAY, place],
            cwd=ROOT,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        assert self._process.stdin
        assert self._process.stdout
        self.host = End(self._process.stdout, self._process.stdin)
        with listening:
            self._socket, _ = listening.accept()
        self.agent = End(self._socket.makefile("rb"), self._socket.makefile("wb"))

    @property
    def errors(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode()

    def end_agent(self, code: int = 0) -> None:
        """End the agent's output, and the agent."""
        self._socket.sendall(f"exit {code}".encode())

    def kill_bridge(self) -> None:
        self._process.kill()
        self._process.wait(LONG_S)

    def wait(self) -> int:
        return self._process.wait(LONG_S)

    def close(self) -> None:
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(LONG_S)
        for end in (self.host, self.agent):
            end.close()
            end.join()
        assert self._process.stdout
        self._process.stdout.close()
        self._socket.close()
        self._errors.close()
        self._folder.cleanup()

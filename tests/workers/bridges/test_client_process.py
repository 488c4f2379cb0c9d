"""Lines to a client that may not read: written whole, in order, and without blocking other work."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator

import pytest

from tests.support.waiting import wait_until
from workers.bridges.stdio import ClientProcess

ECHO = "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line); sys.stdout.buffer.flush()"


@pytest.fixture
def client() -> Iterator[ClientProcess]:
    """A client that echoes its input."""
    found = ClientProcess([sys.executable, "-c", ECHO])
    yield found
    found.close_stdin()
    found.wait()
    found.close_stdout()


def test_a_client_that_reads_gets_a_line_at_once(client: ClientProcess) -> None:
    assert client.write_at_once(b"hello\n")
    assert next(client.lines()) == b"hello\n"


def test_a_client_that_does_not_read_keeps_nobody_waiting_and_loses_nothing(client: ClientProcess) -> None:
    assert client.write_at_once(b"first\n")
    assert next(client.lines()) == b"first\n", "it runs"
    client.send(signal.SIGSTOP)
    lines = [f"{number:04} {'x' * 990}\n".encode() for number in range(200)]
    count = next(number for number, line in enumerate(lines) if not client.write_at_once(line))
    assert 0 < count < len(lines), "the pipe took some, and no more"
    writer = threading.Thread(target=client.write, args=(b"".join(lines[count:]),))
    writer.start()
    client.send(signal.SIGCONT)
    received = client.lines()
    assert [next(received) for _ in lines] == lines
    writer.join()


def test_while_another_line_is_written_nothing_comes_between(client: ClientProcess) -> None:
    assert client.write_at_once(b"first\n")
    assert next(client.lines()) == b"first\n"
    client.send(signal.SIGSTOP)
    long = b"x" * 300_000 + b"\n"
    writer = threading.Thread(target=client.write, args=(long,))
    writer.start()
    wait_until(lambda: not client.write_at_once(b"y\n"), "the long line to be under way")
    client.send(signal.SIGCONT)
    received = client.lines()
    said = [next(received)]
    while said[-1] != long:
        assert said[-1] == b"y\n", "only before it"
        said.append(next(received))
    writer.join()


def test_a_line_that_is_too_long_for_that_is_left_to_a_thread(client: ClientProcess) -> None:
    assert not client.write_at_once(b"x" * 100_000 + b"\n")


def test_a_client_that_is_gone_takes_anything() -> None:
    client = ClientProcess([sys.executable, "-c", "pass"])
    client.wait()
    wait_until(lambda: client.write_at_once(b"hello\n"), "the pipe to break")
    client.close_stdin()
    assert client.write_at_once(b"hello\n")
    client.close_stdout()

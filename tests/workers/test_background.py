"""`up --detach`, `status` and `down`: started twice, at once, after a kill, and where it cannot start."""

from __future__ import annotations

import errno
import os
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ledger.core.errors import SetupError, StoreError
from ledger.core.regular_files import FileLock, is_held
from ledger.stores.embedded import stop
from ledger.stores.embedded.errors import EmbeddedServerError
from tests.journeys.processes import is_alive
from tests.support.command_line import CommandLine, Ran
from tests.support.processes import free_port
from tests.support.servers import RealServer
from tests.support.waiting import wait_until
from workers.runtime import background
from workers.runtime.background import AlreadyUpError, UpState, read_state, registered


class Machine:
    """A data folder, and the command line of its owner."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "data"
        self.run = CommandLine(
            "", {"PERMISSION_LEDGER_URL": "", "PERMISSION_LEDGER_HOME": str(self.folder), "HOME": str(folder)}
        )

    def up(self, *words: str, code: int | None = 0) -> Ran:
        return self.run("up", "--detach", *words, code=code)

    @property
    def state(self) -> UpState:
        state = read_state(self.folder)
        assert state is not None
        return state

    def close(self) -> None:
        state = read_state(self.folder)
        if state is not None:
            os.kill(state.process, signal.SIGKILL)
            wait_until(lambda: not background.is_up(self.folder), "the workers to end", 60)
        stop(self.folder)


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path)
    yield machine
    machine.close()


@pytest.mark.slow
@pytest.mark.process
def test_it_starts_once_is_shown_and_ends(machine: Machine) -> None:
    port = free_port()
    started = machine.up("--listen", f"127.0.0.1:{port}")
    first, address, log, inbox, end = started.out.splitlines()
    assert first == "permission-ledger is up, in the background"
    assert address == f"  address  http://127.0.0.1:{port}"
    assert log == f"  log      {machine.folder}/up.log"
    assert (inbox.endswith(" inbox --open"), end.endswith(" down")) == (True, True)
    again = machine.up()
    assert again.out.splitlines()[:2] == ["permission-ledger is up already, in the background", address]
    machine.run("ask", "ses_1", "bash", "git push", "--no-wait", code=7)
    wait_until(lambda: machine.run("status", "--json", code=0).row["pending"] == 1, "the view of what waits")
    row = machine.run("status", "--json", code=0).row
    assert (row["ready"], row["started_by"], row["addresses"][0]) == (True, "detach", f"http://127.0.0.1:{port}")
    assert sorted(row["workers"]) == ["expiry", "gateway", "indexer", "projector"]
    wait_until(lambda: "git push" in machine.run("search", "push").out, "the search, from the first minute", 60)
    shown = machine.run("status", code=0).out
    assert "  waiting  1 for an answer\n" in shown
    workers = list(row["workers"].values())
    assert machine.run("down", code=0).out == "permission-ledger is down\n"
    assert not any(map(is_alive, workers))
    assert not is_held(machine.folder / "server.lock")
    assert machine.run("status", "--json", code=8).row == {"running": False, "ready": False, "service": None}
    assert machine.run("down", code=0).out == "permission-ledger is not running\n"
    assert (machine.folder / "up.log").read_text() == ""


@pytest.mark.slow
@pytest.mark.process
def test_two_that_start_at_once_are_one(machine: Machine) -> None:
    words = ("up", "--detach", "--listen", "127.0.0.1:0")
    with machine.run.started(*words) as one, machine.run.started(*words) as other:
        said = sorted(process.communicate(timeout=110)[0].splitlines()[0] for process in (one, other))
        assert (one.returncode, other.returncode) == (0, 0)
    assert {one.replace(" already", "") for one in said} == {"permission-ledger is up, in the background"}
    assert machine.run("status").code == 0


@pytest.mark.slow
@pytest.mark.process
def test_after_a_kill_nothing_is_believed_and_the_next_one_has_the_same_address(machine: Machine) -> None:
    port = free_port()
    machine.up("--listen", f"127.0.0.1:{port}")
    killed = machine.state
    os.kill(killed.process, signal.SIGKILL)
    wait_until(lambda: not is_alive(killed.process), "the process to end")
    assert machine.run("status").code in (8, 11)
    assert f"  address  http://127.0.0.1:{port}\n" in machine.up("--listen", f"127.0.0.1:{port}").out
    assert machine.state.process != killed.process
    os.kill(machine.state.workers["projector"], signal.SIGKILL)
    wait_until(lambda: machine.run("status").code == 0, "the worker that was started again", 60)
    machine.run("down", code=0)
    (machine.folder / "up.json").write_text('{"process": 1}')
    assert machine.run("status", code=8).out == "permission-ledger is not running\n", "a state without a lock is stale"


@pytest.mark.slow
@pytest.mark.process
def test_a_port_in_use_is_told_with_the_code_of_the_failure(machine: Machine) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        ran = machine.up("--listen", f"127.0.0.1:{port}", code=12)
    assert f"error: cannot listen on `127.0.0.1:{port}`: Address already in use" in ran.err
    assert ran.err.endswith(f"permission-ledger did not start; its log is `{machine.folder}/up.log`\n")
    assert machine.run("status").code == 8


@pytest.mark.slow
@pytest.mark.process
def test_one_of_another_server_is_not_the_one_that_is_wanted(machine: Machine, server: RealServer) -> None:
    machine.up("--listen", "none")
    ran = machine.up("--listen", "none", "--url", server.url, code=12)
    assert f"error: an `up` runs already with another server: `{machine.state.server}`\n" in ran.err
    assert "hint: `permission-ledger down` ends it" in ran.err
    machine.run("down", code=0)


def test_wrong_options_are_told_before_anything_starts(machine: Machine) -> None:
    assert "--archive-older-than needs --archive" in machine.run("up", "--archive-older-than", "1d", code=12).err
    assert "give --detach or --service, not both" in machine.up("--service", code=2).err


async def test_one_that_is_alone_refuses_a_second_and_a_terminal_joins(tmp_path: Path) -> None:
    async with registered(tmp_path, "memory", "terminal") as first:
        assert first is not None
        async with registered(tmp_path, "memory", "terminal") as second:
            assert second is None
        with pytest.raises(AlreadyUpError, match="an `up` runs already with the data folder"):
            async with registered(tmp_path, "memory", "service"):
                pass
    assert read_state(tmp_path) is None
    assert not (tmp_path / "up.json").exists()


async def test_a_full_disk_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(background, "private_file", full)
    with pytest.raises(EmbeddedServerError, match="the disk is full"):
        async with registered(tmp_path, "memory", "detach"):
            pass
    assert not background.is_up(tmp_path)


async def test_the_process_of_another_machine_is_not_signalled(tmp_path: Path) -> None:
    async with registered(tmp_path, "memory", "detach") as registration:
        assert registration is not None
        registration.note(host="elsewhere", process=os.getpid(), wanted=["expiry"])
        with pytest.raises(SetupError, match="it runs on `elsewhere`"):
            await background.stop(tmp_path)


async def test_a_process_that_has_the_id_of_a_killed_up_is_not_signalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with registered(tmp_path, "memory", "detach") as registration:
        assert registration is not None
        registration.note(process=os.getpid())
        left = (tmp_path / "up.json").read_bytes()
    (tmp_path / "up.json").write_bytes(left)
    workers = FileLock(tmp_path / "up.lock")
    assert workers.try_exclusive()
    signals: list[int] = []
    monkeypatch.setattr(os, "kill", lambda _pid, number: signals.append(number))
    monkeypatch.setattr(background, "END_SECONDS", 0)
    with pytest.raises(StoreError, match="it does not end"):
        await background.stop(tmp_path)
    workers.close()
    assert signal.SIGTERM not in signals

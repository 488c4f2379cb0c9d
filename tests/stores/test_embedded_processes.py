"""The embedded server with several processes, some of which are killed."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import pytest
import redis

from ledger.core.regular_files import FileLock, is_held
from ledger.stores.embedded import EmbeddedServerError, embedded_server, stop
from ledger.stores.embedded.folder import DataFolder
from ledger.stores.embedded.launch import find_binary
from ledger.stores.embedded.server import end_unused
from tests.support.processes import next_line, python
from tests.support.waiting import wait_until

USER: Final = """
import sys
from pathlib import Path
from ledger.stores.embedded import embedded_server
print("up", flush=True)
with embedded_server(Path(sys.argv[1])) as server:
    print(server.url, flush=True)
    sys.stdin.readline()
"""


IMPATIENT: Final = f"from ledger.stores.embedded import launch\nlaunch.UNUSED_S = 0\n{USER}"


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    path = tmp_path / "data"
    path.mkdir(mode=0o700)
    return DataFolder(path)


def is_running(folder: DataFolder) -> bool:
    return is_held(folder.server_lock)


def user(stack: ExitStack, folder: DataFolder, program: str = USER) -> subprocess.Popen[str]:
    process = stack.enter_context(python(program, folder.path))
    assert next_line(process) == "up"
    return process


def leave(process: subprocess.Popen[str]) -> None:
    process.communicate("\n")
    assert process.returncode == 0


def server_pid(folder: DataFolder) -> int:
    pid = folder.pid()
    assert pid
    return pid


def processes_in(folder: DataFolder) -> set[str]:
    """Return the ids of all processes that work in this folder."""
    found = set()
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            found |= {one.name} if (one / "cwd").readlink() == folder.path else set()
    return found


def starts(folder: DataFolder) -> int:
    """Return how many servers became ready in this folder."""
    return folder.log.read_text().lower().count("ready to accept connections")


def kill_server(folder: DataFolder) -> int:
    pid = server_pid(folder)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(folder), "the killed server to be gone")
    return pid


def program(folder: DataFolder, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """Put a shell script in the place of the server program; `$SERVER` in it is the real one."""
    real = find_binary()
    script = folder.path.parent / "program"
    script.write_text(f'#!/bin/sh\nSERVER="{real.path}"\n[ "$1" = --version ] && exec "$SERVER" --version\n{body}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PERMISSION_LEDGER_SERVER", str(script))


def test_processes_that_start_at_the_same_moment_get_one_server(folder: DataFolder) -> None:
    with ExitStack() as stack:
        gate = FileLock(folder.start_lock)
        assert gate.try_exclusive()
        users = [user(stack, folder) for _ in range(4)]
        gate.close()
        urls = {next_line(each) for each in users}
        assert len(urls) == 1
        assert starts(folder) == 1
        for each in users:
            assert is_running(folder)
            leave(each)
    assert not is_running(folder)


def test_a_killed_user_leaves_a_server_that_the_next_one_uses_and_ends(folder: DataFolder) -> None:
    with ExitStack() as stack:
        killed = user(stack, folder)
        next_line(killed)
        pid = server_pid(folder)
        killed.kill()
        killed.wait()
    assert is_running(folder)
    with embedded_server(folder.path):
        assert server_pid(folder) == pid
    assert not is_running(folder)


@pytest.mark.slow
def test_a_server_whose_users_were_all_killed_ends_by_itself(folder: DataFolder) -> None:
    with ExitStack() as stack:
        for each in [user(stack, folder, IMPATIENT) for _ in range(3)]:
            next_line(each)
            assert is_running(folder)
            each.kill()
            each.wait()
    wait_until(lambda: not is_running(folder), "the server to end")
    assert "requested shutdown" in folder.log.read_text()
    wait_until(lambda: not processes_in(folder), "its guard to end")


@pytest.mark.slow
def test_the_guard_of_a_server_ends_with_it(folder: DataFolder) -> None:
    with embedded_server(folder.path), embedded_server(folder.path):
        assert len(processes_in(folder)) > 1, "the server and its guard"
        kill_server(folder)
        with embedded_server(folder.path):
            pass
    wait_until(lambda: not processes_in(folder), "the guards to end")


def test_only_a_server_that_nobody_uses_or_keeps_is_unused(folder: DataFolder) -> None:
    assert end_unused(folder.path) is False
    with ExitStack() as stack:
        killed = user(stack, folder)
        next_line(killed)
        with embedded_server(folder.path):
            killed.kill()
            killed.wait()
            assert end_unused(folder.path) is True
            folder.kept.touch()
    assert end_unused(folder.path) is True
    assert is_running(folder)
    folder.kept.unlink()
    assert end_unused(folder.path) is False
    assert not is_running(folder)


def test_a_server_left_behind_by_a_killed_user_can_be_stopped(folder: DataFolder) -> None:
    with ExitStack() as stack:
        killed = user(stack, folder)
        next_line(killed)
        killed.kill()
        killed.wait()
    assert stop(folder.path) is True
    assert not is_running(folder)


def test_a_killed_server_is_started_again_by_the_next_user_with_all_that_it_acknowledged(folder: DataFolder) -> None:
    with embedded_server(folder.path) as first:
        with redis.Redis.from_url(first.url) as client:
            client.xadd("stream", {"d": "event"}, id="5-1")
        killed = kill_server(folder)
        assert (folder.pid(), (folder.path / "server.sock").exists()) == (killed, True)  # what it left
        with embedded_server(folder.path) as second, redis.Redis.from_url(second.url) as client:
            assert server_pid(folder) != killed
            assert client.xrange("stream") == [(b"5-1", {b"d": b"event"})]
        assert is_running(folder)  # the first user still holds it
    assert not is_running(folder)


def test_a_kept_server_that_was_killed_is_started_again_but_no_longer_kept(folder: DataFolder) -> None:
    with embedded_server(folder.path, keep=True):
        pass
    kill_server(folder)
    with embedded_server(folder.path):
        assert is_running(folder)
    assert not is_running(folder)


def test_the_pid_of_an_unrelated_process_in_the_pid_file_misleads_nobody(folder: DataFolder) -> None:
    folder.pid_file.write_text(str(os.getpid()))
    with embedded_server(folder.path):
        assert server_pid(folder) != os.getpid()


def test_a_signal_to_a_users_terminal_does_not_reach_the_server(folder: DataFolder) -> None:
    with ExitStack() as stack:
        starter = user(stack, folder)
        next_line(starter)
        with embedded_server(folder.path) as server, redis.Redis.from_url(server.url) as client:
            assert os.getsid(server_pid(folder)) != os.getsid(starter.pid)
            os.killpg(starter.pid, signal.SIGINT)
            starter.wait()
            assert client.ping() is True


def test_a_server_is_nobodys_child_so_that_it_leaves_no_zombie(folder: DataFolder) -> None:
    with embedded_server(folder.path), pytest.raises(ChildProcessError):
        os.waitpid(server_pid(folder), os.WNOHANG)


def test_a_server_that_was_only_half_started_by_a_killed_user_is_waited_for(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = folder.path / "gate"
    os.mkfifo(gate)
    program(folder, monkeypatch, f'read line < "{gate}"\nexec "$SERVER" "$@"')
    with ExitStack() as stack:
        killed = user(stack, folder)
        wait_until(lambda: is_running(folder), "the half-started server")
        killed.kill()
        killed.wait()
        waiting = user(stack, folder)
        gate.write_text("go\n")
        next_line(waiting)
        assert starts(folder) == 1
        leave(waiting)
    assert not is_running(folder)


@pytest.mark.slow
def test_a_server_that_never_answers_is_an_error_with_the_end_of_its_log_and_does_not_lock_the_folder(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder, monkeypatch, "echo $$ > server.pid\necho this disk is slow\nexec sleep 1000")
    with pytest.raises(EmbeddedServerError) as caught:
        embedded_server(folder.path, start_timeout_s=3).open()
    pid = server_pid(folder)
    assert str(caught.value) == (
        f"the server of `{folder.path}` does not answer (waited 3 s); end it with `kill {pid}` and try again;"
        " the end of its log:\n  this disk is slow"
    )
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_running(folder), "the killed server to be gone")
    monkeypatch.delenv("PERMISSION_LEDGER_SERVER")
    with embedded_server(folder.path):
        assert is_running(folder)


def test_a_server_that_ends_while_starting_is_an_error_with_the_end_of_its_log(
    folder: DataFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(folder, monkeypatch, "echo first >&2\necho last\nexit 3")
    folder.log.write_text("of an earlier start\n")
    with pytest.raises(EmbeddedServerError) as caught:
        embedded_server(folder.path).open()
    assert str(caught.value) == (
        f"{find_binary()} (`{find_binary().path}`) ended while it was starting on"
        f" `{folder.path}`; the end of its log:\n  first\n  last"
    )
    assert caught.value.data["log"] == ["first", "last"]


def test_a_full_disk_that_stops_the_server_is_named(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    program(folder, monkeypatch, "echo 'Error writing the append only file: No space left on device'\nexit 1")
    with pytest.raises(EmbeddedServerError, match=f"the disk of `{folder.path}` is full; free some space"):
        embedded_server(folder.path).open()


def test_joining_a_running_server_needs_no_program(folder: DataFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with embedded_server(folder.path) as first:
        monkeypatch.setenv("PERMISSION_LEDGER_SERVER", "/nowhere")
        with embedded_server(folder.path) as second:
            assert first.url == second.url


def test_a_stop_that_the_server_does_not_follow_says_how_to_end_it(folder: DataFolder) -> None:
    with embedded_server(folder.path, keep=True):
        pass
    pid = server_pid(folder)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(EmbeddedServerError, match=f"does not end; end it with `kill {pid}`"):
            stop(folder.path, timeout_s=0.1)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert stop(folder.path) is True

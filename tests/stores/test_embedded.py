"""The embedded server in one process: started, shared, kept, stopped, cancelled."""

from __future__ import annotations

import asyncio
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
import redis

from ledger.core.regular_files import FileLock, is_held
from ledger.stores.embedded import EmbeddedServerError, embedded_server, probe, stop
from ledger.stores.embedded.folder import LOG_BYTES_MAX, DataFolder
from ledger.stores.embedded.launch import find_binary
from ledger.stores.embedded.probe import ServerInfo
from tests.support.waiting import wait_until_async

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "data"
    yield path
    stop(path)


def is_running(folder: Path) -> bool:
    return is_held(DataFolder(folder).server_lock)


@contextmanager
def start_lock_held(folder: Path) -> Iterator[FileLock]:
    """As if another process were just starting or stopping the server."""
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = FileLock(DataFolder(folder).start_lock)
    assert lock.try_exclusive()
    try:
        yield lock
    finally:
        lock.close()


def test_a_server_answers_at_its_url_with_settings_that_lose_nothing(folder: Path) -> None:
    wanted = {
        "port": "0",
        "unixsocketperm": "700",
        "appendonly": "yes",
        "appendfsync": "always",
        "aof-use-rdb-preamble": "no",
        "save": "",
        "maxmemory-policy": "noeviction",
        "stream-node-max-bytes": "1280",
        "dir": str(folder),
    }
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        assert {name: client.config_get(name)[name] for name in wanted} == wanted


def test_data_outlives_the_last_user_and_the_server_does_not(folder: Path) -> None:
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        client.xadd("stream", {"d": "event"}, id="5-1")
    assert not is_running(folder)
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        assert client.xrange("stream") == [(b"5-1", {b"d": b"event"})]


def test_nothing_of_a_server_that_has_ended_stays_but_data_locks_log_and_engine(folder: Path) -> None:
    with embedded_server(folder):
        pass
    left = {path.name for path in folder.iterdir()}
    assert left == {"appendonlydir", "engine", "server.lock", "server.log", "start.lock", "users.lock"}


def test_folder_socket_and_data_are_closed_to_other_users(folder: Path) -> None:
    with embedded_server(folder):
        paths = [folder, folder / "server.sock", folder / "appendonlydir"]
        assert [stat.S_IMODE(path.stat().st_mode) for path in paths] == [0o700, 0o700, 0o700]


def test_all_users_of_a_folder_share_one_server_and_the_last_one_ends_it(folder: Path) -> None:
    with embedded_server(folder) as first:
        pid = DataFolder(folder).pid()
        with embedded_server(folder) as second:
            assert (second.url, DataFolder(folder).pid()) == (first.url, pid)
        assert is_running(folder)
    assert not is_running(folder)


def test_a_link_to_a_folder_leads_to_the_same_server(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    with embedded_server(folder) as first, embedded_server(link) as second:
        assert first.url == second.url


def test_a_block_that_fails_still_ends_the_server(folder: Path) -> None:
    def fail() -> None:
        with embedded_server(folder):
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert not is_running(folder)


def test_a_kept_server_runs_until_it_is_stopped(folder: Path) -> None:
    with embedded_server(folder, keep=True):
        pass
    with embedded_server(folder):
        pass
    assert is_running(folder)
    assert stop(folder) is True
    assert not is_running(folder)


def test_joining_with_keep_keeps_the_server_that_others_started(folder: Path) -> None:
    with embedded_server(folder), embedded_server(folder, keep=True):
        pass
    assert is_running(folder)


def test_a_server_that_is_stopped_while_in_use_ends_with_its_last_user(folder: Path) -> None:
    with embedded_server(folder, keep=True):
        pass
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        assert stop(folder) is False
        assert client.ping() is True
    assert not is_running(folder)


def test_a_server_started_afresh_is_not_kept_because_an_earlier_one_was(folder: Path) -> None:
    with embedded_server(folder, keep=True):
        pass
    stop(folder)
    with embedded_server(folder):
        pass
    assert not is_running(folder)


def test_stopping_where_no_server_ever_ran_makes_nothing(folder: Path) -> None:
    assert stop(folder) is True
    assert not folder.exists()


def test_the_engine_that_wrote_a_folder_is_written_beside_the_data(folder: Path) -> None:
    with embedded_server(folder):
        pass
    assert (folder / "engine").read_text() == f"{find_binary()}\n"


def test_a_log_that_has_grown_large_is_set_aside_once(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    (folder / "server.log").write_bytes(b"x" * (LOG_BYTES_MAX + 1))
    with embedded_server(folder):
        pass
    assert (folder / "server.log.1").stat().st_size == LOG_BYTES_MAX + 1
    assert (folder / "server.log").stat().st_size < LOG_BYTES_MAX


def test_a_locale_that_the_machine_lacks_does_not_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_YY.nonsense")
    with embedded_server(folder):
        assert is_running(folder)


def test_nothing_secret_of_the_environment_lives_on_in_the_server(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMISSION_LEDGER_TOKEN", "secret")
    seen: list[str] = []
    program = find_binary().path
    wrapper = folder.parent / "wrapper"
    wrapper.write_text(f'#!/bin/sh\nenv > "{folder.parent}/seen"\nexec "{program}" "$@"\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("PERMISSION_LEDGER_SERVER", str(wrapper))
    with embedded_server(folder):
        seen = [line.split("=")[0] for line in (folder.parent / "seen").read_text().splitlines()]
    assert "LC_ALL" in seen
    assert "PERMISSION_LEDGER_TOKEN" not in seen


def test_waiting_for_others_ends_after_the_time_limit(folder: Path) -> None:
    with start_lock_held(folder), pytest.raises(EmbeddedServerError) as caught:
        embedded_server(folder, start_timeout_s=0.05).open()
    assert str(caught.value) == (
        f"another process has been starting or stopping the server of `{folder}` for 0.05 s;"
        " end that process, or try again"
    )


def test_a_server_that_is_still_reading_is_waited_for_as_long_as_it_gets_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit_s, answers = 0.5, 250  # far more polls than fit into the limit
    loaded_bytes = iter(range(1, answers + 1))
    ask_info = probe.ask_info

    def reading(socket: Path) -> ServerInfo | None:
        loaded = next(loaded_bytes, None)
        if loaded is None:
            return ask_info(socket)
        return ServerInfo("valkey", "9.0.0", pid=1, is_loading=True, loaded_bytes=loaded)

    monkeypatch.setattr(probe, "ask_info", reading)
    with embedded_server(folder, start_timeout_s=limit_s):
        assert next(loaded_bytes, None) is None


async def test_the_asynchronous_face_shares_the_server_with_the_synchronous_one(folder: Path) -> None:
    async with embedded_server(folder) as first:
        with embedded_server(folder) as second:
            assert first.url == second.url
    assert not is_running(folder)


async def test_waiting_for_others_does_not_block_the_loop(folder: Path) -> None:
    server = embedded_server(folder)
    with start_lock_held(folder):
        joining = asyncio.create_task(server.__aenter__())
        turns = iter(range(10))
        await wait_until_async(lambda: next(turns, None) is None, "ten turns of the loop")
        assert not joining.done()
    assert (await joining).url
    await server.__aexit__(None, None, None)
    assert not is_running(folder)


async def test_a_user_cancelled_while_waiting_for_others_holds_nothing(folder: Path) -> None:
    with start_lock_held(folder):
        joining = asyncio.create_task(embedded_server(folder).__aenter__())
        turns = iter(range(5))
        await wait_until_async(lambda: next(turns, None) is None, "the task to be waiting")
        joining.cancel()
        with pytest.raises(asyncio.CancelledError):
            await joining
    with start_lock_held(folder):
        assert not is_running(folder)


async def test_a_user_cancelled_while_the_server_starts_leaves_no_server(folder: Path) -> None:
    joining = asyncio.create_task(embedded_server(folder).__aenter__())
    await wait_until_async(lambda: folder.is_dir() and is_running(folder), "a server process")
    joining.cancel()
    with pytest.raises(asyncio.CancelledError):
        await joining
    assert not is_running(folder)


async def test_a_cancelled_block_ends_the_server(folder: Path) -> None:
    inside = asyncio.Event()

    async def use() -> None:
        async with embedded_server(folder):
            inside.set()
            await asyncio.Event().wait()

    using = asyncio.create_task(use())
    await inside.wait()
    using.cancel()
    with pytest.raises(asyncio.CancelledError):
        await using
    assert not is_running(folder)


async def test_a_start_that_fails_is_reported_to_the_coroutine(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(EmbeddedServerError):
        await embedded_server(path).__aenter__()


def test_a_user_that_leaves_closes_every_file_it_opened(folder: Path) -> None:
    before = os.listdir("/dev/fd")  # noqa: PTH208 - a path would be looked up in the middle of the listing
    with embedded_server(folder):
        pass
    assert os.listdir("/dev/fd") == before  # noqa: PTH208

"""Data folders that an embedded server takes, and the errors for all others."""

from __future__ import annotations

import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from ledger.stores.embedded import EmbeddedServerError, embedded_server, stop
from ledger.stores.embedded.errors import folder_error
from ledger.stores.embedded.folder import SOCKET_PATH_BYTES_MAX, DataFolder, choose_socket
from ledger.stores.embedded.launch import find_binary
from tests.support.processes import next_line, python


def refusal(folder: Path) -> str:
    with pytest.raises(EmbeddedServerError) as caught:
        embedded_server(folder).open()
    return str(caught.value)


def serves(folder: Path) -> bool:
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        return bool(client.ping())


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def long_folder(tmp_path: Path) -> Path:
    return tmp_path / ("long" * 30) / "data"


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A short private XDG_RUNTIME_DIR."""
    with tempfile.TemporaryDirectory(prefix="pl-") as path:
        monkeypatch.setenv("XDG_RUNTIME_DIR", path)
        yield Path(path)


@pytest.mark.parametrize(
    "name", ["with spaces", "ünï-cödé-文件夹", "q?a=1#f%20&'\"$x", "-dash", os.fsdecode(b"\xff\xfe")]
)
def test_a_folder_may_have_any_name(tmp_path: Path, name: str) -> None:
    assert serves(tmp_path / name)


def test_missing_parents_are_made(tmp_path: Path) -> None:
    assert serves(tmp_path / "a" / "b")


def test_a_file_is_no_data_folder(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    way_out = "name a folder (PERMISSION_LEDGER_HOME)"
    assert refusal(file) == f"cannot use the data folder `{file}`: it is a file; {way_out}"
    inside = file / "data"
    assert refusal(inside) == f"cannot use the data folder `{inside}`: a part of that path is a file; {way_out}"


def test_what_is_no_path_at_all_is_refused() -> None:
    assert refusal(Path("a\0b")) == "`a\0b` is not the path of a folder; name another"


def test_a_path_that_the_file_system_does_not_take_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / ("x" * 300)
    assert refusal(folder) == (
        f"cannot use the data folder `{folder}`: the path is too long; name a shorter one (PERMISSION_LEDGER_HOME)"
    )


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    program = """
import os, sys
from pathlib import Path
from ledger.stores.embedded import EmbeddedServerError, embedded_server
if os.geteuid() == 0:  # root may write everywhere
    os.setuid(65534)
try:
    embedded_server(Path(sys.argv[1])).open()
except EmbeddedServerError as error:
    print(error)
"""
    with python(program, closed / "data") as process:
        assert next_line(process) == (
            f"cannot use the data folder `{closed}/data`: permission denied; name a folder that you may write in"
            " (PERMISSION_LEDGER_HOME)"
        )


@pytest.mark.parametrize(
    ("number", "way_out"),
    [
        (errno.ENOSPC, "the disk is full; free some space and try again"),
        (errno.EROFS, "the file system is read-only; name a folder that you may write in (PERMISSION_LEDGER_HOME)"),
        (errno.ENOLCK, "its file system has no file locks; name a folder on a local disk (PERMISSION_LEDGER_HOME)"),
        (errno.EIO, "input/output error; name another folder (PERMISSION_LEDGER_HOME)"),
    ],
)
def test_what_the_operating_system_refuses_is_one_sentence_with_the_way_out(number: int, way_out: str) -> None:
    error = folder_error(Path("/data"), OSError(number, os.strerror(number)))
    assert str(error) == f"cannot use the data folder `/data`: {way_out}"


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert serves(tmp_path / "data")
    monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
    assert refusal(tmp_path / "data") == (
        f"the data folder `{tmp_path}/data` belongs to another user; name one of your own (PERMISSION_LEDGER_HOME)"
    )


def test_an_open_folder_of_other_things_is_refused_and_left_alone(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "letter.txt").touch()
    assert refusal(home) == (
        f"`{home}` holds other files and is open to other users; name an empty or new folder"
        " (PERMISSION_LEDGER_HOME), or make it private with `chmod 700`"
    )
    assert stat.S_IMODE(home.stat().st_mode) == 0o755
    assert [path.name for path in home.iterdir()] == ["letter.txt"]


def test_an_own_folder_that_was_opened_to_others_is_closed_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert serves(folder)
    folder.chmod(0o755)
    assert serves(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_the_socket_of_a_long_path_lies_in_a_short_private_folder_that_ends_with_the_server(
    long_folder: Path, runtime: Path
) -> None:
    with embedded_server(long_folder) as server, redis.Redis.from_url(server.url) as client:
        assert client.ping() is True
        [short] = runtime.iterdir()
        assert server.url == f"unix://{short}/server.sock"
        assert len(f"{short}/server.sock") <= SOCKET_PATH_BYTES_MAX
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
    assert list(runtime.iterdir()) == []


def test_users_with_different_runtime_folders_find_the_same_socket(
    long_folder: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with embedded_server(long_folder) as first:
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        with embedded_server(long_folder) as second:
            assert first.url == second.url
    assert list(runtime.iterdir()) == []


def test_different_long_folders_have_different_sockets(tmp_path: Path, runtime: Path) -> None:
    one, other = (choose_socket(tmp_path / ("long" * 30) / name) for name in ("one", "other"))
    assert one.parent.parent == other.parent.parent == runtime
    assert one != other


def test_without_a_runtime_folder_of_ones_own_the_temp_folder_is_taken(long_folder: Path, tmp_path: Path) -> None:
    for runtime in ("", "relative", str(tmp_path / "missing")):
        socket = choose_socket(long_folder, {"XDG_RUNTIME_DIR": runtime})
        assert socket.parent.parent == Path(tempfile.gettempdir())
        socket.parent.rmdir()


def test_a_short_folder_that_is_a_link_is_refused(long_folder: Path, runtime: Path, tmp_path: Path) -> None:
    short = choose_socket(long_folder).parent
    short.rmdir()
    short.symlink_to(tmp_path)
    assert refusal(long_folder) == (
        f"`{short}` is a link or belongs to somebody else, so the server's socket is not put there; remove it"
    )


def test_a_short_folder_of_somebody_else_is_refused(
    long_folder: Path, runtime: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = choose_socket(long_folder, {"XDG_RUNTIME_DIR": ""}).parent
    try:
        monkeypatch.setattr(os, "geteuid", lambda: 4_000_000)
        with pytest.raises(EmbeddedServerError, match="is a link or belongs to somebody else"):
            choose_socket(long_folder, {"XDG_RUNTIME_DIR": ""})
    finally:
        short.rmdir()


def test_a_temp_folder_that_is_too_long_as_well_is_refused(
    long_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(long_folder))
    long_folder.mkdir(parents=True, mode=0o700)
    with pytest.raises(EmbeddedServerError, match="are both too long for a unix socket; name a shorter folder"):
        choose_socket(long_folder)


def test_data_that_the_server_cannot_read_is_an_error_that_names_the_last_writer_and_deletes_nothing(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "data"
    assert serves(folder)
    (folder / "engine").write_text("redis 99.0.0\n")
    [log] = (folder / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(b"*2\r\n$6\r\nFUTURE\r\n$1\r\nx\r\n")
    before = contents(folder / "appendonlydir")
    with pytest.raises(EmbeddedServerError) as caught:
        embedded_server(folder).open()
    binary = find_binary()
    text, _, log_tail = str(caught.value).partition("\n")
    assert text == (
        f"{binary} (`{binary.path}`) ended while it was starting on `{folder}`, which redis 99.0.0 wrote last;"
        " nothing was deleted: if it cannot read what that one wrote, name a server of that kind or newer with"
        " PERMISSION_LEDGER_SERVER; the end of its log:"
    )
    assert "FUTURE" in log_tail
    assert caught.value.data["last_server"] == "redis 99.0.0"
    assert contents(folder / "appendonlydir") == before
    assert (folder / "engine").read_text() == "redis 99.0.0\n"


def test_data_written_by_the_other_engine_is_read_when_it_can_be(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    assert serves(folder)
    (folder / "engine").write_text("redis 7.0.15\n")
    assert serves(folder)
    assert (folder / "engine").read_text() == f"{find_binary()}\n"


def test_what_a_power_cut_tore_off_does_not_stop_the_server(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        client.set("key", "value")
    [log] = (folder / "appendonlydir").glob("*.incr.aof")
    log.write_bytes(log.read_bytes() + b"*3\r\n$3\r\nSET\r\n$3\r\nke")
    with embedded_server(folder) as server, redis.Redis.from_url(server.url) as client:
        assert client.keys() == [b"key"]


def test_a_folder_removed_while_in_use_does_not_break_leaving(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    server = embedded_server(folder)
    with server:
        aside = folder.rename(tmp_path / "aside")
    assert DataFolder(aside).pid()
    aside.rename(folder)
    assert stop(folder) is True

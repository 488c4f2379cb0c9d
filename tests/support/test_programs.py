"""A missing server is always reported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support import programs
from tests.support.processes import ROOT
from tests.support.programs import ALL_SERVERS_VARIABLE, OTHERS, REDIS_7, binary_named, left_out, others_to_test

TEST: Final = "tests/stores/test_conformance_append.py::test_the_first_append_makes_the_stream_and_begins_at_version_1"


@pytest.fixture
def without_redis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_REDIS_8_WHEEL", "no-such-distribution")
    monkeypatch.delenv(ALL_SERVERS_VARIABLE, raising=False)


@pytest.mark.usefixtures("without_redis")
def test_what_is_not_there_is_left_out_with_the_reason() -> None:
    assert others_to_test() == ()
    assert left_out() == {
        "redis-7.0": "there is no `redis-server` on the PATH",
        "redis-8": "the no-such-distribution package is not installed",
    }


@pytest.mark.usefixtures("without_redis")
def test_what_is_wanted_is_never_left_out_and_fails_when_it_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ALL_SERVERS_VARIABLE, "1")
    assert (others_to_test(), left_out()) == (OTHERS, {})
    reason = "redis-7.0 is not on this machine: there is no `redis-server` on the PATH; `scripts/ci-tools` brings it"
    with pytest.raises(AssertionError, match=re.escape(reason)):
        binary_named(REDIS_7)


@pytest.mark.usefixtures("without_redis")
def test_a_server_of_another_version_is_not_taken_for_the_one_that_is_named(tmp_path: Path) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho 'Redis server v=7.2.4 sha=0'\n")
    program.chmod(0o755)
    assert left_out()["redis-7.0"] == f"`{program}` is redis 7.2.4"


def run_on(store: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run one test in a pytest of its own, with no server on the PATH."""
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", f"{TEST}[{store}]"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(folder), ALL_SERVERS_VARIABLE: "", **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_run_without_a_server_says_at_the_end_what_it_left_out(tmp_path: Path) -> None:
    done = run_on("memory", tmp_path)
    assert done.returncode == 0
    assert "LEFT OUT: servers that are not on this machine" in done.stdout
    assert "every test of a store on redis-7.0: there is no `redis-server` on the PATH" in done.stdout


def test_a_run_that_must_have_all_servers_fails_without_one(tmp_path: Path) -> None:
    done = run_on(REDIS_7, tmp_path, **{ALL_SERVERS_VARIABLE: "1"})
    assert done.returncode == 1
    assert "redis-7.0 is not on this machine" in done.stdout
    assert "LEFT OUT: servers" not in done.stdout

"""A missing server is never left out in silence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support import programs
from tests.support.programs import REDIS_7, REDIS_8, binary_named


@pytest.fixture
def without_redis(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(programs, "_REDIS_8_WHEEL", "no-such-distribution")


@pytest.mark.usefixtures("without_redis")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (REDIS_7, "there is no `redis-server` on the PATH"),
        (REDIS_8, "the no-such-distribution package is not installed"),
    ],
)
def test_a_server_that_is_not_there_fails_its_tests_and_says_what_brings_it(name: str, reason: str) -> None:
    told = f"{name} is not on this machine: {reason}; `scripts/ci-tools` brings it"
    with pytest.raises(AssertionError, match=re.escape(told)):
        binary_named(name)


@pytest.mark.usefixtures("without_redis")
def test_a_server_of_another_version_is_not_taken_for_the_one_that_is_named(tmp_path: Path) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\necho 'Redis server v=7.2.4 sha=0'\n")
    program.chmod(0o755)
    with pytest.raises(AssertionError, match=re.escape(f"`{program}` is redis 7.2.4")):
        binary_named(REDIS_7)

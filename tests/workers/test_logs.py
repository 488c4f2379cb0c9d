"""Logs of what runs until it is stopped: one line an event, with time, level and worker."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from ledger.stores.embedded import stop
from tests.journeys.processes import Stage
from tests.support.servers import RealServer
from workers.runtime.logs import JsonLines, TextLines, set_up

LINE: Final = re.compile(
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (debug|info|warning|error|critical) "
    r"(up|expiry|projector|indexer|gateway|notifier) \S.*\n"
)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data")
    yield stage
    stage.close()
    stop(stage.folder.path)


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    """A server that a test may kill."""
    server = RealServer(tmp_path_factory.mktemp("own-server"))
    server.start()
    yield server
    server.remove()


def record(message: str, *values: object, error: BaseException | None = None, name: str = "workers.expiry") -> Any:
    exc_info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord(name, logging.WARNING, "x.py", 1, message, values, exc_info)
    made.created = 1_774_000_000.25
    return made


def raised(error: Exception) -> Exception:
    """The error with a traceback."""

    def fail() -> None:
        raise error

    with pytest.raises(type(error)):
        fail()
    return error


def test_a_message_of_several_lines_and_its_exception_are_one_line_of_text() -> None:
    line = TextLines("expiry").format(record("expiry: one\ntwo", error=raised(ValueError("a\nb"))))
    assert line.startswith(r"2026-03-20T09:46:40.250Z warning expiry one\ntwo (ValueError: a\nb, ")
    assert "\n" not in line


def test_an_exception_is_a_field_of_a_json_line_with_its_traceback() -> None:
    line = JsonLines("expiry").format(record("cannot go on: %s", "x", error=raised(ValueError("bad"))))
    row = json.loads(line)
    assert list(row) == ["time", "level", "worker", "logger", "message", "exception"]
    assert (row["time"], row["worker"], row["message"]) == ("2026-03-20T09:46:40.250Z", "expiry", "cannot go on: x")
    assert row["exception"].startswith("Traceback (most recent call last):\n")
    assert row["exception"].endswith("ValueError: bad")
    assert "\n" not in line


@pytest.mark.parametrize("lines", [TextLines("up"), JsonLines("up")], ids=["text", "json"])
def test_passwords_and_tokens_are_blotted_out(lines: logging.Formatter) -> None:
    secret = raised(ValueError("redis://ann:geheim@host and plt_abc123_geheim-x"))
    line = lines.format(record("at redis://ann:geheim@host with plt_abc123_geheim-x", error=secret))
    assert "geheim" not in line
    assert "plt_abc123_***" in line


def test_a_library_is_named_and_told_from_its_own_level_on(capfd: pytest.CaptureFixture[str]) -> None:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        set_up("expiry")
        logging.getLogger("apscheduler.scheduler").warning("Execution of job skipped")
        logging.getLogger("apscheduler.executors").error("Job raised")
        logging.getLogger("uvicorn.error").info("Started server process")
    finally:
        logging.captureWarnings(capture=False)
        root.handlers[:], root.level = before
    err = capfd.readouterr().err
    assert [line.partition(" error ")[2] for line in err.splitlines()] == ["expiry apscheduler.executors: Job raised"]


@pytest.mark.slow
def test_the_embedded_servers_death_and_return_are_lines_of_up(stage: Stage) -> None:
    up = stage.run("up", "--listen", "none", "--log-level", "info")
    up.wait_for_word("expiry subscribed to")
    up.wait_for_word("consumer group")
    stage.kill_server()
    for worker in ("expiry", "projector"):
        up.wait_for_word(f"{worker} lost the connection to the server")
        up.wait_for_word(f"{worker} reached the server again after ")
    up.wait_for_word("had died; it was started again")
    assert up.end() == 0
    told = [line for line in up.complained if "had died" in line]
    assert len(told) == 1
    assert [line for line in up.complained if not LINE.fullmatch(line)] == []


@pytest.mark.slow
def test_a_worker_tells_once_that_its_server_is_lost_and_once_that_it_is_reached_again(
    stage: Stage, own_server: RealServer
) -> None:
    worker = stage.run("worker", "projector", "--log-format", "json", "--url", own_server.url, "--log-level", "info")
    worker.wait_for_word("consumer group")
    own_server.kill9()
    worker.wait_for_word("lost the connection")
    worker.wait_for_word("failed, trying again")
    own_server.start()
    worker.wait_for_word("reached the server again")
    assert worker.end() == 0
    rows = [json.loads(line) for line in worker.complained]
    assert {row["worker"] for row in rows} == {"projector"}
    for text in ("lost the connection", "reached the server again", "failed, trying again"):
        assert len([row for row in rows if row["message"].startswith(text)]) == 1


def test_the_error_that_ends_a_worker_is_a_line_of_its_json_log(stage: Stage) -> None:
    worker = stage.run("worker", "expiry", "--url", "redis://127.0.0.1:1", PERMISSION_LEDGER_LOG_FORMAT="json")
    assert worker.wait() == 8
    (line,) = worker.complained
    row = json.loads(line)
    assert (row["level"], row["worker"]) == ("error", "expiry")
    assert "127.0.0.1:1" in row["message"]

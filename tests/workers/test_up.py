"""`up`: started, used from elsewhere, hurt, started twice, and ended with Ctrl-C."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
import redis

from ledger.core.regular_files import is_held
from ledger.stores.embedded import stop
from tests.journeys.processes import Process, Stage, is_alive
from tests.support.collector import collecting
from tests.support.waiting import wait_until

if TYPE_CHECKING:
    from tests.support.servers import StartServer


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data")
    yield stage
    stage.close()
    stop(stage.folder.path)


def pid_of(up: Process, name: str) -> int:
    return int(up.wait_for_word(f"  {name} ").rpartition(" ")[2])


@pytest.mark.slow
def test_everything_runs_until_ctrl_c_and_nothing_after_it(stage: Stage) -> None:
    up = stage.run("up")
    up.wait_for_word("Ctrl-C ends it")
    workers = [pid_of(up, "expiry"), pid_of(up, "projector")]
    ask = stage.run("ask", "ses_1", "bash", "git push", "--unattended", "300ms", "--no-wait")
    assert ask.wait() == 7
    observer = stage.player("observer")
    observer.wait_event("ses_1", "expired")
    observer.close()
    assert up.end(signal.SIGINT) == 0
    assert up.said[-1] == "permission-ledger is down\n"
    assert up.complained == []
    wait_until(lambda: not any(map(is_alive, workers)), "the workers to end")
    wait_until(lambda: not is_held(stage.folder.server_lock), "the server to end")


@pytest.mark.slow
def test_a_worker_that_dies_is_started_again(stage: Stage) -> None:
    up = stage.run("up")
    up.wait_for_word("Ctrl-C ends it")
    os.kill(pid_of(up, "expiry"), signal.SIGKILL)
    up.wait_for_word("expiry was started again, process ")
    ended, again = (line.split(" ", 3) for line in up.complained)
    assert (ended[1:3], again[1:3]) == (["warning", "up"], ["warning", "up"])
    assert ended[3] == "expiry ended (killed by signal 9); starting again in 0.5 s\n"
    observer = stage.player("observer")
    observer.do("open", on="ses_1", timeouts={"unattended": 0.3})
    observer.do("submit", "bash", ["git push"], on="ses_1")
    observer.wait_event("ses_1", "expired")
    observer.close()
    assert up.end() == 0


@pytest.mark.slow
def test_workers_do_not_outlive_an_up_that_was_killed(stage: Stage) -> None:
    up = stage.run("up")
    up.wait_for_word("Ctrl-C ends it")
    workers = [pid_of(up, "expiry"), pid_of(up, "projector")]
    up.kill9()
    wait_until(lambda: not any(map(is_alive, workers)), "the workers to end")


@pytest.mark.slow
def test_a_second_up_on_the_same_folder_joins_the_first(stage: Stage) -> None:
    first = stage.run("up")
    first.wait_for_word("Ctrl-C ends it")
    second = stage.run("up")
    assert second.wait_for_word("  server ").endswith("(was running already)\n")
    second.wait_for_word("Ctrl-C ends it")
    assert first.end() == 0
    assert is_held(stage.folder.server_lock)
    assert second.end() == 0


@pytest.mark.slow
def test_another_server_is_used_as_its_url_says_and_its_password_is_told_to_nobody(start_server: StartServer) -> None:
    server = start_server()
    with redis.Redis.from_url(server.url) as admin:
        admin.config_set("requirepass", "hush")
    up = Process(["-m", "workers.cli", "up", "--url", f"unix://:hush@{server.socket}"])
    up.wait_for_word("Ctrl-C ends it")
    assert f"  server     unix://:***@{server.socket}\n" in up.said
    assert "hush" not in Path(f"/proc/{pid_of(up, 'expiry')}/cmdline").read_text()
    assert "hush" not in "".join(up.said)
    assert (up.end(), up.complained) == (0, [])


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--url", "unix:///nowhere.sock"], 8, "error: the ledger's server cannot be reached"),
        (["--url", "unix:///nowhere.sock", "--home", "data"], 12, "error: give either --url or --home"),
        (["--url", "carrier://pigeon"], 12, "error: unsupported URL scheme in `carrier://pigeon`"),
    ],
)
def test_what_cannot_be_started_is_told_in_a_line(words: list[str], code: int, told: str) -> None:
    up = Process(["-m", "workers.cli", "up", *words])
    assert up.wait() == code
    assert up.complained[0].startswith(told)
    assert up.said == []


@pytest.mark.slow
def test_a_notifier_runs_too_when_it_is_configured(stage: Stage, tmp_path: Path) -> None:
    config = tmp_path / "notify.toml"
    config.write_text('[[people]]\nname = "ann"\nservices = ["json://127.0.0.1:9/x"]')
    # apprise looks for a module that Python is about to drop.
    up = stage.run("up", "--listen", "none", "--notify", str(config), PYTHONWARNINGS="default")
    up.wait_for_word("Ctrl-C ends it")
    notifier = pid_of(up, "notifier")
    assert up.end(signal.SIGINT) == 0
    wait_until(lambda: not is_alive(notifier), "the notifier to end")


@pytest.mark.slow
def test_the_gateway_exports_its_spans_where_the_environment_names_a_collector(stage: Stage) -> None:
    with collecting() as collector:
        up = stage.run("up", "--listen", "127.0.0.1:0", OTEL_EXPORTER_OTLP_ENDPOINT=collector.endpoint)
        address = up.wait_for_word("  http://").strip()
        made = stage.run("token", "create", "ci", "--role", "agent")
        assert made.wait() == 0
        with httpx.Client(
            base_url=address, headers={"Authorization": f"Bearer {made.said[0].strip()}"}, timeout=60
        ) as http:
            http.put("/v1/sessions/ses_1", json={})
            http.post("/v1/sessions/ses_1/asks", json={"permission": "bash", "patterns": ["x"], "request_id": "r1"})
        assert up.end(signal.SIGINT) == 0
        assert [one.name for one in collector.named("r1")] == ["permission_ledger.ask"]
    assert up.complained == []


def test_a_notifier_that_is_configured_wrongly_keeps_everything_from_starting(stage: Stage, tmp_path: Path) -> None:
    config = tmp_path / "notify.toml"
    config.write_text("people = []")
    up = stage.run("up", "--listen", "none", "--notify", str(config))
    assert up.wait() == 12
    assert up.said == []
    assert "nobody is named" in "".join(up.complained)


@pytest.mark.slow
def test_rules_and_deadlines_are_the_gateways(stage: Stage, tmp_path: Path) -> None:
    rules = tmp_path / "opencode.json"
    rules.write_text('{"permission": {"bash": "deny"}}')
    up = stage.run("up", "--listen", "127.0.0.1:0", "--rules", str(rules), "--unattended", "8h")
    assert "60s attended, 8h unattended" in up.wait_for_word("  deadlines  ")
    address = up.wait_for_word("  http://").strip()
    made = stage.run("token", "create", "ci", "--role", "agent")
    assert made.wait() == 0
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {made.said[0].strip()}"}) as http:
        assert http.put("/v1/sessions/ses_1", json={}).status_code == 201
        asked = http.post("/v1/sessions/ses_1/asks", json={"permission": "bash", "patterns": ["git push"]})
        assert asked.json()["outcome"] == "denied"
        waits = http.post("/v1/sessions/ses_1/asks", json={"permission": "edit", "patterns": ["a.py"]})
        assert waits.json()["outcome"] is None
    log = stage.run("log", "ses_1")
    assert log.wait() == 0
    assert log.said[-1].endswith("waits for 8h (unattended)\n")
    assert up.end() == 0


@pytest.mark.slow
def test_a_phone_reaches_the_gateway_by_the_address_of_its_notifications(stage: Stage, tmp_path: Path) -> None:
    config = tmp_path / "notify.toml"
    people = '[[people]]\nname = "ann"\nservices = ["json://127.0.0.1:9/x"]'
    config.write_text(f'public_url = "https://laptop.example"\n{people}')
    words = ("--listen", "127.0.0.1:0", "--notify", str(config), "--host", "other.example")
    up = stage.run("up", *words, PYTHONWARNINGS="default")
    with httpx.Client(base_url=up.wait_for_word("  http://").strip(), timeout=60) as http:
        names = ("laptop.example", "other.example", "evil.example")
        assert [http.get("/", headers={"Host": name}).status_code for name in names] == [200, 200, 421]
    assert up.end() == 0

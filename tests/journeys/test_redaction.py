"""A secret that no mask caught, through real processes: after a redaction its bytes are nowhere that can be searched."""

from __future__ import annotations

import json
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from redis import Redis

from ledger.core.commitments import keyed, short_digest
from ledger.core.questions import request_digest
from ledger.core.requests import make_question
from ledger.session.state import input_digest
from tests.support.command_line import CommandLine
from tests.support.gateways import RunningGateway
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

if TYPE_CHECKING:
    from tests.support.servers import RealServer, StartServer

SECRET = "hunter-two-of-the-shop"
LINE = f"deploy --to shop {SECRET}"
NOBODYS = ("git push", "make test")


@pytest.fixture(params=["everysec", "always"])
def server(start_server: StartServer, request: pytest.FixtureRequest) -> RealServer:
    """A server that keeps all on a disk, and every command in its slow log."""
    options = {"appendonly": "yes", "appendfsync": request.param, "save": "3600 1", "rdbcompression": "no"}
    return start_server("kept", options={**options, "slowlog-log-slower-than": "0", "slowlog-max-len": "100000"})


class Caller:
    """A client of the gateway's HTTP interface."""

    def __init__(self, gateway: RunningGateway, token: str) -> None:
        self._at = gateway.page_url
        self._token = token

    def __call__(self, method: str, path: str, body: Any = None, *, status: int | None = None) -> Any:
        asking = urllib.request.Request(f"{self._at}/v1/{path}", method=method)
        asking.add_header("Authorization", f"Bearer {self._token}")
        asking.add_header("Content-Type", "application/json")
        data = None if body is None else json.dumps(body).encode()
        try:
            with urllib.request.urlopen(asking, data, timeout=30) as answer:
                told, text = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            told, text = error.code, error.read()
        assert status in (None, told), text
        return json.loads(text)


def places(server: RealServer, *texts: str) -> list[str]:
    """Return the keys, files and logs of the server in which any of these texts is."""
    found = []
    wanted = [text.encode() for text in texts]
    with Redis.from_url(server.url) as client:
        for key in client.scan_iter(count=1000):
            dump = client.dump(key) or b""
            found += [f"key {key!r}" for one in wanted if one in dump or one in key]
        slow = repr(client.slowlog_get(100_000)).encode()
        found += ["slow log" for one in wanted if one in slow]
    files = [path for path in server.folder.rglob("*") if path.is_file()]
    return found + [f"file {path.name}" for path in files for one in wanted if one in path.read_bytes()]


def read_everything(ann: Caller) -> str:
    """Return what the gateway shows of the session, past states included, which it then keeps in memory."""
    paths = ("state", "state?at=2", "state?at=3", "timeline", "log", "outline", "asks/r1")
    return json.dumps([ann("GET", f"sessions/s1/{path}") for path in paths] + [ann("GET", "grants?project=shop")])


@contextmanager
def ended(process: subprocess.Popen[str]) -> Iterator[list[str]]:
    """End a process after the block, also if that fails; yield what it has said by then."""
    said: list[str] = []
    try:
        yield said
    finally:
        process.terminate()
        said += process.communicate(timeout=60)


def test_after_a_redaction_the_bytes_are_in_no_key_file_view_export_or_log(
    server: RealServer, gateway: RunningGateway, tmp_path: Path
) -> None:
    agent = Caller(gateway, json.loads((gateway.home / "gateway.json").read_text())["token"])
    ann, command = Caller(gateway, gateway.token()), CommandLine(server.url)
    with command.started("worker", "projector") as projector, ended(projector) as said:
        agent("PUT", "sessions/s1", {"project": "shop"})
        asked = {"permission": "bash", "patterns": [LINE], "always": [f"{LINE} *"], "metadata": {"why": SECRET}}
        call = {"tool_name": "bash", "input": {"command": LINE}, "request_id": "r1"}
        agent("POST", "sessions/s1/asks", {**asked, **call}, status=202)
        for other in NOBODYS:
            agent("POST", "sessions/s1/asks", {"permission": "bash", "patterns": [other]}, status=202)
        ann("POST", "sessions/s1/asks/r1/reply", {"reply": "always", "message": f"only with {SECRET}"}, status=200)
        agent("POST", "sessions/s1/asks/r1/claim", {"runner": "w1"}, status=200)
        wait_until(lambda: SECRET in json.dumps(ann("GET", "sessions/s1/timeline")), "the timeline of the session", 30)
        assert SECRET in read_everything(ann)
        wait_until(lambda: any("view" in place for place in places(server, SECRET)), "the views of the session", 30)
        with Redis.from_url(server.url) as client:
            client.save()
        before = places(server, SECRET)
        assert {"slow log", "file dump.rdb"} < set(before)
        assert any("aof" in place for place in before)
        assert any("view" in place for place in before)
        left = (gateway.home / "log").read_text()

        done = command(
            "redact", "--matching", SECRET, "--since", "1h", "--reason", "a password", "--yes", "--json", code=0
        )
        assert [row["stream"] for row in done.rows[:-1]] == ["session:s1", "project:shop"]

        assert places(server, SECRET) == []
        assert ann("GET", "sessions/s1/asks/r1", status=410)["code"] == "REDACTED"
        assert SECRET not in read_everything(ann)
        refused = agent("POST", "sessions/s1/asks", {**asked, **call}, status=410)
        assert refused["code"] == "REDACTED"
        exported = tmp_path / "export.jsonl"
        command("export", "--all", "--out", exported, code=0)
        assert SECRET not in exported.read_text()
        assert "git push" in exported.read_text()
        assert SECRET not in command("log", "s1", code=0).out
        assert "of them redacted" in command("verify", "--all", code=0).err
        assert command("rebuild", "--verify", "--json", code=0)
        # Nothing that was written before lets a guess be confirmed either.
        question = make_question("bash", [LINE], always=[f"{LINE} *"], metadata={"why": SECRET}, tool_name="bash", tool_input={"command": LINE})  # fmt: skip
        plain = [question.digest, request_digest(question, None), input_digest({"command": LINE})]
        lines = [json.loads(line) for line in exported.read_text().splitlines()]
        salts = [json.loads(line["x"])["salt"] for line in lines if "x" in line]
        guesses = [*plain, *(keyed(digest, salt) for digest in plain for salt in salts)]
        spelled = [form for one in guesses for form in (one, short_digest(one)) if form is not None]
        assert [one for one in spelled if one in exported.read_text()] == []
    assert SECRET not in "".join(said)
    assert SECRET not in left + (gateway.home / "log").read_text()
    waiting = ann("GET", "pending?session=s1")["pending"]
    assert [row["patterns"] for row in waiting] == [[one] for one in NOBODYS]

"""A ledger that version 0.2.0 wrote with schema 1 (`tests/data/older`): opened, shown, verified, gone on with, carried."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
import redis

from ledger import DifferentRequestError, Ledger
from ledger.core.requests import make_question
from ledger.stores.keys import Keys
from ledger.stores.port import START, StreamKey
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer

if TYPE_CHECKING:
    from tests.support.servers import StartServer

FOLDER: Final = Path(__file__).parents[1] / "data" / "older"
RAW: Final[list[dict[str, Any]]] = [json.loads(line) for line in (FOLDER / "server.jsonl").read_text().splitlines()]
ENTRIES: Final = [line for line in RAW if "key" in line]
EXPORT: Final = FOLDER / "export.jsonl"
WORK: Final = StreamKey("session", "ses_work")

OUTCOMES: Final = {
    "by_rule": "allowed",
    "denied": "denied",
    "once": "allowed",
    "always": "allowed",
    "by_project_grant": "allowed",
    "session": "allowed",
    "by_session_grant": "allowed",
    "corrected": "corrected",
    "cancelled": "cancelled",
    "edited": "allowed",
    "waits": None,
    "waits_too": None,
}


@pytest.fixture
def server(start_server: StartServer) -> RealServer:
    """A server as that version left it."""
    server = start_server()
    with redis.Redis.from_url(server.url) as client:
        client.hset("pl:config", mapping=RAW[0]["config"])
        for line in ENTRIES:
            client.xadd(line["key"], {"d": line["d"]}, id=line["id"])
        for line in RAW[1 + len(ENTRIES) :]:
            client.zadd(line["due"], line["sessions"])
    return server


@pytest.fixture
def command(server: RealServer) -> CommandLine:
    return CommandLine(server.url)


def written(server: RealServer) -> dict[str, list[tuple[str, dict[str, str]]]]:
    with redis.Redis.from_url(server.url, decode_responses=True) as client:
        found: dict[str, Any] = {key: client.xrange(key) for key in client.scan_iter(match="{pl:*}:[spar]:*")}
        return found


def as_it_was() -> dict[str, list[tuple[str, dict[str, str]]]]:
    found: dict[str, list[tuple[str, dict[str, str]]]] = {}
    for line in ENTRIES:
        found.setdefault(line["key"], []).append((line["id"], {"d": line["d"]}))
    return found


def test_the_data_is_what_these_tests_speak_of() -> None:
    payloads = [json.loads(line["d"]) for line in ENTRIES]
    assert {line.keys() - {"key", "id"} == {"d"} for line in ENTRIES} == {True}
    assert Counter(payload["v"] for payload in payloads)[1] > 30
    assert {payload["event"]["type"] for payload in payloads} >= {
        "session_opened", "asked", "replied", "granted", "revoked", "expired", "cancelled", "client_connected",
        "notification", "tool_finished", "session_closed", "token_created",
    }  # fmt: skip


def test_it_is_opened_shown_and_verified_and_nothing_of_it_changes(server: RealServer, command: CommandLine) -> None:
    assert {row["session"] for row in command("sessions", "--json", code=0).rows} == {
        "ses_closed", "ses_quick", "ses_signed", "ses_work",
    }  # fmt: skip
    assert {row["request_id"] for row in command("pending", "--json", code=0).rows} == {
        "must_be_signed", "waits", "waits_too",
    }  # fmt: skip
    state = command("show", "ses_work", "--json", code=0).row["state"]
    assert {one["request_id"]: one["outcome"] for one in state["settled"]} == {
        request_id: outcome for request_id, outcome in OUTCOMES.items() if outcome
    }
    for words in (("log", "ses_work"), ("replay", "ses_work", "--speed", "0"), ("approved", "--project", "shop")):
        assert command(*words, code=0).out
    rows = command("verify", "--all", "--json", code=0).rows
    assert [row["problems"] for row in rows] == [[]] * len(rows)
    assert written(server) == as_it_was()


async def test_it_is_gone_on_with_in_the_same_streams_with_schema_2(server: RealServer, command: CommandLine) -> None:
    async with Ledger.connect(server.url, actor="newer-agent", entry_points=False) as ledger:
        work = await ledger.attach("ses_work")
        for request_id, outcome in OUTCOMES.items():
            assert (await work.result(request_id)).outcome == outcome
        # Attached to by its content, whose digest is plain.
        again = await work.submit(
            "bash", ["docker push shop"], always=["docker push *"], metadata={"n": 1}, request_id="waits"
        )
        assert again.outcome is None
        with pytest.raises(DifferentRequestError):
            await work.submit("bash", ["docker push other"], request_id="waits")
        shown = (await work.state()).pending["waits_too"].digest
        assert (await work.reply("waits_too", "once", digest=shown, actor="ann")).outcome == "allowed"
        assert (await work.reply("waits", "always", actor="ann")).outcome == "allowed"
        await work.note_tool_finished(
            "waits", ran=make_question("bash", ["docker push shop"], always=["docker push *"], metadata={"n": 1})
        )
        assert (await work.submit("bash", ["docker push more"], request_id="new_by_old_grant")).outcome == "allowed"
        assert (await work.submit("bash", ["npm ci"], request_id="by_older_grant")).outcome == "allowed"
        entries = await ledger.store.read(WORK, START, 1000)
    older = len(as_it_was()[Keys(ledger.store.partition_count).stream(WORK)])
    versions = [json.loads(entry.payload)["v"] for entry in entries]
    assert set(versions[:older]) == {1}
    assert set(versions[older:]) == {2}
    finished = next(json.loads(one.payload) for one in entries[older:] if b'"tool_finished"' in one.payload)
    assert finished["event"]["as_asked"] is True
    command("verify", "--all", code=0)
    command("rebuild", code=0)
    assert [row for row in command("rebuild", "--verify", "--json", code=0).rows if not row["same"]] == []


@pytest.mark.slow
def test_it_is_exported_and_the_file_of_the_older_version_is_imported(
    command: CommandLine, start_server: StartServer, tmp_path: Path
) -> None:
    out = tmp_path / "out.jsonl"
    command("export", "--all", "--out", out, code=0)
    mine, older = (path.read_text().splitlines() for path in (out, EXPORT))
    assert json.loads(mine[0]) == {"file": "permission-ledger export", "format": 2}
    assert json.loads(older[0]) == {"file": "permission-ledger export", "format": 1}
    assert [json.loads(line) for line in mine[1:]] == [json.loads(line) for line in older[1:]]
    for name, file in (("of the older", EXPORT), ("of this", out)):
        other = CommandLine(start_server(name.replace(" ", "-")).url)
        other("import", file, "--with-grants", code=0)
        other("verify", "--all", code=0)
        other("reply", "waits", "once", "--session", "ses_work", code=0)
        assert other("ask", "ses_work", "bash", "npm ci", "--json", code=0).row["outcome"] == "allowed"
        again = tmp_path / f"{name}.jsonl"
        other("export", "--all", "--out", again, code=0)
        last = CommandLine(start_server(f"last-{name.replace(' ', '-')}").url)
        last("import", again, "--with-grants", code=0)
        last("verify", "--all", code=0)


def test_an_older_process_that_is_connected_keeps_this_version_out(server: RealServer, command: CommandLine) -> None:
    with redis.Redis.from_url(server.url, client_name="permission-ledger") as older:
        older.ping()
        ran = command("pending", code=12)
    assert "an older version of permission-ledger is connected to this server" in ran.err
    assert "end its processes (agents, workers, gateways), then start this one again" in ran.err
    assert "hint: docs/guides/upgrade.md describes the upgrade" in ran.err
    command("pending", code=0)

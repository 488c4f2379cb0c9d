"""Damage of one stream: every command names it, and still shows all other streams."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
import redis

from tests.projections.looking import RULES_OF_ALL
from tests.support.command_line import CommandLine
from tests.support.forging import TOO_LATE_MS, forge, unchanged, with_an_edit, with_endless_durations
from tests.support.servers import RealServer
from tests.workers.cli.filling import fill, names

BAD: Final = {"ses_edited", "ses_endless", "ses_late", "ses_other_kind"}
"""Edited; with durations of 2^62 ms; dated after the year 9999; and a key that is no stream at all."""


@pytest.fixture
def spoiled(ledger: CommandLine, server: RealServer) -> CommandLine:
    """A whole ledger, and beside it a session for each kind of damage, in which a request waits."""
    fill(ledger)
    for session in sorted(BAD):
        ledger("ask", session, "bash", "ls", "--no-wait", code=7)
    with redis.Redis.from_url(server.url) as client:
        keys = {name: names(client, f"*}}:s:{name}")[0] for name in BAD}
        # The hint stays: somebody waits in it.
        client.delete(keys["ses_other_kind"])
        client.set(keys["ses_other_kind"], "something else")
    with_an_edit(server.url, keys["ses_edited"])
    forge(server.url, keys["ses_endless"], with_endless_durations)
    forge(server.url, keys["ses_late"], unchanged, shift_ms=TOO_LATE_MS)
    return ledger


def test_what_waits_elsewhere_is_shown_and_answered_beside_damage(spoiled: CommandLine) -> None:
    ran = spoiled("pending", "--json", code=11)
    assert [row["request_id"] for row in ran.rows] == ["p1"]
    problems = [json.loads(line) for line in ran.err.splitlines()]
    assert {one["session"] for one in problems} == BAD
    assert {one["code"] for one in problems} == {"DAMAGED"}
    told = spoiled("pending", code=11)
    assert "p1" in told.out
    assert all(name in told.err for name in BAD)
    spoiled("reply", "p1", "once", code=0)
    refused = spoiled("reply", "nothing", "once", code=9).err
    assert "no session has a request `nothing`; damaged streams, not read: `session:ses_" in refused


def test_sessions_streams_and_replays_name_the_bad_and_show_the_rest(spoiled: CommandLine) -> None:
    ran = spoiled("sessions", "--json", code=11)
    assert {row["session"] for row in ran.rows} == {"ses_1", "ses_2"}
    assert {json.loads(line)["session"] for line in ran.err.splitlines()} == BAD
    each = spoiled("streams", "--each", "--json", code=11)
    assert {"session:ses_1", "session:ses_2", "project:shop"} <= {row["stream"] for row in each.rows}
    assert {json.loads(line)["session"] for line in each.err.splitlines()} == {"ses_late"}
    printed = spoiled("log", "--all", "--json", code=11)
    assert {"ses_1", "ses_2"} <= {row["session"] for row in printed.rows}
    assert {json.loads(line)["session"] for line in printed.err.splitlines()} == BAD
    played = spoiled("replay", "--all", "--speed", "0", "--json", code=11)
    assert {row["session"] for row in played.rows} == {"ses_1", "ses_2"}


def test_grants_are_found_and_ended_beside_damage(spoiled: CommandLine) -> None:
    (row,) = spoiled("approved", "--project", "shop", "--json", code=0).rows
    spoiled("revoke", row["grant_id"], code=0)
    assert "damaged streams, not read" in spoiled("revoke", "grn_none", code=9).err


def test_an_export_of_all_holds_what_is_whole(spoiled: CommandLine, server: RealServer, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    ran = spoiled("export", "--all", "--out", out, code=11)
    assert all(name in ran.err for name in BAD - {"ses_other_kind"})
    streams = [row["stream"] for row in map(json.loads, out.read_text().splitlines()) if "stream" in row]
    assert streams == [RULES_OF_ALL.name, "project:shop", "session:ses_1", "session:ses_2"]
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    spoiled("import", out, "--with-grants", code=0)


def test_checks_and_views_go_on_past_the_bad(spoiled: CommandLine) -> None:
    rows = spoiled("verify", "--all", "--json", code=11).rows
    assert {row["session"] for row in rows if not row["ok"]} == BAD - {"ses_other_kind"}
    assert spoiled("rebuild", "--json", code=11).row["streams"] == 7
    found = {row["check"]: row for row in spoiled("doctor", "--deep", "--json", code=11).rows}
    assert "ses_edited" in found["streams"]["text"]
    assert spoiled("show", "ses_1", code=0).out
    spoiled("show", "ses_endless", code=11)


def test_an_import_refuses_durations_and_times_out_of_bounds(
    ledger: CommandLine, server: RealServer, tmp_path: Path
) -> None:
    """The lines of the file are as `export` would have written them before durations were bounded."""
    fill(ledger)
    with redis.Redis.from_url(server.url) as client:
        (key,) = names(client, "*}:s:ses_2")
        for change, shift_ms, text in ((with_endless_durations, 0, "duration_ms"), (unchanged, TOO_LATE_MS, "9989")):
            forge(server.url, key, change, shift_ms)
            found = client.xrange(key)
            lines = [
                {"file": "permission-ledger export", "format": 1},
                {"stream": "session:ses_2"},
                *(
                    {"id": entry_id.decode(), **{name.decode(): value.decode() for name, value in fields.items()}}
                    for entry_id, fields in found
                ),
                {"end": "session:ses_2", "entries": len(found), "hash": "0" * 64},
                {"complete": True, "streams": 1},
            ]
            file = tmp_path / "forged.jsonl"
            file.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
            client.delete(key)
            error = ledger("import", file, "--with-grants", code=12).err
            assert text in error
            assert names(client, "*}:s:ses_2") == []
            fill_again(ledger)
            (key,) = names(client, "*}:s:ses_2")


def fill_again(ledger: CommandLine) -> None:
    ledger("ask", "ses_2", "bash", "ls", "--no-wait", code=7)

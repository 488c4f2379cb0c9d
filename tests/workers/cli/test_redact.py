"""`redact`, as typed in a shell."""

from __future__ import annotations

from pathlib import Path

import redis

from tests.support.command_line import CommandLine
from tests.support.servers import RealServer

SECRET = "hunter-two-of-the-shop"


def fill(ledger: CommandLine) -> None:
    asking = ("ask", "ses_1", "bash", f"deploy {SECRET}", "--always", f"deploy {SECRET} *", "--project", "shop")
    ledger(*asking, "--id", "r1", "--no-wait", code=7)
    ledger("reply", "r1", "always", "--message", "only this once", code=0)
    ledger("ask", "ses_1", "bash", "git push", "--id", "r2", "--no-wait", code=7)


def held(server: RealServer) -> list[bytes]:
    """Return the keys in whose dump the secret is (compressed strings are too short to occur here)."""
    with redis.Redis.from_url(server.url) as client:
        client.config_set("rdbcompression", "no")
        return [key for key in client.scan_iter() if SECRET.encode() in (client.dump(key) or b"")]


def test_without_yes_nothing_is_changed_and_what_would_go_is_listed(ledger: CommandLine, server: RealServer) -> None:
    fill(ledger)
    before = held(server)
    told = ledger("redact", "--matching", SECRET, "--since", "all", code=0)
    assert "asked" in told.out
    assert "matches" in told.out
    assert "same request" in told.out or told.out.count("matches") > 1
    assert "grants that lift nothing any more" in told.out
    assert SECRET not in told.out + told.err
    assert "nothing was changed: with --yes" in told.err
    assert "out of reach: exports, backups" in told.err
    assert held(server) == before != []


def test_with_yes_it_goes_for_good_and_every_reading_command_says_so(ledger: CommandLine, server: RealServer) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    done = ledger("redact", "ses_1", "2", "--reason", "a password", "--yes", code=0)
    assert done.out.startswith("session:ses_1: redacted ")
    assert "project:shop: redacted 1 entries" in done.out
    assert held(server) == []
    assert "of them redacted" in ledger("verify", "--all", code=0).err
    assert "bash (content redacted)" in ledger("show", "ses_1", code=0).out
    assert "(content redacted)" in ledger("log", "ses_1", code=0).out
    assert [row.get("redacted", False) for row in ledger("log", "ses_1", "--json", code=0).rows][:3] == [
        False,
        True,
        True,
    ]
    assert "redacted the content of versions 2" in ledger("log", "ses_1", code=0).out
    for words in (
        ("show", "ses_1"),
        ("show", "ses_1", "--at", "2"),
        ("replay", "ses_1", "--speed", "0"),
        ("sessions",),
    ):
        assert SECRET not in ledger(*words, code=0).out
    assert ledger("rebuild", "--verify", code=0)
    assert ledger("approved", "--project", "shop", "--json", code=0).rows == []
    again = ledger("ask", "ses_1", "bash", f"deploy {SECRET}", "--id", "r1", "--no-wait", "--json", code=12)
    assert again.error["code"] == "REDACTED"
    ledger("reply", "r2", "once", code=0)


def test_an_export_made_later_has_no_content_and_can_be_imported(
    ledger: CommandLine, server: RealServer, server_without_file: CommandLine, tmp_path: Path
) -> None:
    fill(ledger)
    ledger("redact", "ses_1", "2", "--reason", "a password", "--yes", code=0)
    file = tmp_path / "export.jsonl"
    ledger("export", "--all", "--out", file, code=0)
    assert SECRET not in file.read_text()
    server_without_file("import", file, code=0)
    assert "of them redacted" in server_without_file("verify", "--all", code=0).err


def test_rows_of_json_say_what_goes_why_and_what_does_not(ledger: CommandLine) -> None:
    fill(ledger)
    own, project = ledger("redact", "--matching", SECRET, "--since", "30d", "--json", code=0).rows
    assert (own["stream"], own["session"], own["project"], own["redacted"]) == ("session:ses_1", "ses_1", "shop", False)
    assert {"version": 2, "type": "asked", "request_id": "r1"}.items() <= own["versions"][0].items()
    assert own["not_redactable"] == []
    assert (project["stream"], len(project["versions"])) == ("project:shop", 1)
    *rows, last = ledger(
        "redact", "--matching", SECRET, "--since", "30d", "--reason", "a leak", "--yes", "--json", code=0
    ).rows
    assert [row["redacted"] for row in rows] == [True, True]
    assert [one["append_only_file"] for one in last["files"]] == ["done"]
    assert last["out_of_reach"]


def test_what_stays_is_named_and_has_an_exit_code_of_its_own(ledger: CommandLine) -> None:
    ledger("ask", "ses_1", f"tool {SECRET}", f"x {SECRET}", "--id", "r1", "--no-wait", code=7)
    told = ledger("redact", "--matching", SECRET, "--since", "all", "--reason", "a leak", "--yes", code=11)
    assert "not redactable: session:ses_1 version 2, permission: in ids or names" in told.err


def test_a_legal_hold_refuses_it_and_says_so(ledger: CommandLine, server: RealServer) -> None:
    fill(ledger)
    ledger("hold", "--session", "ses_1", "--reason", "case 17", code=0)
    assert (
        "held: nothing is redacted here: session `ses_1` is under a legal hold"
        in ledger("redact", "ses_1", "2", code=0).err
    )
    refused = ledger("redact", "ses_1", "2", "--reason", "a password", "--yes", "--json", code=12)
    assert refused.error["code"] == "ON_HOLD"
    assert held(server)


def test_the_pattern_is_read_from_stdin_so_that_no_shell_keeps_it(ledger: CommandLine) -> None:
    fill(ledger)
    done = ledger("redact", "--matching", "-", "--since", "all", "--json", stdin=f"{SECRET}\n", code=0)
    assert '"stream":"session:ses_1"' in done.out.replace(" ", "")


def test_a_reason_is_needed_and_may_not_repeat_the_secret(ledger: CommandLine, server: RealServer) -> None:
    fill(ledger)
    assert "give the reason" in ledger("redact", "ses_1", "2", "--yes", code=2).err
    looking = ("redact", "--matching", SECRET, "--since", "all", "--yes")
    assert "the reason has in it" in ledger(*looking, "--reason", f"{SECRET} leaked", code=12).err
    assert held(server)


def test_wrong_usage_says_what_to_give(ledger: CommandLine) -> None:
    assert "name a session and versions" in ledger("redact", "ses_1", code=2).err
    assert "name a session and versions" in ledger("redact", "ses_1", "2", "--matching", "abcd", code=2).err
    assert "say how far back" in ledger("redact", "--matching", "abcd", code=2).err
    assert "fewer than 4 characters" in ledger("redact", "--matching", "abc", "--since", "all", code=12).err
    assert ledger("redact", "ses_none", "2", "--json", code=9).error["code"] == "UNKNOWN_SESSION"


def test_a_lost_file_of_the_archive_stops_nothing_and_the_command_says_that_it_is_incomplete(
    ledger: CommandLine, tmp_path: Path
) -> None:
    ledger("ask", "ses_0", "bash", f"deploy {SECRET}", "--id", "r0", "--no-wait", code=7)
    ledger("reply", "r0", "once", code=0)
    ledger("close", "ses_0", code=0)
    ledger("archive", "--to", tmp_path / "archive", code=0)
    ledger("archive", "ses_0", code=0)
    (lost,) = (tmp_path / "archive").rglob("*.jsonl.zst")
    lost.unlink()
    fill(ledger)
    looking = ("redact", "--matching", SECRET, "--since", "all")
    told = ledger(*looking, code=11)
    assert lost.name in told.err
    assert "INCOMPLETE: 1 streams could not be read" in told.err
    assert "session:ses_1" in told.out
    done = ledger(*looking, "--reason", "a leak", "--yes", "--json", code=11)
    assert [row["stream"] for row in done.rows if row.get("redacted")] == ["session:ses_1", "project:shop"]
    assert [row["stream"] for row in done.rows if row.get("unread")] == ["session:ses_0"]

"""`export` and `import`: the imported stream equals the exported one, or nothing is imported."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
import redis

from ledger import InputError
from tests.projections.looking import RULES_OF_ALL
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.workers.cli.filling import entries, fill, heads, names
from workers.upkeep.transfer import read_export


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


@pytest.fixture
def exported(ledger: CommandLine, tmp_path: Path) -> Path:
    """A ledger of two sessions and a project, and the file that it was exported to."""
    fill(ledger)
    file = tmp_path / "ledger.jsonl"
    ledger("export", "--all", "--out", file, code=0)
    return file


def test_after_everything_was_lost_the_import_brings_the_same_heads_and_deadlines(
    ledger: CommandLine, client: redis.Redis, exported: Path, tmp_path: Path
) -> None:
    known = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", known, code=0)
    before = ledger("pending", "--json", code=0).rows
    client.flushall()
    rows = ledger("import", exported, "--with-grants", "--json", code=0).rows
    assert [(row["stream"], row["entries"], row["added"]) for row in rows] == [
        (RULES_OF_ALL.name, 1, 1),
        ("project:shop", 1, 1),
        ("session:ses_1", 3, 3),
        ("session:ses_2", 2, 2),
    ]
    ledger("rebuild", code=0)
    assert ledger("pending", "--json", code=0).rows == before
    ledger("verify", "--all", "--checkpoint", known, code=0)
    ledger("rebuild", "--verify", code=0)


def test_an_imported_session_goes_on(ledger: CommandLine, client: redis.Redis, exported: Path) -> None:
    client.flushall()
    ledger("import", exported, "--with-grants", code=0)
    assert ledger("ask", "ses_1", "bash", "git fetch", "--json", code=0).row["outcome"] == "allowed"
    ledger("reply", "p1", "once", code=0)
    ledger("verify", "--all", code=0)


def test_a_session_brings_the_grants_of_its_project_along(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    lines = ledger("export", "ses_1", code=0).rows
    assert [line["stream"] for line in lines if "stream" in line] == [
        RULES_OF_ALL.name,
        "project:shop",
        "session:ses_1",
    ]
    assert lines[0] == {"file": "permission-ledger export", "format": 1}
    assert lines[-1] == {"complete": True, "streams": 3}


def test_an_imported_grant_keeps_its_bounds_and_its_uses(
    ledger: CommandLine, client: redis.Redis, tmp_path: Path
) -> None:
    ask = ("ask", "ses_1", "bash", "git push", "--project", "shop", "--no-wait")
    ledger(*ask, "--id", "r0", code=7)
    ledger("grant", "--project", "shop", "bash", "git *", "--uses", "2", "--expires", "1h", code=0)
    ledger(*ask, "--id", "r1", code=0)
    before = ledger("approved", "--project", "shop", "--json", code=0).row
    file = tmp_path / "ledger.jsonl"
    ledger("export", "--all", "--out", file, code=0)
    client.flushall()
    ledger("import", file, "--with-grants", code=0)
    after = ledger("approved", "--project", "shop", "--json", code=0).row
    assert after == {**before, "imported": True}
    assert after["uses_left"] == 1
    ledger(*ask, "--id", "r2", code=0)
    ledger(*ask, "--id", "r3", code=7)


def test_importing_twice_adds_nothing(ledger: CommandLine, exported: Path) -> None:
    before = heads(ledger)
    rows = ledger("import", exported, "--json", code=0).rows
    assert [row["added"] for row in rows] == [0, 0, 0, 0]
    assert ledger("import", exported, code=0).err == "imported 4 streams: 0 new\n"
    assert heads(ledger) == before


def test_a_second_import_on_another_ledger_adds_nothing_and_marks_nothing_twice(
    ledger: CommandLine, client: redis.Redis, exported: Path
) -> None:
    client.flushall()
    ledger("import", exported, "--with-grants", code=0)
    before = heads(ledger)
    assert ledger("import", exported, code=0).err == "imported 4 streams: 0 new\n"
    assert heads(ledger) == before


def test_grants_are_not_imported_unasked(ledger: CommandLine, client: redis.Redis, exported: Path) -> None:
    client.flushall()
    error = ledger("import", exported, "--json", code=12).error
    assert (
        "would bring 1 grant in force, so nothing was imported: bash `git *` in project `shop` by ann" in error["error"]
    )
    assert [(one["pattern"], one["project"], one["by"]) for one in error["grants"]] == [("git *", "shop", "ann")]
    assert "--with-grants" in error["hint"]
    assert names(client, "*}:[spr]:*") == []


def test_a_session_alone_brings_the_project_grants_of_its_replies(
    ledger: CommandLine, client: redis.Redis, exported: Path
) -> None:
    lines = exported.read_text().splitlines()
    alone = [lines[0], *lines[7:12], '{"complete":true,"streams":1}']
    assert '"session:ses_1"' in alone[1]
    exported.write_text("".join(f"{line}\n" for line in alone))
    client.flushall()
    assert "bash `git *` in project `shop` by ann" in ledger("import", exported, code=12).err
    assert names(client, "*}:[spr]:*") == []


def test_a_dry_run_lists_what_would_be_in_force_and_writes_nothing(
    ledger: CommandLine, client: redis.Redis, exported: Path
) -> None:
    client.flushall()
    rows = ledger("import", exported, "--dry-run", "--json", code=0).rows
    assert [row["added"] for row in rows if "added" in row] == [1, 1, 3, 2]
    assert [row["in_force"]["pattern"] for row in rows if "in_force" in row] == ["git *"]
    told = ledger("import", exported, "--dry-run", code=0)
    assert "`git *`" in told.out
    assert told.err == "7 new; 1 grants would be in force; 1 answers allowed something; nothing was written\n"
    assert names(client, "*}:[spr]:*") == []


def test_what_was_imported_is_marked_wherever_it_is_shown(
    ledger: CommandLine, client: redis.Redis, exported: Path
) -> None:
    client.flushall()
    ledger("import", exported, "--with-grants", code=0)
    imported = ledger("log", "ses_1", "--json", code=0).rows[-1]
    assert (imported["type"], imported["event"]["versions"]) == ("imported", 3)
    assert imported["actor"]["kind"] == "local"
    assert "ann (imported)" in ledger("approved", "--project", "shop", code=0).out
    assert [one["imported"] for one in ledger("approved", "--project", "shop", "--json", code=0).rows] == [True]
    shown = ledger("show", "ses_1", code=0).out
    assert "ann (imported)" in shown
    assert f"imported {imported['at']}" in shown
    assert [one["imported"] for one in ledger("show", "ses_1", "--json", code=0).row["state"]["settled"]] == [True]
    assert {one["imported_at"] is not None for one in ledger("sessions", "--json", code=0).rows} == {True}
    assert "open, imported" in ledger("sessions", code=0).out
    ledger("grant", "--project", "shop", "edit", "x", code=0)
    own = ledger("approved", "--project", "shop", "--json", code=0).rows[-1]
    assert (own["permission"], "imported" in own) == ("edit", False)


def test_an_imported_session_that_went_on_elsewhere_is_refused_with_the_version(
    ledger: CommandLine, client: redis.Redis, exported: Path, tmp_path: Path
) -> None:
    ledger("ask", "ses_1", "bash", "git fetch", code=0)
    newer = tmp_path / "newer.jsonl"
    ledger("export", "--all", "--out", newer, code=0)
    client.flushall()
    ledger("import", exported, "--with-grants", code=0)
    before = heads(ledger)
    error = ledger("import", newer, "--with-grants", "--json", code=12).error
    assert "`session:ses_1` is there already and differs from version 4 on, where it was imported" in error["error"]
    assert error["version"] == 4
    assert heads(ledger) == before


def test_an_import_that_broke_off_is_completed(ledger: CommandLine, client: redis.Redis, exported: Path) -> None:
    (key,) = names(client, "*}:s:ses_1")
    before = entries(client, key)
    entry_id, fields = before[0]
    client.flushall()
    client.xadd(key, fields, id=entry_id)
    rows = ledger("import", exported, "--with-grants", "--json", code=0).rows
    assert [row["added"] for row in rows] == [1, 1, 2, 2]
    assert entries(client, key)[:-1] == before
    ledger("verify", "--all", code=0)


def test_what_has_gone_on_since_is_left_alone(ledger: CommandLine, exported: Path) -> None:
    ledger("ask", "ses_1", "bash", "git fetch", code=0)
    after = heads(ledger)
    assert [row["added"] for row in ledger("import", exported, "--json", code=0).rows] == [0, 0, 0, 0]
    assert heads(ledger) == after


def test_another_stream_under_the_same_name_keeps_all_out(
    ledger: CommandLine, client: redis.Redis, exported: Path
) -> None:
    client.flushall()
    ledger("ask", "ses_2", "bash", "ls", "--id", "other", "--no-wait", code=7)
    before = heads(ledger)
    error = ledger("import", exported, "--json", code=12).error
    assert "`session:ses_2` is there already and differs from version 1 on; nothing was imported" in error["error"]
    assert heads(ledger) == before


@pytest.mark.slow
@pytest.mark.process
def test_it_comes_through_a_pipe_too(ledger: CommandLine, server: RealServer, exported: Path) -> None:
    ledger("import", "-", stdin=exported.read_bytes(), code=0)


Spoil = Callable[[list[str]], list[str]]


def change(line: int, old: str, new: str) -> Spoil:
    def spoil(lines: list[str]) -> list[str]:
        assert old in lines[line - 1], lines[line - 1]
        return [*lines[: line - 1], lines[line - 1].replace(old, new), *lines[line:]]

    return spoil


def without(line: int) -> Spoil:
    return lambda lines: [*lines[: line - 1], *lines[line:]]


# The file: 1 header, 2-4 rules, 5-7 project, 8 session ses_1, 9-11 its entries, 12 its end, 13-16 ses_2, 17 the end.
SPOILED: Final[dict[str, tuple[Spoil, int]]] = {
    "no header": (without(1), 1),
    "another format": (change(1, '"format":1', '"format":7'), 1),
    "an edited payload": (change(10, "git push", "git pull"), 10),
    "an edited last payload": (change(11, "ann", "bob"), 12),
    "another id": (change(10, '-2"', '-9"'), 10),
    "a lost entry": (without(10), 10),
    "no end of a stream": (without(12), 12),
    "a line that is no JSON": (change(11, '"d"', "d"), 11),
    "a cut end": (lambda lines: lines[:-1], 17),
    "a lost stream": (lambda lines: [*lines[:12], *lines[16:]], 13),
    "something after the end": (lambda lines: [*lines, "{}"], 18),
    "another name": (change(8, "ses_1", "ses_7"), 9),
}


def test_a_bad_file_is_refused_with_the_number_of_the_line(exported: Path) -> None:
    whole = exported.read_text().splitlines()
    assert [str(one.key.name) for one in read_export(BytesIO("\n".join(whole).encode()), "x")] == [
        RULES_OF_ALL.name,
        "project:shop",
        "session:ses_1",
        "session:ses_2",
    ]
    for what, (spoil, line) in SPOILED.items():
        spoiled = BytesIO("".join(f"{text}\n" for text in spoil(whole)).encode())
        with pytest.raises(InputError) as refused:
            list(read_export(spoiled, "x"))
        assert (what, refused.value.data["line"]) == (what, line), refused.value.text
        assert refused.value.text.startswith(f"`x` line {line}: ")


def test_a_file_that_is_bad_at_its_end_leaves_nothing_behind(
    ledger: CommandLine, client: redis.Redis, exported: Path
) -> None:
    exported.write_text("".join(exported.read_text().splitlines(keepends=True)[:-1]))
    client.flushall()
    error = ledger("import", exported, "--json", code=12).error
    assert error["error"] == f"`{exported}` line 17: the file ends too early: it was cut off"
    assert error["line"] == 17
    assert names(client, "*}:[spr]:*") == []


def test_a_damaged_stream_is_not_carried_elsewhere(ledger: CommandLine, client: redis.Redis, tmp_path: Path) -> None:
    fill(ledger)
    (key,) = names(client, "*}:s:ses_1")
    client.xadd(key, {"other": "x"}, id="99999999999999-4")
    out = tmp_path / "out.jsonl"
    error = ledger("export", "ses_1", "--out", out, code=11).err
    assert "stream `session:ses_1` is damaged and is not exported" in error
    assert list(tmp_path.iterdir()) == []


def test_payloads_are_exported_byte_for_byte(ledger: CommandLine, client: redis.Redis, tmp_path: Path) -> None:
    ledger("ask", "ses_1", "bash", 'echo "ü\u202e\u0000"'.replace("\u0000", ""), "--no-wait", code=7)
    out = tmp_path / "out.jsonl"
    ledger("export", "ses_1", "--out", out, code=0)
    (key,) = names(client, "*}:s:ses_1")
    stored = [fields[b"d"] for _, fields in entries(client, key)]
    lines = [json.loads(line) for line in out.read_text().splitlines()][4:]  # after the rules
    assert [line["d"].encode() for line in lines if "d" in line] == stored
    contents = [fields.get(b"x") for _, fields in entries(client, key)]
    assert [line["x"].encode() if "x" in line else None for line in lines if "d" in line] == contents
    assert any(contents)


def test_what_cannot_be_read_or_written_is_said(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger)
    assert "cannot be read" in ledger("import", tmp_path / "none", code=12).err
    assert "cannot be written" in ledger("export", "ses_1", "--out", tmp_path / "no" / "file", code=12).err
    assert ledger("export", "ses_none", code=9).out == ""
    assert "name sessions, or give --all" in ledger("export", code=2).err


def test_a_file_of_something_else_is_no_export(ledger: CommandLine, tmp_path: Path) -> None:
    rules = tmp_path / "rules.json"
    rules.write_text('{"permission": {"bash": "ask"}}')
    told = f"error: `{rules}` line 1: this is not a file that `permission-ledger export` wrote\n"
    assert ledger("import", str(rules), code=12).err == told

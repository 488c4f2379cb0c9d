"""The index of requests: what is found, on a real server."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from ledger import InputError, Ledger, SetupError
from ledger.log.redactions import Pattern
from tests.projections.looking import RULES
from tests.support.backends import PARTITION_COUNT
from tests.support.indexing import NOW_MS, caught_up, ids, index, indexing, search
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.indexer import schema, worker
from workers.indexer.file import IndexFile
from workers.indexer.reader import IndexReader, parse_query
from workers.indexer.schema import FORMAT, NoIndexError, open_to_read, open_to_write
from workers.indexer.worker import IndexPace

SECRET = "correcthorsebattery"


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url, partitions=PARTITION_COUNT, entry_points=False) as ledger:
        yield ledger


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "search.sqlite"


async def fill(ledger: Ledger) -> None:
    """Fill two sessions with requests of each outcome."""
    shop = await ledger.session("ses_1", rules=RULES, project="shop", agent="coder", cwd="/srv/shop")
    await shop.submit("bash", ["git push origin main"], always=["git push origin main"], request_id="per_1")
    await shop.reply("per_1", "always", actor="ann")
    await shop.submit("bash", ["git push --force"], request_id="per_2")
    await shop.reply("per_2", "reject", message="never on fridays", actor="bob")
    await shop.submit("bash", ["rm -rf build"], request_id="per_3")
    await shop.submit("bash", ["git push --tags"], request_id="per_4")
    bank = await ledger.session("ses_2", rules=RULES, project="bank", agent="tester")
    await bank.submit("edit", ["/srv/bank/main.py"], metadata={"diff": "left = right"}, request_id="per_5")
    await bank.submit("read", ["notes.txt"], request_id="per_6")
    await bank.cancel("per_5")


async def test_requests_are_found_by_words_and_by_every_condition(ledger: Ledger, file: Path) -> None:
    await fill(ledger)
    await index(ledger, file)
    assert ids(file) == ["per_6", "per_5", "per_4", "per_3", "per_2", "per_1"]
    assert ids(file, "git push") == ["per_4", "per_2", "per_1"]
    assert ids(file, '"push origin"') == ids(file, "orig*") == ["per_1"]
    assert ids(file, "fridays") == ids(file, "by:bob") == ids(file, outcome="corrected") == ["per_2"]
    assert ids(file, "right") == ids(file, "/srv/bank/main.py") == ids(file, "outcome:cancelled") == ["per_5"]
    assert ids(file, "git", by="ann") == ["per_1"]
    assert ids(file, "project:bank") == ids(file, session="ses_2") == ids(file, agent="tester") == ["per_6", "per_5"]
    assert ids(file, "permission:read") == ["per_6"]
    assert ids(file, "rule:rm") == ids(file, outcome="denied") == ["per_3"]
    assert ids(file, "since:2030-01-01") == ids(file, until="2020-01-01") == []
    assert len(ids(file, "since:2020-01-01")) == 6
    (grant,) = search(file, "request:per_1")[0]["grants"]
    assert ids(file, grant=grant) == ["per_1"]


async def test_a_result_has_decision_reason_and_the_moment(ledger: Ledger, file: Path) -> None:
    await fill(ledger)
    await index(ledger, file)
    (rejected,) = search(file, "request:per_2")
    assert rejected["outcome"] == "corrected"
    assert rejected["by"] == "bob"
    assert rejected["reason"] == "reject: never on fridays"
    event = [one async for one in (await ledger.attach(rejected["session"])).events(follow_on=False)]
    assert event[rejected["version"] - 1].type == "replied"
    assert event[rejected["asked_version"] - 1].type == "asked"
    (denied,) = search(file, "request:per_3")
    assert denied["outcome"] == "denied"
    assert "rm *" in denied["reason"]
    assert denied["by"] is None
    (waiting,) = search(file, "request:per_4")
    assert waiting["outcome"] == "pending"
    assert waiting["ended_at"] is None


async def test_what_comes_while_the_indexer_runs_is_found_and_what_came_while_it_did_not(
    ledger: Ledger, file: Path
) -> None:
    async with indexing(ledger, file):
        await fill(ledger)
        await caught_up(ledger, file)
        assert ids(file, "outcome:pending") == ["per_4"]
    await (await ledger.attach("ses_1")).reply("per_4", "once", actor="cleo")
    async with indexing(ledger, file):
        await caught_up(ledger, file)
        assert ids(file, "by:cleo") == ["per_4"]
        assert ids(file, "outcome:pending") == []


async def test_lost_wake_ups_and_trimmed_feeds_are_made_up_for_by_the_walk(
    ledger: Ledger, file: Path, server: RealServer
) -> None:
    await index(ledger, file)
    await fill(ledger)
    with redis.Redis.from_url(server.url) as client:
        for key in client.scan_iter("*feed*"):
            client.xtrim(key, maxlen=0, approximate=False)
    async with indexing(ledger, file, IndexPace(walk_seconds=0.01, step_seconds=0.01)):
        await caught_up(ledger, file)
        await wait_until_async(lambda: len(ids(file)) == 6, "the walk has found the sessions")


async def test_an_index_is_built_again_from_nothing_with_the_same_rows(ledger: Ledger, file: Path) -> None:
    await fill(ledger)
    await index(ledger, file)
    rows = search(file)
    for one in file.parent.iterdir():
        one.unlink()
    await index(ledger, file)
    assert search(file) == rows


async def test_a_file_of_another_format_is_built_anew(ledger: Ledger, file: Path) -> None:
    await fill(ledger)
    await index(ledger, file)
    rows = search(file)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DELETE FROM requests")
        connection.execute("CREATE TABLE of_before (x)")
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
        connection.commit()
    with pytest.raises(SetupError, match=f"has format {FORMAT + 1}"):
        IndexReader(file)
    await index(ledger, file)
    assert search(file) == rows


async def test_a_file_that_is_something_else_is_left_alone(ledger: Ledger, file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE mine (x)")
    for content in (held(file), b"a letter to my aunt, which is no database at all " * 50):
        written(file, content)
        with pytest.raises(InputError, match="is not an index of requests"):
            await index(ledger, file)
        with pytest.raises(InputError, match="is not an index of requests"):
            IndexReader(file)
        assert held(file) == content


@pytest.mark.parametrize("opened", [open_to_read, lambda path: open_to_write(path)[0]], ids=["reader", "indexer"])
def test_an_index_made_while_another_process_opens_it_is_not_taken_for_something_else(
    opened: Callable[[Path], sqlite3.Connection], file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    read = schema._number
    made: list[str] = []

    def number(connection: sqlite3.Connection, pragma: str) -> int:
        value = read(connection, pragma)
        if not made:
            made.append(pragma)
            open_to_write(file)[0].close()
        return value

    monkeypatch.setattr(schema, "_number", number)
    with suppress(NoIndexError):
        opened(file).close()
    assert made
    IndexReader(file).close()


async def test_a_second_indexer_of_a_file_and_one_of_another_ledger_are_refused(ledger: Ledger, file: Path) -> None:
    async with indexing(ledger, file):
        with pytest.raises(InputError, match="another indexer writes"):
            await index(ledger, file)
    async with Ledger.connect("memory://", entry_points=False) as other:
        with pytest.raises(InputError, match="the index of another ledger"):
            await index(other, file)


async def test_a_session_that_the_log_lost_leaves_the_index(ledger: Ledger, file: Path, server: RealServer) -> None:
    await fill(ledger)
    await index(ledger, file)
    with redis.Redis.from_url(server.url) as client:
        client.delete(*client.scan_iter("*ses_2*"))
    async with indexing(ledger, file, IndexPace(walk_seconds=0.01, step_seconds=0.01)):
        await wait_until_async(lambda: ids(file, "project:bank") == [], "the lost session has left")
        assert len(ids(file)) == 4


async def test_a_long_session_is_indexed_in_steps(ledger: Ledger, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "STEP_EVENTS", 7)
    monkeypatch.setattr(worker, "SHORT_COUNT", 3)
    session = await ledger.session("ses_1", rules=RULES)
    for number in range(60):
        await session.submit("read", [f"file{number}"], request_id=f"per_{number}")
    await index(ledger, file)
    assert ids(file) == [f"per_{number}" for number in reversed(range(60))]


HOSTILE = [
    "'; DROP TABLE requests; --",
    '" OR 1=1',
    "NEAR(a b)",
    "command : x",
    "a AND NOT OR (",
    "{command",
    "^git",
    "git +push",
    "*",
    "* git",
    "\0",
    "a\0b",
    "🦊",
    "²",
    "rule:*x*",
    'by:"',
    'by:" " OR "',
    "-" * 900 + "a",
    '"""',
    "a" * 1000,
]


@pytest.mark.parametrize("text", HOSTILE)
async def test_no_text_is_read_as_syntax(ledger: Ledger, file: Path, text: str) -> None:
    await fill(ledger)
    await index(ledger, file)
    for conditions in ({}, {"rule": text}, {"by": text}):
        with suppress(InputError):
            search(file, "" if conditions else text, **conditions)
    assert len(ids(file)) == 6


@pytest.mark.parametrize(
    ("text", "conditions", "said"),
    [
        ("x" * 1001, {}, "at most 1000"),
        ("---", {}, "has no word to look up"),
        (" ".join(f"w{number}" for number in range(33)), {}, "at most 32"),
        ("by:ann", {"by": "bob"}, "given twice"),
        ("by:", {}, "needs a value"),
        ("outcome:maybe", {}, "unknown outcome `maybe`"),
        ("since:yesterday", {}, "is not a time"),
        ("since:9x", {}, "is not a duration"),
        ("\ud800", {}, "has no word"),
        ("a\ud800", {}, "not valid Unicode"),
        ("", {"rule": "***"}, "has no word"),
    ],
)
def test_a_query_that_cannot_be_meant_is_refused_in_words(text: str, conditions: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_query(text, conditions, now_ms=NOW_MS)


@pytest.mark.parametrize("cursor", ["", "-1", "x", "9" * 20, "\u0661"])
def test_a_cursor_that_was_not_handed_out_is_refused(cursor: str) -> None:
    with pytest.raises(InputError, match="is not a cursor"):
        parse_query("", now_ms=NOW_MS, cursor=cursor)


def test_conditions_in_the_text_and_beside_it_mean_the_same() -> None:
    said = parse_query('push by:ann project:"my shop" rule:git since:30d', now_ms=NOW_MS)
    given: dict[str, Any] = {"by": "ann", "project": "my shop", "rule": "git", "since": "30d"}
    assert parse_query("push", given, now_ms=NOW_MS) == said


async def test_pages_follow_each_other_without_gap_or_repetition(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    for number in range(23):
        await session.submit("read", [f"file {number}"], request_id=f"per_{number}")
    await index(ledger, file)
    found: list[str] = []
    cursor: str | None = None
    with closing(IndexReader(file)) as reader:
        while True:
            page = reader.search(parse_query("file", now_ms=NOW_MS, cursor=cursor), 5)
            found += [one.request.request_id for one in page.found]
            cursor = page.cursor
            if cursor is None:
                break
            assert len(page.found) == 5
    assert found == [f"per_{number}" for number in reversed(range(23))]


async def test_redacted_text_is_in_no_byte_of_the_files(ledger: Ledger, file: Path) -> None:
    session = await ledger.session("ses_1", rules=RULES, project="shop")
    await session.submit("bash", [f"curl -u ann:{SECRET} x"], metadata={"why": SECRET * 3}, request_id="per_1")
    await session.reply("per_1", "reject", message=f"not with {SECRET}", actor="ann")
    for number in range(200):
        await session.submit("read", [f"file {number} {SECRET if number % 7 == 0 else ''}"], request_id=f"r{number}")
    other = await ledger.session("ses_2", rules=RULES)
    await other.submit("bash", ["ls kept"], request_id="per_2")
    async with indexing(ledger, file):
        await caught_up(ledger, file)
        assert len(ids(file, SECRET)) == 30
        assert SECRET.encode() in held(file)
        plans = [one async for one in ledger.redactions.search(Pattern(SECRET), since_ms=0)]
        for plan in plans:
            await ledger.redactions.redact(plan, reason="a password", actor="ann")
        await caught_up(ledger, file)
        # Also the prefixes that a full-text index divides its words by.
        assert SECRET[:8].encode() not in held(file)
        assert ids(file, SECRET) == ids(file, f"{SECRET[:4]}*") == []
    assert SECRET[:8].encode() not in held(file)
    (row,) = search(file, "request:per_1")
    assert (row["outcome"], row["by"], row["call"], row["redacted"]) == ("corrected", "ann", "content redacted", True)
    assert ids(file, "file 1") == ["r1"]
    assert ids(file, "kept") == ["per_2"]


async def test_text_of_a_redaction_is_removed_by_the_next_start_where_the_indexer_was_killed(
    ledger: Ledger, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await ledger.session("ses_1", rules=RULES)
    await session.submit("bash", [f"curl {SECRET}"], request_id="per_1")
    await index(ledger, file)
    plans = [one async for one in ledger.redactions.search(Pattern(SECRET), since_ms=0)]
    await ledger.redactions.redact(plans[0], reason="a password", actor="ann")
    with monkeypatch.context() as patched:
        # As if it was killed after the transaction that drops the rows.
        patched.setattr(IndexFile, "scrub", lambda _: True)
        async with indexing(ledger, file):
            await wait_until_async(lambda: ids(file, SECRET) == [], "no search finds it")
    await index(ledger, file)
    assert SECRET[:8].encode() not in held(file)


def held(file: Path) -> bytes:
    """Return all bytes of the index and of the files beside it."""
    return b"".join(one.read_bytes() for one in files(file))


def files(file: Path) -> list[Path]:
    return sorted(file.parent.glob(f"{file.name}*"))


def written(file: Path, content: bytes) -> None:
    file.write_bytes(content)

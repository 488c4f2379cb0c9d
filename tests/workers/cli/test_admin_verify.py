"""`verify` on streams that somebody with access to the server has touched."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from tests.projections.looking import RULES_OF_ALL
from tests.support.command_line import CommandLine
from tests.support.forging import Payload, forge
from tests.support.servers import RealServer
from tests.workers.cli.filling import entries, fill, names

KEYS: Final = ["session", "ok", "versions", "head", "problems"]

ALL_IS_WELL: Final = (
    "7 events of 4 streams checked: all is well\n"
    "note: this shows the log agrees with itself, not that nobody rewrote it whole; "
    "compare with heads kept on another machine (--checkpoint)\n"
)

Client = redis.Redis
Damage = Callable[[Client, str], object]


@pytest.fixture
def intruder(server: RealServer) -> Iterator[Client]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def key_of(intruder: Client, ending: str) -> str:
    (key,) = names(intruder, f"*}}:{ending}")
    return key


def edit_payload(client: Client, key: str) -> None:
    """Rewrite version 2 under its own id, which takes a new stream."""
    whole = entries(client, key)
    client.delete(key)
    for number, (entry_id, fields) in enumerate(whole, 1):
        payload = fields[b"d"].replace(b'"bash"', b'"read"') if number == 2 else fields[b"d"]
        client.xadd(key, {**fields, b"d": payload}, id=entry_id)


def edit_content(client: Client, key: str) -> None:
    whole = entries(client, key)
    client.delete(key)
    for number, (entry_id, fields) in enumerate(whole, 1):
        changed: dict[Any, Any] = {b"x": fields[b"x"].replace(b"git push", b"git pull")} if number == 2 else {}
        client.xadd(key, {**fields, **changed}, id=entry_id)


def remove_content(client: Client, key: str) -> None:
    whole = entries(client, key)
    client.delete(key)
    for number, (entry_id, fields) in enumerate(whole, 1):
        client.xadd(key, {b"d": fields[b"d"]} if number == 2 else fields, id=entry_id)


def delete_entry(client: Client, key: str) -> None:
    client.xdel(key, entries(client, key)[1][0])


def add_foreign_field(client: Client, key: str) -> None:
    last = entries(client, key)[-1][0]
    ms, _, version = last.decode().partition("-")
    client.xadd(key, {"d": "{}", "y": "1"}, id=f"{ms}-{int(version) + 1}")


def trim(client: Client, key: str) -> None:
    client.xtrim(key, maxlen=2, approximate=False)


def empty(client: Client, key: str) -> None:
    client.xtrim(key, maxlen=0, approximate=False)


def redate(client: Client, key: str) -> None:
    whole = entries(client, key)
    client.delete(key)
    for entry_id, fields in whole:
        ms, _, version = entry_id.decode().partition("-")
        client.xadd(key, fields, id=f"{int(ms) + 1000 * int(version)}-{version}")


def replace(client: Client, key: str) -> None:
    client.delete(key)
    client.set(key, "something else")


DAMAGES: Final[dict[str, tuple[Damage, set[str]]]] = {
    "edited payload": (edit_payload, {"edited"}),
    "edited content": (edit_content, {"altered"}),
    "removed content": (remove_content, {"missing"}),
    "deleted entry": (delete_entry, {"gap", "deleted", "miscounted"}),
    "foreign field": (add_foreign_field, {"foreign", "undecodable"}),
    "cut beginning": (trim, {"gap", "miscounted"}),
    "emptied": (empty, {"deleted", "miscounted", "truncated"}),
    "other times": (redate, {"edited"}),
}


def test_a_whole_session_is_well_and_so_is_its_project(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger)
    rows = ledger("verify", "ses_1", "--json", code=0).rows
    assert [list(row)[: len(KEYS)] for row in rows] == [KEYS, KEYS, KEYS]
    assert [(row["session"], row["project"], row["ok"], row["versions"], row["problems"]) for row in rows] == [
        ("ses_1", "shop", True, 3, []),
        (None, "shop", True, 1, []),
        (None, None, True, 1, []),
    ]
    assert rows[-1]["stream"] == RULES_OF_ALL.name
    assert [row["head"]["id"].partition("-")[2] for row in rows] == ["3", "1", "1"]
    ran = ledger("verify", "--all", code=0)
    assert ran.err == ALL_IS_WELL
    note = ALL_IS_WELL.splitlines()[1]
    assert ledger("verify", "ses_1", code=0).err.splitlines()[1:] == [note]
    heads = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", heads, code=0)
    assert note not in ledger("verify", "ses_1", "--checkpoint", heads, code=0).err


@pytest.mark.parametrize("what", DAMAGES)
def test_damage_is_found(ledger: CommandLine, intruder: Client, what: str) -> None:
    fill(ledger)
    damage, kinds = DAMAGES[what]
    damage(intruder, key_of(intruder, "s:ses_1"))
    for words in (("verify", "ses_1"), ("verify", "--all")):
        row = next(row for row in ledger(*words, "--json", code=11).rows if row["session"] == "ses_1")
        assert row["ok"] is False
        assert {problem["kind"] for problem in row["problems"]} <= kinds
        assert row["problems"]
        assert list(row["problems"][0]) == ["version", "kind", "text"]
    assert "1 damaged" in ledger("verify", "--all", code=11).err


def test_damage_in_a_project_is_found_with_its_session(ledger: CommandLine, intruder: Client) -> None:
    fill(ledger)
    add_foreign_field(intruder, key_of(intruder, "p:shop"))
    rows = ledger("verify", "ses_1", "--json", code=11).rows
    assert [(row["session"], row["project"], row["ok"]) for row in rows] == [
        ("ses_1", "shop", True),
        (None, "shop", False),
        (None, None, True),
    ]


def test_a_key_of_another_kind_is_damage_too(ledger: CommandLine, intruder: Client) -> None:
    fill(ledger)
    replace(intruder, key_of(intruder, "s:ses_1"))
    row = ledger("verify", "ses_1", "--json", code=11).row
    assert (row["ok"], row["versions"], row["head"], row["problems"][0]["kind"]) == (False, 0, None, "foreign")


def test_an_end_that_was_cut_off_shows_only_beside_heads_that_were_saved(
    ledger: CommandLine, intruder: Client, tmp_path: Path
) -> None:
    fill(ledger)
    heads = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", heads, code=0)
    ledger("verify", "--all", "--checkpoint", heads, code=0)
    key = key_of(intruder, "s:ses_2")
    whole = entries(intruder, key)
    intruder.delete(key)
    for entry_id, fields in whole[:-1]:
        intruder.xadd(key, fields, id=entry_id)
    ledger("verify", "--all", code=0)
    rows = ledger("verify", "--all", "--checkpoint", heads, "--json", code=11).rows
    assert [row["problems"][0]["kind"] for row in rows if not row["ok"]] == ["truncated"]
    intruder.delete(key)
    for words in (("--all",), ("ses_2",)):
        rows = ledger("verify", *words, "--checkpoint", heads, "--json", code=11).rows
        bad = [(row["session"], row["problems"][0]["kind"]) for row in rows if not row["ok"]]
        assert bad == [("ses_2", "truncated")]


def test_a_cut_off_answer_shows_by_the_grant_that_it_made(ledger: CommandLine, intruder: Client) -> None:
    fill(ledger)
    key = key_of(intruder, "s:ses_1")
    whole = entries(intruder, key)
    intruder.delete(key)
    for entry_id, fields in whole[:-1]:
        intruder.xadd(key, fields, id=entry_id)
    rows = ledger("verify", "ses_1", "--json", code=11).rows
    assert [(row["stream"], row["problems"][0]["kind"]) for row in rows if not row["ok"]] == [
        ("project:shop", "unbacked")
    ]


def test_heads_of_damaged_streams_are_not_saved(ledger: CommandLine, intruder: Client, tmp_path: Path) -> None:
    fill(ledger)
    delete_entry(intruder, key_of(intruder, "s:ses_1"))
    heads = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", heads, code=11)
    header, *lines = map(json.loads, heads.read_text().splitlines())
    assert header == {"file": "permission-ledger heads", "format": 1}
    assert [line["stream"] for line in lines] == [RULES_OF_ALL.name, "project:shop", "session:ses_2"]


def test_a_damaged_stream_keeps_the_head_that_was_known(ledger: CommandLine, intruder: Client, tmp_path: Path) -> None:
    fill(ledger)
    heads = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", heads, code=0)
    before = heads.read_text()
    intruder.delete(key_of(intruder, "s:ses_1"))
    for _ in range(2):
        ledger("verify", "--all", "--checkpoint", heads, "--save", heads, code=11)
        assert heads.read_text() == before


def test_without_saved_heads_it_says_what_it_does_not_show(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger)
    heads = tmp_path / "heads.jsonl"
    for words in ((), ("--deep",), ("--save", heads)):
        assert ledger("verify", "--all", *words, code=0).err == ALL_IS_WELL
    told = ledger("verify", "--all", "--checkpoint", heads, code=0).err
    assert told == "7 events of 4 streams checked: all is well\n"


def cut_end(client: Client, key: str) -> None:
    whole = entries(client, key)
    client.delete(key)
    for entry_id, fields in whole[:-1]:
        client.xadd(key, fields, id=entry_id)


def rewrite_whole(client: Client, key: str) -> None:
    """Rewrite the newest version, which no other entry proves."""
    *whole, (entry_id, fields) = entries(client, key)
    client.delete(key)
    for one in [*whole, (entry_id, {**fields, b"d": fields[b"d"].replace(b'"name":"', b'"name":"x')})]:
        client.xadd(key, one[1], id=one[0])


def delete_stream(client: Client, key: str) -> None:
    client.delete(key)


@pytest.mark.parametrize("change", [cut_end, rewrite_whole, delete_stream])
def test_heads_that_the_log_contradicts_are_not_written_over(
    ledger: CommandLine, intruder: Client, tmp_path: Path, change: Damage
) -> None:
    fill(ledger)
    heads, other = tmp_path / "heads.jsonl", tmp_path / "other.jsonl"
    ledger("verify", "--all", "--save", heads, code=0)
    before = heads.read_bytes()
    change(intruder, key_of(intruder, "s:ses_2"))
    ledger("verify", "--all", code=0)
    for words in (
        ("--save", heads),
        ("--checkpoint", heads, "--save", heads),
        ("--checkpoint", heads, "--save", other),
    ):
        told = ledger("verify", "--all", *words, code=11).err
        assert f"`{words[-1]}` was not written: the log contradicts the saved heads of 1 streams: session:ses_2" in told
        assert (heads.read_bytes(), other.exists()) == (before, False)
    ledger("verify", "--all", "--save", other, code=0)


def test_a_session_that_somebody_forges_is_not_noticed_even_beside_saved_heads(
    ledger: CommandLine, tmp_path: Path
) -> None:
    fill(ledger)
    heads = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", heads, code=0)
    ledger("ask", "ses_9", "bash", "git push", "--id", "call_9", "--no-wait", code=7)
    ledger("reply", "call_9", "once", "--as", "somebody else", code=0)
    told = ledger("verify", "--all", "--checkpoint", heads, code=0).err
    assert told == "10 events of 5 streams checked: all is well\n"


def test_a_check_of_one_session_keeps_the_saved_heads_of_the_others(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger)
    heads = tmp_path / "heads.jsonl"
    ledger("verify", "--all", "--save", heads, code=0)
    before = heads.read_bytes()
    ledger("verify", "ses_1", "--save", heads, code=0)
    assert heads.read_bytes() == before


def test_heads_that_were_not_compared_are_not_written_over(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger)
    early, late = tmp_path / "early.jsonl", tmp_path / "late.jsonl"
    ledger("verify", "ses_1", "--save", early, code=0)
    ledger("verify", "--all", "--save", late, code=0)
    before = late.read_bytes()
    error = ledger("verify", "--all", "--checkpoint", early, "--save", late, "--json", code=12).error["error"]
    assert error.startswith(f"`{late}` has heads that `{early}` has not, and would be overwritten")
    assert late.read_bytes() == before
    ledger("verify", "--all", "--checkpoint", late, "--save", early, code=0)
    foreign = tmp_path / "notes.txt"
    foreign.write_text("mine")
    ledger("verify", "--all", "--save", foreign, code=12)
    assert foreign.read_text() == "mine"


def test_lost_tokens_are_damage_unless_the_ledger_was_restored(
    ledger: CommandLine, intruder: Client, tmp_path: Path
) -> None:
    heads = tmp_path / "heads.jsonl"
    ledger("token", "create", "bob", "--role", "approver", code=0)
    ledger("verify", "--all", "--save", heads, code=0)
    ledger("verify", "--all", "--checkpoint", heads, code=0)
    intruder.delete(key_of(intruder, "a:tokens"))
    ran = ledger("verify", "--all", "--checkpoint", heads, code=11)
    assert "access:tokens" in ran.out
    assert "truncated" in ran.out
    assert "give --restored" in ran.err
    ledger("verify", "--all", "--checkpoint", heads, "--restored", code=0)
    assert "give that too" in ledger("verify", "--all", "--restored", code=2).err


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", None),
        ("{}\n", None),
        ('{"file":"permission-ledger heads","format":2}\n', None),
        ('{"file":"permission-ledger heads","format":1}\nnonsense\n', 2),
        ('{"file":"permission-ledger heads","format":1}\n{"stream":"x","id":"1-1","hash":"0"}\n', 2),
    ],
)
def test_a_file_that_holds_no_heads_is_refused(
    ledger: CommandLine, tmp_path: Path, text: str, line: int | None
) -> None:
    file = tmp_path / "heads"
    file.write_text(text)
    error = ledger("verify", "--all", "--checkpoint", file, "--json", code=12).error
    assert f"`{file}`" in error["error"]
    assert line is None or f"line {line}:" in error["error"]


def test_a_session_that_nobody_knows_is_an_error_of_its_own(ledger: CommandLine) -> None:
    assert ledger("verify", "ses_none", "--json", code=9).error["code"] == "UNKNOWN_SESSION"


def test_sessions_or_all_must_be_named(ledger: CommandLine) -> None:
    assert "name sessions, or give --all" in ledger("verify", code=2).err
    assert "name sessions, or give --all" in ledger("verify", "ses_1", "--all", code=2).err


def test_several_processes_find_what_one_finds_in_the_same_order(ledger: CommandLine, intruder: Client) -> None:
    fill(ledger)
    edit_payload(intruder, key_of(intruder, "s:ses_1"))
    alone = ledger("verify", "--all", "--jobs", "1", "--json", code=11)
    shared = ledger("verify", "--all", "--jobs", "2", "--json", code=11)
    assert (shared.out, shared.err) == (alone.out, alone.err)
    assert "--jobs" in ledger("verify", "--all", "--jobs", "0", code=2).err


def test_what_the_newest_entry_says_is_read_and_the_others_only_by_deep(
    ledger: CommandLine, server: RealServer, intruder: Client
) -> None:
    fill(ledger)
    key = key_of(intruder, "s:ses_1")
    forge(server.url, key, with_a_nonsense_ask)
    assert ledger("verify", "--all", code=0).err == ALL_IS_WELL
    for words in (("verify", "--all"), ("verify", "ses_1")):
        rows = ledger(*words, "--deep", "--json", code=11).rows
        found = [(problem["version"], problem["kind"]) for row in rows for problem in row["problems"]]
        assert found == [(2, "undecodable")]
    forge(server.url, key, with_a_nonsense_reply)
    rows = ledger("verify", "ses_1", "--json", code=11).rows
    assert (3, "undecodable") in [(problem["version"], problem["kind"]) for problem in rows[0]["problems"]]


def test_a_whole_ledger_is_well_in_depth_too(ledger: CommandLine) -> None:
    fill(ledger)
    for jobs in ("1", "2"):
        ran = ledger("verify", "--all", "--deep", "--jobs", jobs, code=0)
        assert ran.err == ALL_IS_WELL


def with_a_nonsense_ask(payload: Payload) -> None:
    if payload["event"]["type"] == "asked":
        payload["event"]["verdict"] = "perhaps"


def with_a_nonsense_reply(payload: Payload) -> None:
    if payload["event"]["type"] == "replied":
        payload["event"]["outcome"] = 1

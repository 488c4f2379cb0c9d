"""Stored rules as commands carry, check and leave them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Final

import pytest
import redis

from ledger import InputError, Ledger
from ledger.core import codec
from ledger.core.commitments import genesis
from ledger.core.events import Actor, RulesDetail, RulesStored
from ledger.core.ids import new_event_id, new_salt
from ledger.log.verify import head_of
from ledger.policy import Layer, PolicySource, Rule, Verdict, digest
from ledger.stores.port import Entry
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.workers.cli.filling import entries, names
from workers.upkeep.transfer import footer, header, read_export

SECRET: Final = "hunter-two-of-the-shop"
SOURCE: Final = PolicySource(
    layers=(
        Layer("session", rules=(Rule("bash", "ls *", Verdict.ALLOW), Rule("bash", f"echo {SECRET}", Verdict.DENY))),
    )
)
STREAM: Final = f"policy:{digest(SOURCE)}"


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def fill(ledger: CommandLine, name: str = "ses_1") -> None:
    asyncio.run(_fill(ledger.url, name))


async def _fill(url: str, name: str) -> None:
    async with Ledger.connect(url, entry_points=False) as ledger:
        session = await ledger.session(name, policy=SOURCE)
        await session.submit("bash", ["ls -l"], request_id=f"{name}_r1")


def test_a_session_brings_its_rules_along_and_goes_on_by_them(
    ledger: CommandLine, client: redis.Redis, tmp_path: Path
) -> None:
    fill(ledger)
    file = tmp_path / "ses_1.jsonl"
    ledger("export", "ses_1", "--out", file, code=0)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert [line["stream"] for line in lines if "stream" in line] == [STREAM, "session:ses_1"]
    client.flushall()
    rows = ledger("import", file, "--json", code=0).rows
    assert [(row["stream"], row["added"]) for row in rows] == [(STREAM, 1), ("session:ses_1", 2)]
    ledger("verify", "--all", "--deep", code=0)
    ledger("verify", "ses_1", "--judge", code=0)
    ledger("ask", "ses_1", "bash", "ls -a", "--json", code=0)
    ledger("ask", "ses_1", "bash", f"echo {SECRET}", code=3)


def test_rules_that_the_other_ledger_stored_itself_are_those_of_the_file(
    ledger: CommandLine, client: redis.Redis, tmp_path: Path
) -> None:
    fill(ledger)
    file = tmp_path / "ledger.jsonl"
    ledger("export", "--all", "--out", file, code=0)
    client.flushall()
    fill(ledger, "ses_2")
    rows = ledger("import", file, "--json", code=0).rows
    assert [(row["stream"], row["added"]) for row in rows] == [(STREAM, 0), ("session:ses_1", 2)]
    assert "all is well\n" in ledger("verify", "--all", code=0).err
    ledger("ask", "ses_1", "bash", "ls -a", code=0)


def test_a_file_whose_rules_are_others_than_their_digest_says_is_refused() -> None:
    lax = RulesStored(
        detail=RulesDetail(policy=PolicySource(layers=(Layer("x", rules=(Rule("*", "*", Verdict.ALLOW),)),)))
    )
    prev = genesis("policy", digest(SOURCE))
    fields = codec.encode(lax, event_id=new_event_id(), prev=prev, actor=Actor("agent", "x"), salt=new_salt())
    entry = Entry(1_800_000_000_000, 1, *fields)
    content = fields[1]
    assert content is not None
    lines = (
        header(),
        {"stream": STREAM},
        {"id": str(entry.position), "d": entry.payload.decode(), "x": content.decode()},
        {"end": STREAM, "entries": 1, "hash": head_of(entry).hash},
        footer(1),
    )
    file = BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    with pytest.raises(InputError, match="line 3: the rules of `policy:"):
        list(read_export(file, "x.jsonl"))


def test_verify_names_a_session_whose_rules_are_gone_and_nothing_is_allowed_there(
    ledger: CommandLine, client: redis.Redis
) -> None:
    fill(ledger)
    (key,) = names(client, "*:r:*")
    client.delete(key)
    (row,) = ledger("verify", "--all", "--json", code=11).rows
    assert [(one["version"], one["kind"]) for one in row["problems"]] == [(1, "missing")]
    assert STREAM in row["problems"][0]["text"]
    assert row["problems"][0]["text"].startswith("RULES_UNREADABLE: ")
    for words in ((), ("--deep",)):
        found = {row["check"]: row for row in ledger("doctor", *words, "--json", code=11).rows}
        assert (found["streams"]["ok"], found["rules"]["ok"]) == (True, False)
        assert f"RULES_UNREADABLE: the rules of 1 of 1 streams cannot be read: {STREAM}" in found["rules"]["text"]
        assert "named by session:ses_1" in found["rules"]["text"]
    refused = ledger("ask", "ses_1", "bash", "ls -a", "--json", code=11)
    assert json.loads(refused.err.splitlines()[-1])["code"] == "RULES_UNREADABLE"
    ledger("show", "ses_1", code=0)
    ledger("close", "ses_1", code=0)


def test_damaged_rules_are_found_beside_the_session_that_names_them(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    (key,) = names(client, "*:r:*")
    ((entry_id, fields),) = entries(client, key)
    client.delete(key)
    client.xadd(key, {**fields, b"x": fields[b"x"].replace(b"ls *", b"rm *")}, id=entry_id)
    rows = {row["stream"]: row["problems"] for row in ledger("verify", "ses_1", "--json", code=11).rows}
    assert [one["kind"] for one in rows[STREAM]] == ["altered"]
    assert [one["kind"] for one in rows["session:ses_1"]] == ["missing"]
    ledger("ask", "ses_1", "bash", "ls -a", code=11)


def test_what_stands_in_rules_stays_and_redact_says_so(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    before = {key: client.dump(key) for key in names(client, "*:r:*")}
    told = ledger("redact", "--matching", SECRET, "--since", "all", "--yes", "--reason", "a leak")
    assert "in rules, which sessions name" in told.out + told.err
    assert {key: client.dump(key) for key in names(client, "*:r:*")} == before


def test_views_of_a_ledger_with_stored_rules_are_rebuilt_as_they_were(ledger: CommandLine) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    ledger("rebuild", "--verify", code=0)
    rows = ledger("streams", "--each", "--json", code=0).rows
    assert {row["stream"]: row["behind"] for row in rows} == {STREAM: 0, "session:ses_1": 0}
    assert [row["session"] for row in ledger("sessions", "--json", code=0).rows] == ["ses_1"]

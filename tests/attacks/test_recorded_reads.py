"""Attempts to read without rights, or to sign in, without being recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import redis

from ledger import Ledger
from ledger.core.errors import StoreError
from ledger.core.events import Actor
from ledger.core.times import DAY_MS
from ledger.log.archive.archive import all_streams
from ledger.log.reads import KINDS, TEXT_CHARS_MAX, AuditedRead, ReadKind, record, recorded
from ledger.stores.secrets import link_key
from ledger.testing import TestClock
from tests.gateway.callers import Served, in_process
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.support.waiting import wait_until_async
from workers.gateway.principals import Principal
from workers.gateway.reads import GATHERED_COUNT_MAX, LOOKS_COUNT_MAX, OTHERS, Reads
from workers.runtime.answer_links import AnswerLink, AnswerLinks


@pytest.fixture
async def ledger(server: RealServer) -> AsyncIterator[Ledger]:
    async with Ledger.connect(server.url) as ledger:
        yield ledger


@pytest.fixture
async def gateway(ledger: Ledger) -> AsyncIterator[Served]:
    async with in_process(ledger) as one:
        yield one


async def written(gateway: Served, kind: ReadKind) -> list[dict[str, Any]]:
    await gateway.gateway.reads.flush()
    return [one.as_json() for one in await recorded(gateway.ledger.store, (kind,))]


async def test_trying_tokens_without_being_noticed(gateway: Served) -> None:
    nobody = gateway.caller_with(None)
    for number in range(3):
        assert (
            await nobody.post("/v1/sign-in", {"token": f"plt_{number}"}, origin="http://gateway")
        ).status_code == 401
    guessing = gateway.caller_with("plt_guessed")
    assert (await guessing.get("/v1/me")).status_code == 401
    rows = await written(gateway, "failed_sign_in")
    assert {(row.get("what"), row.get("count", 1)) for row in rows} == {("/v1/sign-in", 3), (None, 1)}


async def test_signing_in_without_being_noticed(gateway: Served) -> None:
    made = await gateway.ledger.tokens.create("ann", "approver")
    nobody = gateway.caller_with(None)
    signed_in = await nobody.post("/v1/sign-in", {"token": made.text}, origin="http://gateway")
    assert signed_in.status_code == 200, signed_in.text
    [row] = await written(gateway, "sign_in")
    assert (row["name"], row["role"], row["via"]) == ("ann", "approver", "inbox")


async def test_looking_at_a_session_without_being_noticed(gateway: Served) -> None:
    agent, eve = await gateway.caller("agent", "worker"), await gateway.caller("auditor", "eve")
    await agent.put("/v1/sessions/ses_1")
    for path in ("", "/log", "/timeline", "/state"):
        assert (await eve.get(f"/v1/sessions/ses_1{path}")).status_code == 200
    await agent.get("/v1/sessions/ses_1")
    [row] = await written(gateway, "look")
    assert (row["name"], row["role"], row["session"], row.get("count", 1)) == ("eve", "auditor", "ses_1", 1)


async def test_a_session_that_is_not_theirs_is_no_look_at_it(gateway: Served) -> None:
    agent, eve = await gateway.caller("agent", "worker"), await gateway.caller("auditor", "eve", projects=["other"])
    await agent.put("/v1/sessions/ses_1")
    assert (await eve.get("/v1/sessions/ses_1/log")).status_code == 404
    assert await written(gateway, "look") == []


@pytest.mark.slow
async def test_what_was_noted_is_written_without_anybody_asking(gateway: Served) -> None:
    gateway.gateway.reads.note(AuditedRead(kind="sign_in", name="ann"))

    async def is_written() -> bool:
        return bool(await recorded(gateway.ledger.store, ("sign_in",)))

    await wait_until_async(is_written, "the read to be written")


async def test_pushing_out_the_sign_ins_of_people_with_a_flood_of_guesses(ledger: Ledger) -> None:
    reads = Reads(ledger.store, DAY_MS)
    reads.note(AuditedRead(kind="sign_in", name="ann"))
    for number in range(GATHERED_COUNT_MAX * 4):
        reads.note(AuditedRead(kind="failed_sign_in", address=f"10.0.{number // 256}.{number % 256}"))
    await reads.close()
    assert [one.read.name for one in await recorded(ledger.store, ("sign_in",))] == ["ann"]
    failed = [one.read for one in await recorded(ledger.store, ("failed_sign_in",), count=10_000)]
    assert len(failed) == GATHERED_COUNT_MAX + 1
    assert sum(one.count for one in failed) == GATHERED_COUNT_MAX * 4
    assert [one.count for one in failed if one.what == OTHERS] == [GATHERED_COUNT_MAX * 3]


async def test_filling_the_memory_with_looks(ledger: Ledger) -> None:
    reads = Reads(ledger.store, DAY_MS)
    eve = Principal(name="eve", role="auditor", token_id="plt_eve")
    for number in range(LOOKS_COUNT_MAX + 10):
        reads.look(eve, f"ses_{number}")
    assert len(reads._looks) == LOOKS_COUNT_MAX
    await reads.close()


async def test_a_read_that_cannot_be_written_is_in_nobodys_way(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(*_: object) -> None:
        raise StoreError("the server is away")

    monkeypatch.setattr(ledger.store, "note_reads", refuse)
    reads = Reads(ledger.store, DAY_MS)
    reads.note(AuditedRead(kind="sign_in", name="ann"))
    await reads.close()
    assert "1 reads were not recorded: the server is away" in caplog.text


async def test_a_name_without_end_is_cut(ledger: Ledger) -> None:
    await record(ledger.store, (AuditedRead(kind="sign_in", name="a" * 100_000),))
    [one] = await recorded(ledger.store, ("sign_in",))
    assert one.read.name == "a" * TEXT_CHARS_MAX


@pytest.mark.parametrize("url", ["memory://", "real"])
async def test_what_is_too_old_goes_with_the_next_read(url: str, server: RealServer) -> None:
    clock = TestClock()
    async with Ledger.connect(server.url if url == "real" else url, clock=clock) as ledger:
        for kind in KINDS:
            await record(ledger.store, (AuditedRead(kind=kind, name="old"),), DAY_MS)
        old = await recorded(ledger.store)
        assert [one.read.name for one in old] == ["old"] * len(KINDS)
        # The entries have the server's time, so the retention is moved instead.
        first_ms = old[0].ms
        await ledger.store.note_reads("look", [b'{"kind":"look","name":"new"}'], 100, first_ms + DAY_MS)
        names = {kind: [one.read.name for one in await recorded(ledger.store, (kind,))] for kind in KINDS}
    kept = {kind: ["old"] for kind in KINDS}
    assert names in ({**kept, "look": []}, {**kept, "look": ["new"]})


async def test_the_reads_are_no_part_of_any_session(ledger: Ledger) -> None:
    await record(ledger.store, (AuditedRead(kind="look", name="eve", session="ses_1"),))
    assert [key async for key in all_streams(ledger.store)] == []


def test_taking_everything_out_without_being_noticed(server: RealServer, tmp_path: Path) -> None:
    with redis.Redis.from_url(server.url) as client:
        client.flushall()
    command = CommandLine(server.url)
    command("ask", "ses_1", "bash", "ls", "--no-wait", code=7)
    command("export", "--all", "--out", tmp_path / "all.jsonl", code=0)
    row = command("access", "--json", code=0).row
    assert (row["kind"], row["what"]) == ("export", f"everything to {tmp_path / 'all.jsonl'}")
    assert row["name"] == command("access", "--kind", "export", "--json", code=0).row["name"]
    assert command("access", "--who", "nobody", "--json", code=0).rows == []
    assert "export" in command("access", code=0).out


async def test_looking_behind_an_answer_link(gateway: Served) -> None:
    agent = await gateway.caller("agent", "worker")
    await agent.put("/v1/sessions/ses_1")
    asked = (await agent.ask("ses_1")).json()
    await gateway.ledger.tokens.create("ann", "approver", actor=Actor("person", "ann"))
    links = AnswerLinks(await link_key(gateway.ledger.store))
    [one] = await gateway.ledger.pending()
    expires_ms = gateway.gateway.now_ms + DAY_MS
    text = links.sign(AnswerLink("ses_1", asked["request_id"], one.request.digest, "ann", expires_ms))
    assert (await gateway.caller_with(None).get(f"/answer/{text}")).status_code == 200
    [row] = await written(gateway, "link_view")
    assert (row["name"], row["session"], row["what"]) == ("ann", "ses_1", asked["request_id"])

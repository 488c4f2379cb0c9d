"""The soak finds what it looks for, and a short one on a real server finds nothing."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from bench.place import Place, place_at
from bench.soak.audit import Audit, still_readable
from bench.soak.day import RULES, command_of, is_ignored, word_of
from bench.soak.indexes import until_indexed, wrong_in
from bench.soak.leftovers import keys_without_end, outlived, until_sealed
from bench.soak.memory import MEGABYTE, Sample, marked_processes, memory_of, row_of
from bench.soak.telling import Asked, Heard
from ledger import Ledger, Timeouts
from ledger.core.events import Presence
from ledger.stores.embedded import embedded_server
from ledger.stores.port import WorkPlace
from tests.projections.looking import project_all
from tests.support.archives import seal_all
from tests.support.indexing import index
from tests.support.processes import ROOT, next_line, python

SHORT: Final = ("--minutes", "0.3", "--agents", "8", "--speed", "120")
KINDS: Final = {"gateway", "expiry", "projector", "archiver", "indexer", "agents", "agents over HTTP", "person"}

HOUR: Final = 3600.0
COUNT: Final = 100


def samples(bytes_a_request: float, start_bytes: float = 0, seconds: float = HOUR) -> list[Sample]:
    """Return samples of a process of 50 MB that fills a cache of 20 MB in the first third, with 200 requests a sample."""
    return [
        Sample(
            at_seconds=seconds * number / COUNT,
            resident_bytes=int(
                50 * MEGABYTE + start_bytes * min(1, 3 * number / COUNT) + bytes_a_request * number * 200
            ),
            files=10,
            requests=number * 200,
        )
        for number in range(COUNT)
    ]


def test_a_process_that_keeps_two_kilobytes_of_each_request_grows() -> None:
    row = row_of("projector 0", samples(2048))
    assert row.flat is False
    assert row.a_request == pytest.approx(2048, rel=0.3)


def test_a_process_whose_cache_fills_during_the_warm_up_is_flat() -> None:
    row = row_of("projector 0", samples(0, start_bytes=20 * MEGABYTE))
    assert (row.flat, row.growth) == (True, 0)


@pytest.mark.parametrize(("leak", "flat"), [(0, True), (2048, False)])
def test_a_library_that_is_loaded_once_is_no_growth_and_hides_none(leak: int, flat: bool) -> None:
    loaded = [
        Sample(one.at_seconds, one.resident_bytes + (50 * MEGABYTE if index > 60 else 0), one.files, one.requests)
        for index, one in enumerate(samples(leak))
    ]
    assert row_of("gateway 0", loaded).flat is flat


def test_the_memory_of_a_short_life_is_not_judged() -> None:
    assert row_of("gateway 1", samples(2048, seconds=60)).flat is None


def test_memory_and_files_of_a_process_are_read_and_none_of_one_that_ended() -> None:
    found = memory_of(os.getpid())
    assert found is not None
    assert found[0] > 10 * MEGABYTE
    assert found[1] > 0
    with python("print('here', flush=True)") as process:
        assert next_line(process) == "here"
        process.wait()
        assert memory_of(process.pid) is None


def test_a_process_that_outlives_a_soak_is_found_by_its_environment(tmp_path: Path) -> None:
    marks = {"PERMISSION_LEDGER_HOME": str(tmp_path)}
    with python("print('here', flush=True); input()", environment=marks) as process:
        assert next_line(process) == "here"
        assert marked_processes(f"PERMISSION_LEDGER_HOME={tmp_path}") == [process.pid]
    assert marked_processes(f"PERMISSION_LEDGER_HOME={tmp_path}") == []


async def test_a_process_that_ends_a_moment_later_is_none_that_outlives(tmp_path: Path) -> None:
    mark = f"PERMISSION_LEDGER_HOME={tmp_path}"
    with python("print('here', flush=True); input()", environment={"PERMISSION_LEDGER_HOME": str(tmp_path)}) as process:
        assert next_line(process) == "here"
        assert await outlived(mark, 0) == [process.pid]
        asyncio.get_running_loop().call_later(0.1, process.kill)
        assert await outlived(mark, 60) == []


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with embedded_server(tmp_path) as server, place_at(server.url, quick=True) as place:
        yield place


async def worked(ledger: Ledger) -> None:
    """Write a session with an answered and claimed request, and one that is pending."""
    session = await ledger.session("ses_1", rules=RULES, timeouts=Timeouts(unattended=600))
    for name in ("r1", "r2"):
        await session.submit("bash", [command_of(name, "make")], request_id=name)
    await session.reply("r1", "once", actor="ann")
    await session.claim("r1")


async def audited(ledger: Ledger, *lines: str) -> list[str]:
    heard, audit = Heard(), Audit()
    for line in lines:
        heard.hear(line)
    await audit.read(ledger)
    return audit.findings(heard)


async def test_an_audit_finds_what_has_no_end_and_who_was_told_otherwise(place: Place) -> None:
    await worked(place.ledger)
    assert await audited(place.ledger, "told ses_1 r1 allowed 2", "asked ses_1 r2") == [
        "1 requests without an end: ses_1/r2",
        "1 claims without an end: ses_1/r1",
    ]
    session = await place.ledger.attach("ses_1")
    await session.end_claims()
    await session.close()
    assert await audited(place.ledger, "told ses_1 r1 allowed 2", "told ses_1 r2 cancelled 3") == []
    assert await audited(place.ledger, "told ses_1 r1 rejected 2", "told ses_1 r9 allowed 0") == [
        "2 requests whose asker or approver was told what the log does not say: ses_1/r1, ses_1/r9"
    ]


async def test_a_redacted_request_can_be_read_until_it_was_redacted(place: Place) -> None:
    await worked(place.ledger)
    one = Asked("ses_1", "r1", 2)
    assert await still_readable(place.ledger, [one]) == ["1 redacted requests that can still be read: ses_1/r1"]
    (plan,) = await place.ledger.redactions.plan("ses_1", [one.version])
    await place.ledger.redactions.redact(plan, reason="a test", actor=place.ledger.actor("ann", "person"))
    assert await still_readable(place.ledger, [one]) == []
    session = await place.ledger.attach("ses_1")
    settled = (await session.state()).settled["r1"]
    assert settled.claim is not None
    await session.finish("r1", settled.claim.claim_id, output=command_of("r1", "make"))
    assert await still_readable(place.ledger, [one]) == [], "the run went on after the redaction"
    assert await still_readable(place.ledger, [Asked("ses_1", "r2", 3)]) != []


async def test_an_index_is_held_against_the_log_and_what_was_redacted(place: Place, tmp_path: Path) -> None:
    await worked(place.ledger)
    file = tmp_path / "index.sqlite"
    await index(place.ledger, file)
    one, ends = Asked("ses_1", "r1", 2), {("ses_1", "r1"): {"allowed"}, ("ses_1", "r2"): {"pending"}}
    assert await until_indexed(place.ledger, [file], 1) == []
    assert wrong_in(file, ends, []) == []
    assert wrong_in(file, {**ends, ("ses_1", "r2"): {"expired"}, ("ses_9", "r9"): {"denied"}}, [one]) == [
        "index.sqlite: 1 requests are missing, like ('ses_9', 'r9')",
        "index.sqlite: 1 requests ended otherwise, like ('ses_1', 'r2')",
        "index.sqlite: 1 redacted requests are found, like ('ses_1', 'r1')",
    ]
    await place.ledger.session("ses_2")
    assert await until_indexed(place.ledger, [file], 0.1) == ["an index lags after 0 s: index.sqlite"]


async def test_a_lease_that_nothing_ends_is_left_over(place: Place) -> None:
    await worked(place.ledger)
    await place.ledger.connect_inbox("inbox-ann", actor="ann")
    assert await place.ledger.store.lease(WorkPlace("archiver"), Presence("somebody", ""), 60_000, alone=True)
    assert await keys_without_end(place) == []
    await place.floor.send("PERSIST", "{pl:0}:turn:archiver")
    assert await keys_without_end(place) == ["{pl:0}:turn:archiver"]


async def test_a_run_waits_until_a_session_is_sealed(place: Place, tmp_path: Path) -> None:
    await (await place.ledger.session("ses_1")).close()
    assert not await until_sealed(place, 0.1)
    await project_all(place.ledger)
    await seal_all(place.ledger, tmp_path / "archive")
    assert await until_sealed(place, 10)


def test_each_request_has_a_word_of_its_own_and_one_in_eight_is_answered_by_nobody() -> None:
    names = [f"a0.0-{number}" for number in range(4000)]
    assert len({word_of(name) for name in names}) == len(names)
    assert sum(map(is_ignored, names)) == pytest.approx(len(names) / 8, rel=0.2)


def test_lines_of_a_killed_process_may_be_torn_and_others_are_kept() -> None:
    heard = Heard()
    for line in ("asked s r", "told s r allowed 4", "told s r2 expired 0", "error IN_DOUBT", "told s"):
        heard.hear(line)
    assert heard.asked == {("s", "r")}
    assert dict(heard.told) == {("s", "r"): {"allowed"}, ("s", "r2"): {"expired"}}
    assert heard.redactable == [Asked("s", "r", 4)]
    assert heard.errors == {"IN_DOUBT": 1, "a torn line": 1}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_short_soak_kills_each_kind_of_process_and_leaves_nothing_behind(tmp_path: Path) -> None:
    file = tmp_path / "soak.json"
    command = [sys.executable, "-m", "bench.soak", *SHORT, "--folder", str(tmp_path / "s"), "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    run: dict[str, Any] = json.loads(file.read_text())
    assert run["findings"] == []
    assert set(run["kills"]) == KINDS
    assert set(run["outcomes"]) >= {"allowed", "denied", "expired"}
    assert run["sealed"] > 0
    assert sum(run["redactions"].values()) > 0
    assert {one["process"] for one in run["memory"]} >= {f"{kind} 0" for kind in KINDS} | {"server"}

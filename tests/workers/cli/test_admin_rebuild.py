"""`rebuild` restores all views from the log; `rebuild --verify` reports differences and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest
import redis

from ledger.stores.keys import VIEWS_FORMAT
from tests.support.command_line import CommandLine
from tests.support.servers import RealServer
from tests.workers.cli.filling import entries, fill, names, views

GHOST: Final = f"{{pl:9}}:view:{VIEWS_FORMAT}:ghost"
"""A view that no projection makes."""

PASSES: Final = 2
"""One over the streams, and one over the views. A small ledger takes one command for each."""


@pytest.fixture
def client(server: RealServer) -> Iterator[redis.Redis]:
    with redis.Redis.from_url(server.url) as client:
        yield client


def view_key(client: redis.Redis, ending: str) -> str:
    (key,) = names(client, f"*:view:{VIEWS_FORMAT}:{ending}")
    return key


def beside_pending(client: redis.Redis, view: str) -> str:
    """Return the key of a view with ses_2, in the only partition with a pending request."""
    return view_key(client, "pending").replace("pending", view)


def test_views_come_back_byte_for_byte(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    assert ledger("rebuild", "--json", code=0).row == {"streams": 4, "events": 7, "problems": []}
    before = views(client)
    for key in before:
        client.delete(key)
    client.hset(GHOST, "1", "x")
    assert ledger("rebuild", code=0).out == "rebuilt all views from 7 events of 4 streams\n"
    assert views(client) == before


def test_several_processes_bring_back_what_one_does(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    ledger("rebuild", "--jobs", "1", code=0)
    before = views(client)
    client.hset(GHOST, "1", "x")
    ran = ledger("rebuild", "--jobs", "2", "--json", code=0)
    assert (ran.row, ran.err) == ({"streams": 4, "events": 7, "problems": []}, "")
    assert views(client) == before


def test_a_rebuild_passes_over_the_keys_as_often_whatever_the_number_of_partitions(
    ledger: CommandLine, client: redis.Redis
) -> None:
    fill(ledger)
    client.config_resetstat()
    ledger("rebuild", code=0)
    stats: Any = client.info("commandstats")
    assert stats["cmdstat_scan"]["calls"] == PASSES


def test_what_a_process_repairs_is_told_by_the_command(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    (key,) = names(client, "*}:p:shop")
    client.delete(key)
    alone = ledger("rebuild", "--jobs", "2", code=0)
    assert "project shop lacked the grants of the reply to r1" in alone.err
    (grant,) = ledger("approved", "--project", "shop", "--json", code=0).rows
    assert grant["pattern"] == "git *"


def test_what_no_projector_has_come_to_is_behind_and_no_difference(ledger: CommandLine) -> None:
    fill(ledger)
    ran = ledger("rebuild", "--verify", code=0)
    assert ran.out == ""
    assert ran.err.splitlines() == [
        "behind: 7 events of 4 streams are not in the views yet; run the projector",
        "0 fields of 4 partitions compared: none differ",
    ]
    ledger("rebuild", code=0)
    ledger("ask", "ses_2", "bash", "more", "--no-wait", code=7)
    ran = ledger("rebuild", "--verify", "--json", code=0)
    assert ran.out == ""
    assert "behind: 1 events of 1 streams" in ran.err


def test_each_difference_is_named_with_both_sides(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    client.hset(beside_pending(client, "sessions"), "ses_2", "lies")
    client.hdel(view_key(client, "pending"), "ses_2\np1")
    client.hset(GHOST, "1", "x")
    before = views(client)
    rows = ledger("rebuild", "--verify", "--json", code=11).rows
    assert [list(row)[:4] for row in rows] == [["view", "key", "same", "difference"]] * 3
    by_view = {row["view"]: row for row in rows}
    assert set(by_view) == {"pending", "sessions", "ghost"}
    assert (by_view["pending"]["key"], by_view["pending"]["same"]) == ("ses_2 p1", False)
    assert by_view["pending"]["difference"]["live"] is None
    assert by_view["pending"]["difference"]["rebuilt"]["request_id"] == "p1"
    assert by_view["sessions"]["difference"]["live"] == "lies"
    assert views(client) == before
    table = ledger("rebuild", "--verify", code=11)
    assert "3 differ" in table.err
    assert "ses_2 p1" in table.out
    ledger("rebuild", code=0)
    assert ledger("rebuild", "--verify", code=0).out == ""


def test_with_all_what_is_the_same_is_printed_too(ledger: CommandLine) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    rows = ledger("rebuild", "--verify", "--all", "--json", code=0).rows
    assert {row["same"] for row in rows} == {True}
    assert {"checkpoints", "pending", "approved", "latest", "requests", "grants", "counts", "outcomes"} <= {
        row["view"].partition("-")[0] for row in rows
    }
    assert "--all goes with --verify" in ledger("rebuild", "--all", code=2).err


def test_a_damaged_stream_is_told_and_the_others_are_rebuilt(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    ledger("rebuild", code=0)
    (key,) = names(client, "*}:s:ses_1")
    client.xdel(key, entries(client, key)[1][0])
    rows = ledger("rebuild", "--verify", "--json", code=11).rows
    assert ("log", "session:ses_1") in {(row["view"], row["key"]) for row in rows}
    ran = ledger("rebuild", code=11)
    assert "stream `session:ses_1`" in ran.err
    assert client.hexists(beside_pending(client, "checkpoints"), "session:ses_2")


def test_a_project_grant_that_was_left_out_is_written(ledger: CommandLine, client: redis.Redis) -> None:
    fill(ledger)
    (key,) = names(client, "*}:p:shop")
    client.delete(key)
    ledger("rebuild", code=0)
    (grant,) = ledger("approved", "--project", "shop", "--json", code=0).rows
    assert (grant["pattern"], grant["by"], grant["request_id"]) == ("git *", "ann", "r1")

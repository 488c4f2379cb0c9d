"""A disk that is nearly full is a finding, although the last write succeeded."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger import Durability
from workers.upkeep.health import DiskSpace, check_server_facts, is_on_this_machine, space_of

GIB = 1024**3


@pytest.mark.parametrize(
    ("free_bytes", "total_bytes", "is_low"),
    [
        (2 * GIB, 100 * GIB, True),
        (60 * GIB, 100 * GIB, False),
        (6 * GIB, 100 * GIB, False),
        (160 * GIB, 4000 * GIB, False),
        (32 * 1024**2, 64 * 1024**2, True),
        (0, 0, True),
    ],
)
def test_a_disk_is_nearly_full_by_share_and_by_size(free_bytes: int, total_bytes: int, *, is_low: bool) -> None:
    assert DiskSpace(Path("/data"), free_bytes, total_bytes).is_low is is_low


def test_doctor_tells_of_a_disk_that_is_98_per_cent_full() -> None:
    space = DiskSpace(Path("/data"), 2 * GIB, 100 * GIB)
    found = {one.check: one for one in check_server_facts({"aof_enabled": "1"}, 0, Durability(), space)}
    assert not found["disk"].ok
    assert "98 % used" in found["disk"].text
    assert found["disk"].hint == "free space on the server's disk"


def test_a_failed_write_counts_more_than_free_space() -> None:
    space = DiskSpace(Path("/data"), 90 * GIB, 100 * GIB)
    facts = {"aof_enabled": "1", "aof_last_write_status": "err"}
    found = {one.check: one for one in check_server_facts(facts, 0, Durability(), space)}
    assert not found["disk"].ok
    assert "aof_last_write_status" in found["disk"].text


@pytest.mark.parametrize(
    ("url", "is_here"),
    [
        ("embedded://", True),
        ("embedded:///home/ann/ledger", True),
        ("unix:///run/redis.sock", True),
        ("redis://127.0.0.1:6379", True),
        ("redis://:hush@localhost", True),
        ("redis://ledger.internal", False),
        ("redis+cluster://node-1:6379,node-2:6379", False),
    ],
)
def test_the_disk_of_another_machine_is_not_looked_at(url: str, *, is_here: bool) -> None:
    assert is_on_this_machine(url) is is_here


def test_a_folder_that_is_not_here_has_no_known_space(tmp_path: Path) -> None:
    assert space_of(tmp_path / "elsewhere") is None
    known = space_of(tmp_path)
    assert known is not None
    assert 0 <= known.free_bytes <= known.total_bytes

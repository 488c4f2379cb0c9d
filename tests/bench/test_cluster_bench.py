"""The bench of clusters runs, and counts what it says; how large its figures are is not tested."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.cluster.figures import ClusterRun, Scale, shares_of
from bench.cluster.nodes import Load, cluster, url_of
from bench.cluster.touches import Touches, monitoring
from ledger import Ledger
from ledger.log.archive.archive import all_streams
from tests.support.processes import ROOT

LUA = b'+1700000000.1 [0 lua] "XADD" "{pl:17}:s:ses_1" "1-1" "d" "x"\r\n'
EVAL = b'+1700000000.1 [0 127.0.0.1:5] "EVALSHA" "abc" "2" "{pl:17}:s:ses_1" "{pl:17}:due"\r\n'
READ = b'+1700000000.1 [0 127.0.0.1:5] "HGETALL" "{pl:0}:notes:walk"\r\n'
CONFIG = b'+1700000000.1 [0 unix:/x] "HGETALL" "pl:config"\r\n'


def test_touches_count_what_a_script_does_and_not_its_call() -> None:
    touches = Touches()
    for line in (LUA, EVAL, READ, READ, CONFIG, b"+OK\r\n"):
        touches.read(line)
    assert touches.by_key == {"{pl:17}:s:ses_1": 1, "{pl:0}:notes:walk": 2, "pl:config": 1}
    assert touches.of_the_whole == 3
    assert touches.hottest(1) == [("{pl:0}:notes:walk", 2)]


def load(seconds: float, commands: int) -> Load:
    return Load(seconds, seconds / 2, commands, commands, commands)


def scale(primaries: int, capacity: float) -> Scale:
    return Scale(
        primaries=primaries,
        events=100,
        microseconds_an_event=1,
        script_microseconds=1,
        capacity=capacity,
        processor_capacity=1,
    )


@pytest.mark.parametrize(
    ("second", "hot", "held"),
    [
        (load(1.0, 100), 1, [True, True, True, True]),
        (load(1.5, 100), 1, [True, False, True, True]),
        (load(1.0, 100), 900, [True, True, False, False]),
    ],
)
def test_a_run_judges_gain_shares_the_hottest_key_and_the_keys_of_the_whole(
    second: Load, hot: int, held: list[bool]
) -> None:
    touches = Touches()
    for partition in range(256):
        for _ in range(hot if partition == 0 else 1):
            touches.read(b'+1.0 [0 lua] "HGETALL" "{pl:%d}:notes:x"\r\n' % partition)
    nodes = shares_of([load(1.0, 100), second])
    run = ClusterRun.of(10, [scale(1, 100), scale(2, 190)], nodes, touches, 3)
    assert [one.holds for one in run.targets] == held
    lost = ClusterRun.of(10, [scale(1, 100), scale(2, 170)], nodes, touches, 3)
    assert lost.targets[0].holds is False


def test_idling_is_no_load() -> None:
    assert load(2.0, 10).without_idling(0.05, 10).processor_seconds == pytest.approx(1.5)


@pytest.mark.slow
async def test_the_touches_of_every_primary_are_counted(tmp_path: Path) -> None:
    with cluster(tmp_path, 3) as nodes:
        async with Ledger.connect(url_of(nodes), entry_points=False) as ledger:
            async with monitoring(nodes) as touches:
                for number in range(12):
                    await ledger.session(f"ses_{number}")
            streams = {
                ledger.store.keys.stream(key)  # type: ignore[attr-defined]
                async for key in all_streams(ledger.store)
                if key.kind == "session"
            }
        assert {key for key in touches.by_key if "}:s:" in key} == streams
        assert all([await asyncio.to_thread(node.run, "DBSIZE") for node in nodes])


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_small_run_fills_three_clusters_and_writes_the_documented_keys(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    command = [sys.executable, "-m", "bench.cluster", "--sessions", "40", "--jobs", "2", "--json", str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    # So few sessions spread by chance, which may miss a target.
    assert done.returncode in (0, 11), done.stderr
    run: dict[str, Any] = json.loads(file.read_text())
    assert set(run) == {"version", "sessions", "scales", "nodes", "touches", "hottest", "targets"}
    assert [one["primaries"] for one in run["scales"]] == [1, 2, 3]
    assert [one["events"] for one in run["scales"]] == [400] * 3
    assert sum(node["keys_share"] for node in run["nodes"]) == pytest.approx(1)
    assert len(run["targets"]) == 5
    assert run["touches"] > 400

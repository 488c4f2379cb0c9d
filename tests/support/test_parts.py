"""The parts of `make test-all` have each test once, and those that passed are not run again."""

from __future__ import annotations

import re
import sys
from itertools import product
from pathlib import Path

import pytest

from tests import parts
from tests.parts import PARTS, ROOT, Log, Part, run
from tests.support.programs import SERVERS_VARIABLE, servers_to_test

PASSES = Part((sys.executable, "-c", "print('1 passed')"))
FAILS = Part((sys.executable, "-c", "print('== 1 failed =='); raise SystemExit(1)"))


def has(part: Part, markers: dict[str, bool]) -> bool:
    """Return whether a part selects a test with these markers."""
    expression = part.command[part.command.index("-m", 2) + 1]
    return bool(eval(expression, {}, markers))


def test_each_test_is_in_one_part() -> None:
    groups = ("workers", "gateway", "journeys")
    for slow, other_server, cluster in product((False, True), repeat=3):
        markers = {"slow": slow or other_server or cluster, "other_server": other_server, "cluster": cluster}
        if not (other_server and cluster):
            names = [name for name in ("short", "redis", "cluster", "slow") if has(PARTS[name], markers)]
            assert len(names) == 1, markers
            assert all(has(PARTS[group], markers) == (names == ["slow"]) for group in groups)
    folders = [word for group in groups for word in PARTS[group].command if word.startswith("tests/")]
    assert [word.removeprefix("--ignore=") for word in PARTS["slow"].command if "--ignore" in word] == folders
    assert all((ROOT / folder).is_dir() for folder in (*folders, *(f"tests/{name}" for name in parts.SLOW_FOLDERS)))


def test_all_servers_are_in_some_part(monkeypatch: pytest.MonkeyPatch) -> None:
    tested = set()
    for part in PARTS.values():
        monkeypatch.setenv(SERVERS_VARIABLE, part.variables.get(SERVERS_VARIABLE, ""))
        tested |= {*servers_to_test()}
    monkeypatch.setenv(SERVERS_VARIABLE, "all")
    assert tested == {*servers_to_test()}


def test_a_server_that_nobody_knows_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVERS_VARIABLE, "memory,redis-9")
    with pytest.raises(AssertionError, match=re.escape("no server `redis-9`; there are memory, embedded, redis-7.0")):
        servers_to_test()


def test_a_part_that_passed_on_this_commit_is_not_run_again(tmp_path: Path) -> None:
    log = Log(tmp_path / "state" / "tests.tsv", "1234abcd")
    assert run("one", PASSES, log)
    assert not run("two", FAILS, log)
    assert log.passed() == {"one"}
    assert [(line[1], line[2], line[-1]) for line in log.lines()] == [
        ("one", "passed", "1 passed"),
        ("two", "failed", "1 failed"),
    ]
    assert Log(log.path, "another1").passed() == set()
    assert not run("one", FAILS, log)
    assert log.passed() == set()


def test_nothing_has_passed_where_changes_are_not_committed(tmp_path: Path) -> None:
    log = Log(tmp_path / "tests.tsv", "1234abcd+")
    assert run("one", PASSES, log)
    assert log.passed() == set()


def test_a_part_that_is_none_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert parts.main(["shorts"]) == 2
    assert capsys.readouterr().err == f"test-all: no part `shorts`; there are {' '.join(PARTS)}\n"


class Item:
    """As much of a test as its marks are chosen by."""

    def __init__(self, file: str, *markers: str, fixtures: tuple[str, ...] = ()) -> None:
        self.path, self.fixturenames, self.markers = ROOT / "tests" / file, fixtures, list(markers)

    def get_closest_marker(self, name: str) -> str | None:
        return name if name in self.markers else None

    def add_marker(self, marker: pytest.MarkDecorator) -> None:
        self.markers.append(marker.name)


@pytest.mark.parametrize(
    ("item", "markers"),
    [
        (Item("session/test_a.py"), []),
        (Item("journeys/test_a.py"), ["slow"]),
        (Item("journeys/test_a.py", "smoke"), ["smoke"]),
        (Item("stores/test_a.py", "other_server"), ["other_server", "slow"]),
        (Item("attacks/test_a.py", fixtures=("browser",)), ["tools", "slow"]),
        (Item("gateway/inbox/test_a.py", "smoke", fixtures=("browser",)), ["smoke", "tools"]),
        (Item("agents/test_a.py", fixtures=("browser",)), ["tools"]),
    ],
    ids=lambda value: str(value.path.relative_to(ROOT)) if isinstance(value, Item) else "",
)
def test_folders_servers_and_browsers_make_a_test_slow(item: Item, markers: list[str]) -> None:
    parts.mark([item])  # type: ignore[list-item]
    assert item.markers == markers

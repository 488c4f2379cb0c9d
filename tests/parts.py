"""`make test-all`: everything that can be tested, in parts. A part that passed is not run again on the same commit.

    .venv/bin/python -m tests.parts                   # the parts that have not passed on this commit
    .venv/bin/python -m tests.parts short redis       # these, whatever passed before

Each part's commit, result and closing line is added to a file outside the checkout, which the last line names.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.programs import ALL_VARIABLE, CLUSTER, OTHERS, SERVERS_VARIABLE

ROOT: Final = Path(__file__).resolve().parents[1]

SLOW_FOLDERS: Final = frozenset({"cluster", "gateway/inbox", "journeys", "release", "servers", "simulation"})
"""Folders whose tests are slow, as those of browsers are, but for the ones with the marker `smoke`."""

ON_OTHER_SERVERS: Final = ("other_server", "cluster")
"""Markers of tests that are slow too, and have parts of their own."""

SLOW: Final = f"slow and not ({' or '.join(ON_OTHER_SERVERS)})"


class Part(NamedTuple):
    """A command, and the variables that it adds to the environment."""

    command: tuple[str, ...]
    variables: Mapping[str, str] = {}


def of_tests(expression: str, *words: str, servers: str = "") -> Part:
    variables = {ALL_VARIABLE: "1", SERVERS_VARIABLE: servers}
    return Part((sys.executable, "-m", "pytest", "-n", "2", "-m", expression, *words), variables)


_GROUPS: Final = {
    "workers": ("tests/workers",),
    "gateway": ("tests/gateway", "tests/attacks"),
    "journeys": ("tests/journeys", "tests/bench", "tests/servers"),
}
"""Slow tests by their folders; the part `slow` has those of all others."""

PARTS: Final = {
    "short": of_tests("not slow"),
    "redis": of_tests("other_server", servers=",".join(("embedded", *OTHERS))),
    "cluster": of_tests("cluster", servers=CLUSTER),
    **{name: of_tests(SLOW, *folders) for name, folders in _GROUPS.items()},
    "slow": of_tests(SLOW, *(f"--ignore={folder}" for folders in _GROUPS.values() for folder in folders)),
    "site": Part(("make", "--no-print-directory", "site")),
    "packages": Part(("make", "--no-print-directory", "packages")),
}

AGENTS: Final = "agents"
"""The part of `make test-agents`, which is in no other run."""


def mark(items: list[pytest.Item]) -> None:
    """Mark the slow tests by their folders, servers and browsers, and those of a browser as in need of tools."""
    for item in items:
        folder = item.path.parent.relative_to(ROOT / "tests").as_posix()
        has_browser = "browser" in getattr(item, "fixturenames", ())
        if has_browser:
            item.add_marker(pytest.mark.tools)
        # Journeys of real agents are in a run of their own, in which the slow ones are those of several minutes.
        is_long = (has_browser and folder != "agents") or folder in SLOW_FOLDERS
        if any(map(item.get_closest_marker, ON_OTHER_SERVERS)) or (is_long and not item.get_closest_marker("smoke")):
            item.add_marker(pytest.mark.slow)


class Log:
    """The file of closing lines: commit, part, result, when it ended, seconds, closing line; with tabs between."""

    def __init__(self, path: Path, commit: str) -> None:
        self.path = path
        self.commit = commit

    def lines(self) -> list[list[str]]:
        """Return the lines of this commit."""
        written = self.path.read_text().splitlines() if self.path.exists() else []
        return [fields for line in written if (fields := line.split("\t"))[0] == self.commit]

    def passed(self) -> set[str]:
        """Return the parts whose newest run on this commit passed; none where changes are not committed."""
        newest = {part: result for _, part, result, *_ in self.lines()}
        return set() if self.commit.endswith("+") else {part for part, result in newest.items() if result == "passed"}

    def add(self, part: str, result: str, seconds: float, closing: str) -> None:
        now = datetime.now(UTC).isoformat(timespec="minutes")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write("\t".join((self.commit, part, result, now, f"{seconds:.0f} s", closing)) + "\n")


def log_of_this_tree() -> Log:
    """Return the log for the commit that is checked out, with a `+` where something has changed since."""

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    changed = "+" if git("status", "--porcelain") else ""
    return Log(folder / "permission-ledger" / "tests.tsv", git("rev-parse", "--short=8", "HEAD") + changed)


def say(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def run(name: str, part: Part, log: Log) -> bool:
    """Run a part, show what it writes, and note its last line. Return whether it passed."""
    say(f"=== {name}: {' '.join(part.command)}\n")
    began, closing = time.monotonic(), ""
    with subprocess.Popen(
        part.command, cwd=ROOT, env={**os.environ, **part.variables}, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout
        for line in process.stdout:
            say(line)
            closing = line.strip(" =\n") or closing
    log.add(name, "failed" if process.returncode else "passed", time.monotonic() - began, closing)
    return process.returncode == 0


def main(words: list[str]) -> int:
    log = log_of_this_tree()
    agents = Part((sys.executable, "-m", "pytest", "-n", "0", "--agents", "tests/agents", *words[1:]))
    parts = {**PARTS, AGENTS: agents}
    names = words[:1] if words[:1] == [AGENTS] else words
    if unknown := [name for name in names if name not in parts]:
        sys.stderr.write(f"test-all: no part `{unknown[0]}`; there are {' '.join(PARTS)}\n")
        return 2
    passed = log.passed()
    wanted = names or [name for name in PARTS if name not in passed]
    results = [run(name, parts[name], log) for name in wanted]
    say(f"=== {log.path}\n")
    for line in log.lines():
        say("  ".join(line) + "\n")
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

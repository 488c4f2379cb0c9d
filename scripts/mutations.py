"""Plant the defects of `mutations.toml`, one at a time, and write down which test finds each.

`python scripts/mutations.py --results short.jsonl --marker "not slow"`. Each defect is planted in a checkout of a commit
in a temporary folder, which has an environment of its own, so the working tree stays as it is. A run that is cut off
goes on where it was: what the results hold is not run again. Results are JSON lines; `--table` makes Markdown of them.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
LIST: Final = Path(__file__).with_suffix(".toml")
PYTHON: Final = ".venv/bin/python"
LIMIT_SECONDS: Final = 600
"""Time limit of one defect in the listed folders."""
END_SECONDS: Final = 30
"""Time for a test run to stop its servers after it is interrupted."""
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PLACES: Final = "import ledger, projections, workers; print(ledger.__file__, projections.__file__, workers.__file__)"


class Mutation(NamedTuple):
    """A defect: the text `find` of a file, which occurs once, becomes `replace`. `tests` are folders."""

    id: str
    file: str
    find: str
    replace: str
    breaks: str
    tests: tuple[str, ...]


class Verdict(NamedTuple):
    """`outcome` is found, survived, limit (too slow), or unsure: the test fails without the defect, too."""

    outcome: str
    test: str | None = None


def listed() -> list[Mutation]:
    """Return the defects of the list, in its order."""
    rows: list[dict[str, Any]] = tomllib.loads(LIST.read_text(encoding="utf-8"))["mutation"]
    return [Mutation(**{**row, "tests": tuple(row["tests"])}) for row in rows]


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """Give a commit in a temporary folder, whose interpreter imports the packages of this folder alone."""
    with tempfile.TemporaryDirectory(prefix="pl-mutations-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve() / "checkout"
        commit = _output(ROOT, "git", "rev-parse", f"{revision}^{{commit}}")
        _output(ROOT, "git", "clone", "--quiet", "--shared", "--no-checkout", str(ROOT), str(folder))
        _output(folder, "git", "checkout", "--quiet", "--detach", commit)
        _output(folder, sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv"))
        (packages,) = (ROOT / ".venv" / "lib").glob("python3*/site-packages")
        (own,) = (folder / ".venv" / "lib").glob("python3*/site-packages")
        # A .pth file of a folder that another one names is not read: our own packages come from the checkout alone.
        (own / "mutations.pth").write_text(f"{folder}\n{packages}\n")
        places = _output(folder / "docs", str(folder / PYTHON), "-I", "-c", _PLACES).split()
        assert all(Path(one).is_relative_to(folder) for one in places), f"imported from elsewhere: {places}"
        yield folder


def _output(folder: Path, *words: str) -> str:
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - our own words


@contextmanager
def planted(folder: Path, mutation: Mutation) -> Iterator[None]:
    """Plant a defect for the time of the block."""
    path = folder / mutation.file
    text = path.read_text(encoding="utf-8")
    count = text.count(mutation.find)
    assert count == 1, f"{mutation.id}: its text occurs {count} times in {mutation.file}"
    path.write_text(text.replace(mutation.find, mutation.replace), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def tried(folder: Path, mutation: Mutation, marker: str | None, *, whole: bool) -> Verdict:
    """Plant a defect and run its folders, or the whole suite, up to the first test that fails."""
    until = None if whole else monotonic() + LIMIT_SECONDS
    with planted(folder, mutation):
        for one in ("tests",) if whole else mutation.tests:
            names = [one] if whole else sorted(str(path) for path in (folder / one).glob("test_*.py"))
            code, said = _pytest(folder, ["-n", "2" if whole else "0", *names], marker, until)
            if code is None:
                return Verdict("limit")
            if code not in (0, 5):  # 5: the marker leaves no test
                break
        else:
            return Verdict("survived")
    found = FAILED.search(said)
    if found is None:
        raise SystemExit(f"{mutation.id}: pytest ended with {code}\n{said[-3000:]}")
    again, _ = _pytest(folder, ["-n", "0", found[1]], marker, None)
    return Verdict("found" if again == 0 else "unsure", found[1])


def _pytest(folder: Path, words: Sequence[str], marker: str | None, until: float | None) -> tuple[int | None, str]:
    """Run tests, in order, up to the first failure; return the exit code (None: too slow) and the output."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *(["-m", marker] if marker else [])]
    command = [str(folder / PYTHON), "-m", "pytest", *options, *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(  # noqa: S603 - our own words
        command,
        cwd=folder,
        env={**environment, "COLUMNS": "1000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=None if until is None else max(until - monotonic(), 1))
        except BaseException as error:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=END_SECONDS)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    return process.returncode, said


def read(results: Path) -> dict[str, dict[str, Any]]:
    """Return the last result of each defect."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def _left(row: dict[str, Any] | None) -> bool:
    """Return whether a defect survived its folders, and the whole suite has not been run for it."""
    return row is not None and row["outcome"] == "survived" and not row["whole"]


def table(columns: Sequence[str]) -> str:
    """Return a Markdown table of the list; a column is `TITLE=FILE` of results, in which an unrun defect is empty."""
    pairs = [column.partition("=") for column in columns]
    held = [read(Path(file)) for _, _, file in pairs]
    lines = ["| defect | breaks |" + "".join(f" {title} |" for title, _, _ in pairs), "|---|---|" + "---|" * len(pairs)]
    for one in listed():
        cells = [_cell(rows.get(one.id)) for rows in held]
        lines.append(f"| `{one.id}` | {one.breaks} |" + "".join(f" {cell} |" for cell in cells))
    counts = [sum(row["outcome"] == "found" for row in rows.values()) for rows in held]
    return "\n".join([*lines, "| found of " + f"{len(listed())} | |" + "".join(f" {count} |" for count in counts)])


def _cell(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    if row["test"] is None:
        return f"**{row['outcome']}**"
    name = re.sub(r"\[.*", "", row["test"], flags=re.DOTALL)
    return f"`{name}`" if row["outcome"] == "found" else f"**{row['outcome']}**: `{name}`"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true", help="show the defects")
    parser.add_argument("--results", type=Path, metavar="FILE", help="JSON lines that results are appended to")
    parser.add_argument("--marker", metavar="EXPRESSION", help='as `pytest -m`: "not slow" is the short suite')
    parser.add_argument("--only", action="append", metavar="ID", help="this defect; may be given several times")
    parser.add_argument("--revision", default="HEAD", metavar="COMMIT", help="the commit that is tested (HEAD)")
    parser.add_argument("--whole", action="store_true", help="run the whole suite, for what survived in the results")
    parser.add_argument("--table", nargs="+", metavar="TITLE=FILE", help="print a table with a column for each file")
    words = parser.parse_args()
    chosen = [one for one in listed() if not words.only or one.id in words.only]
    if words.list or words.table:
        print(table(words.table) if words.table else "\n".join(f"{one.id:30} {one.breaks}" for one in chosen))  # noqa: T201 - what was asked for
        return 0
    if words.results is None:
        parser.error("--results FILE is missing")
    known = read(words.results)
    with checkout(words.revision) as folder, words.results.open("a", encoding="utf-8") as results:
        for one in chosen:
            before = known.get(one.id)
            if not (_left(before) if words.whole else before is None):
                continue
            began = monotonic()
            verdict = tried(folder, one, words.marker, whole=words.whole)
            seconds = round(monotonic() - began, 1)
            row = {"id": one.id, **verdict._asdict(), "seconds": seconds, "whole": words.whole}
            print(json.dumps(row), file=results, flush=True)
            print(f"{one.id:30} {verdict.outcome:9} {seconds:6.1f} s  {verdict.test or ''}", flush=True)  # noqa: T201 - as above
    return int(any(row["outcome"] != "found" for row in read(words.results).values()))


if __name__ == "__main__":
    sys.exit(main())

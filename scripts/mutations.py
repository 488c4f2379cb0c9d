"""Plant the defects of `mutations.toml`, one at a time, and write down which test finds each.

`python scripts/mutations.py --results short.jsonl --marker "not slow"`. Each defect is planted in a checkout of a commit
in a temporary folder, which has an environment of its own, so the working tree stays as it is. A run that is cut off
goes on where it was: what the results hold is not run again. Then the same with `--whole`, for what survived.
`--table short=short.jsonl all=all.jsonl` prints the table of `mutations.md`.
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
LIMIT_SECONDS: Final = 600  # of one defect in its folders
FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PLACES: Final = "import ledger, projections, workers; print(ledger.__file__, projections.__file__, workers.__file__)"


class Mutation(NamedTuple):
    """A defect: the text `find` of a file, which occurs once, becomes `replace`.

    `tests` are folders; the files in them whose names match `likely` are run first.
    """

    id: str
    file: str
    find: str
    replace: str
    breaks: str
    tests: tuple[str, ...]
    likely: str

    def parts(self, folder: Path) -> list[list[str]]:
        """Return the test files of a checkout in the order in which they are run, in parts."""
        folders = [sorted(str(path) for path in (folder / one).glob("test_*.py")) for one in self.tests]
        first = [file for files in folders for file in files if re.search(self.likely, Path(file).name)]
        return [part for part in (first, *([file for file in files if file not in first] for files in folders)) if part]


def listed() -> list[Mutation]:
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
        packages, own = (next((one / ".venv" / "lib").glob("python3*/site-packages")) for one in (ROOT, folder))
        for one in packages.iterdir():
            if one.suffix != ".pth":  # ours names the working tree
                (own / one.name).symlink_to(one)
        (own / "_permission_ledger.pth").write_text(str(folder))
        places = _output(folder / "docs", str(folder / ".venv/bin/python"), "-I", "-c", _PLACES).split()
        assert all(Path(one).is_relative_to(folder) for one in places), f"imported from elsewhere: {places}"
        yield folder


def _output(folder: Path, *words: str) -> str:
    return subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - our own words


@contextmanager
def planted(folder: Path, mutation: Mutation) -> Iterator[None]:
    """Plant a defect for the time of the block."""
    path = folder / mutation.file
    text = path.read_text(encoding="utf-8")
    assert text.count(mutation.find) == 1, f"{mutation.id}: its text does not occur once in {mutation.file}"
    path.write_text(text.replace(mutation.find, mutation.replace), encoding="utf-8")
    try:
        yield
    finally:
        path.write_text(text, encoding="utf-8")


def tried(folder: Path, mutation: Mutation, marker: str | None, *, whole: bool) -> tuple[str, str | None]:
    """Plant a defect and run its folders, or the whole suite, up to the first test that fails because of it.

    Return found and the test, survived, or limit (too slow). That test fails twice with it, and passes without it.
    """
    until = None if whole else monotonic() + LIMIT_SECONDS
    left_out: list[str] = []
    for part in [["tests"]] if whole else mutation.parts(folder):
        while True:
            words = [*part, *(f"--deselect={one}" for one in left_out)]
            with planted(folder, mutation):
                code, said = _pytest(folder, ["-n", "2" if whole else "0", *words], marker, until)
            if code is None:
                return "limit", None
            if code in (0, 5):  # 5: the marker leaves no test
                break
            found = FAILED.search(said)
            if found is None or found[1] in left_out:
                raise SystemExit(f"{mutation.id}: pytest ended with {code}\n{said[-3000:]}")
            with planted(folder, mutation):
                again, _ = _pytest(folder, ["-n", "0", found[1]], marker, None)
            if again != 0 and _pytest(folder, ["-n", "0", found[1]], marker, None)[0] == 0:
                return "found", found[1]
            left_out.append(found[1])
    return "survived", None


def _pytest(folder: Path, words: Sequence[str], marker: str | None, until: float | None) -> tuple[int | None, str]:
    """Run tests, in order, up to the first failure; return the exit code (None: too slow) and the output."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly", *(["-m", marker] if marker else [])]
    command = [str(folder / ".venv/bin/python"), "-m", "pytest", *options, *words]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    with subprocess.Popen(  # noqa: S603 - our own words
        command,
        cwd=folder,
        env={**environment, "COLUMNS": "1000"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            said, _ = process.communicate(timeout=None if until is None else max(until - monotonic(), 1))
        except BaseException as error:
            process.send_signal(signal.SIGINT)  # so that it stops its servers
            with suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=30)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                return None, ""
            raise
    return process.returncode, said


def read(results: Path) -> dict[str, dict[str, Any]]:
    """Return the last result of each defect."""
    lines = results.read_text().splitlines() if results.exists() else []
    return {row["id"]: row for row in map(json.loads, lines)}


def table(columns: Sequence[str]) -> str:
    """Return a Markdown table of the list; a column is `TITLE=FILE` of results, in which an unrun defect is empty."""
    pairs = [column.partition("=") for column in columns]
    held = [read(Path(file)) for _, _, file in pairs]
    lines = ["| defect | breaks |" + "".join(f" {title} |" for title, _, _ in pairs), "|---|---|" + "---|" * len(pairs)]
    for one in listed():
        ends = [rows.get(one.id, {"outcome": "", "test": None}) for rows in held]
        cells = [f"`{end['test'].partition('[')[0]}`" if end["outcome"] == "found" else end["outcome"] for end in ends]
        lines.append(f"| `{one.id}` | {one.breaks} |" + "".join(f" {cell} |" for cell in cells))
    found = [sum(row["outcome"] == "found" for row in rows.values()) for rows in held]
    return "\n".join([*lines, f"| found of {len(listed())} | |" + "".join(f" {count} |" for count in found)])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="show the defects")
    parser.add_argument("--results", type=Path, default=ROOT.parent / "mutations.jsonl", help="beside the checkout")
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
    known = read(words.results)
    with checkout(words.revision) as folder, words.results.open("a", encoding="utf-8") as results:
        for one in chosen:
            before = known.get(one.id, {"outcome": None, "whole": False})
            if before["whole"] or before["outcome"] not in (("survived", "limit") if words.whole else (None,)):
                continue
            began = monotonic()
            outcome, test = tried(folder, one, words.marker, whole=words.whole)
            seconds = round(monotonic() - began, 1)
            row = {"id": one.id, "outcome": outcome, "test": test, "seconds": seconds, "whole": words.whole}
            print(json.dumps(row), file=results, flush=True)
            print(f"{one.id:30} {outcome:9} {seconds:6.1f} s  {test or ''}", flush=True)  # noqa: T201 - as above
    return int(any(row["outcome"] != "found" for row in read(words.results).values()))


if __name__ == "__main__":
    sys.exit(main())

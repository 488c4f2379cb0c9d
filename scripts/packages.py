"""Build wheel and source distribution into a folder, twice, and check that both builds have the same bytes.

`python scripts/packages.py dist`. The time in the files is that of the last commit, or SOURCE_DATE_EPOCH.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FALLBACK_EPOCH = "1577836800"
"""2020-01-01, where there is no commit: in an unpacked source distribution."""


def epoch() -> str:
    """Return the time for all files of the packages."""
    if named := os.environ.get("SOURCE_DATE_EPOCH"):
        return named
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603 - our own words
    return done.stdout.strip() or FALLBACK_EPOCH


def build(folder: Path, seconds: str) -> dict[str, str]:
    """Build into a folder; return the SHA-256 of each package by its name."""
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": seconds, "NO_COLOR": "1"}
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True, env=environment)  # noqa: S603 - as above
    if done.returncode:
        raise SystemExit(f"packages: the build failed\n{done.stdout}{done.stderr}")
    built = [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in sorted(built)}


def main() -> int:
    target = Path(sys.argv[1]).resolve()
    seconds = epoch()
    first = build(target, seconds)
    with tempfile.TemporaryDirectory(prefix="pl-packages-") as again:
        second = build(Path(again), seconds)
    for name, digest in first.items():
        print(f"{digest}  {name}")  # noqa: T201 - what the command is for
    differing = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    if differing:
        sys.stderr.write(f"packages: two builds of {', '.join(differing)} differ\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

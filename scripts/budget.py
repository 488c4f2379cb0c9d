"""Compare the lines of Python in each part of the source with `budget.toml`.

`python scripts/budget.py [--table]`. A part is a folder with all that is below it, without the parts below it. Exit 1: a part has more lines than its
budget, or a file has no part.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ("ledger", "projections", "workers")


def part_of(file: Path, parts: dict[str, int]) -> str | None:
    """Return the narrowest part that holds a file."""
    return next((folder.as_posix() for folder in file.parents if folder.as_posix() in parts), None)


def main(words: list[str], root: Path = ROOT) -> int:
    """Print what exceeds its budget, with `--table` all parts; return the exit code."""
    rows = tomllib.loads((root / "budget.toml").read_text())["part"]
    parts: dict[str, int] = {row["folder"]: row["lines"] for row in rows}
    lines, wrong = Counter[str](), list[str]()
    for path in sorted(path for source in SOURCES for path in (root / source).rglob("*.py")):
        file = path.relative_to(root)
        part = part_of(file, parts)
        if part is None:
            wrong.append(f"{file}: no part of budget.toml holds it")
        else:
            lines[part] += len(path.read_text().splitlines())
    for folder, most in parts.items():
        if lines[folder] > most:
            wrong.append(
                f"{folder}: {lines[folder]} lines; its budget is {most}. Less, or say in the commit that raises it what a user gets"
            )
        elif "--table" in words:
            sys.stdout.write(f"{lines[folder]:6} of {most:6}  {folder}\n")
    if "--table" in words:
        sys.stdout.write(f"{lines.total():6} of {sum(parts.values()):6}  all\n")
    for text in wrong:
        sys.stderr.write(f"budget: {text}\n")
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

"""The page of speed: the fixed words of `page.md`, and the tables that runs have kept in `tables.json`.

`python -m bench.page > docs/contributing/speed.md` writes it. A run with `--keep` puts its table in the place of the older one.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from bench.place import ROOT
from bench.report import markdown

TEMPLATE: Final = ROOT / "bench/page.md"
TABLES: Final = ROOT / "bench/tables.json"
PACKAGES: Final = ("ledger", "projections", "workers")


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A table as the page has it, with what made it."""

    command: str
    commit: str
    date: str
    machine: str
    table: list[str]

    def text(self) -> str:
        made = f"`{self.command}` at {self.commit}, {self.date}; {self.machine}:"
        return "\n".join((made, "", *narrow(self.table)))


def narrow(table: Sequence[str]) -> list[str]:
    """Return a table of ratios without the least and the most of the rounds, and without the value of each base."""
    headings, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    if "compared with" not in headings:
        return list(table)
    fsyncs = {cells[headings.index("appendfsync")] for cells in lines}
    kept = [name for name in headings if name != "compared with" and (name != "appendfsync" or len(fsyncs) > 1)]
    rows = [dict(zip(headings, cells, strict=True)) for cells in lines]
    for row in rows:
        base = re.sub(r" [\d.,]+$", "", row["compared with"])
        median, ratio = (re.sub(r" \(.*\)", "", row[name]) for name in ("median", "ratio"))
        row |= {"median": median, "ratio": f"{ratio} {base}".strip()}
    return markdown(kept, ([row[name] for name in kept] for row in rows))


def kept() -> dict[str, Kept]:
    return msgspec.json.decode(TABLES.read_bytes(), type=dict[str, Kept])


def keep(part: str, command: str, how: str, headings: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    """Keep a table that was just measured on this machine; `how` names the server, and what the figures are medians of."""
    table = Kept(
        command=command,
        commit=commit_of(ROOT),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        machine=f"{os.cpu_count()} x {_processor()}, Python {platform.python_version()}, {how}",
        table=markdown(headings, lines),
    )
    whole = msgspec.json.format(msgspec.json.encode({**kept(), part: table}), indent=1)
    fresh = TABLES.with_suffix(".new")
    fresh.write_bytes(whole + b"\n")
    fresh.replace(TABLES)


def commit_of(checkout: Path) -> str:
    """Return the commit of a checkout, and whether its packages differ from that."""
    found = [
        subprocess.run(("git", *words), cwd=checkout, check=True, capture_output=True, text=True).stdout.strip()
        for words in (("rev-parse", "--short=8", "HEAD"), ("status", "--porcelain", "--", *PACKAGES))
    ]
    return found[0] + (" with changes" if found[1] else "")


def _processor() -> str:
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found[1] if found else platform.machine()


def places(template: str) -> list[str]:
    """Return the names of the tables that the fixed words leave room for."""
    return re.findall(r"^\{\{(.+)\}\}$", template, re.MULTILINE)


def page() -> str:
    """Return the whole page. Raises KeyError for a table that was never kept."""
    tables = kept()
    return re.sub(r"^\{\{(.+)\}\}$", lambda place: tables[place[1]].text(), TEMPLATE.read_text(), flags=re.MULTILINE)


if __name__ == "__main__":
    print(page(), end="")

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

    def text(self, before: Kept | None) -> str:
        """Return the table of the page; `before` is the one above it, whose machine is not named twice."""
        machine = "" if before is not None and before.machine == self.machine else f"; {self.machine}"
        made = f"`{self.command}` at {self.commit}, {self.date}{machine}:"
        return "\n\n".join((made, *("\n".join(one) for one in narrow(self.table))))


Cells = dict[str, str]

SIZE: Final = r"[\d,]+: "
LEAST_WORDS: Final = 3
VIEWS: Final = "… in each view"
STATES: Final = ("nothing sealed", "eleven of twelve sealed")


def narrow(table: Sequence[str]) -> list[list[str]]:
    """Return the tables of a kept one, without what all rows have, the spread of the rounds and the values of the bases."""
    headings, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table)
    rows = [dict(zip(headings, cells, strict=True)) for cells in lines]
    if "compared with" in headings:
        rows = _joined([_ratio(row) for row in rows])
    elif "by" in headings:
        rows = _views_joined(_sized(rows))
    for row in rows:
        if "" in row and "target" in row:
            row["target"] = _judged(row["target"], row.pop(""))
    if any(_state(row) for row in rows):
        joint, rest = _by_state(rows)
        return [_markdown(joint), _markdown(rest)]
    return [_markdown(_shortened(rows))]


def _markdown(rows: Sequence[Cells]) -> list[str]:
    """Return a table without columns that are empty, and without `appendfsync` or `by` where all rows have the same."""
    constant = {name for name in ("appendfsync", "by") if len({row.get(name) for row in rows}) == 1}
    names = [name for name in rows[0] if name not in constant and any(row[name] for row in rows)]
    return markdown(names, ([row[name] for name in names] for row in rows))


def _ratio(row: Cells) -> Cells:
    base = re.sub(r" [\d.,]+$", "", row.pop("compared with"))
    median, ratio = (re.sub(r" \(.*\)", "", row[name]) for name in ("median", "ratio"))
    ratio = ratio if " against " in row["what"] else f"{ratio} {base}".strip()
    return row | {"median": median, "ratio": ratio, "target": _judged(row["target"], row.pop(""))}


def _judged(target: str, verdict: str) -> str:
    return f"{target} **missed**" if verdict == "missed" else target


def _joined(rows: list[Cells]) -> list[Cells]:
    """Join a row to the one above it where both judge the same figure."""
    joined: list[Cells] = []
    for row in rows:
        above = joined[-1] if joined else None
        if above and above["what"].startswith(row["what"]) and above["median"] == row["median"]:
            for name in ("ratio", "target"):
                above[name] = "; ".join(filter(None, (above[name], row[name])))
        else:
            joined.append(row)
    return joined


def _sized(rows: list[Cells]) -> list[Cells]:
    """Name the sizes in the heading, where all rows grow by the same and most have the same sizes."""
    sizes = [tuple(re.findall(SIZE, row["measured"])) for row in rows]
    whole = max(set(sizes), key=sizes.count)
    if len({row["by"] for row in rows}) > 1:
        return rows
    title = f"{' and '.join(size.rstrip(': ') for size in whole)} {rows[0]['by']}"
    return [
        {
            "what": row["what"],
            title: re.sub(SIZE, "", row["measured"]) if own == whole else row["measured"],
            **{name: row[name] for name in ("growth", "target", "")},
        }
        for row, own in zip(rows, sizes, strict=True)
    ]


def _views_joined(rows: list[Cells]) -> list[Cells]:
    """Name the memory of all views in one row."""
    joined: list[Cells] = []
    for row in rows:
        _, is_view, view = row["what"].partition(" in the view ")
        measured = list(row)[1]
        if is_view and joined and joined[-1]["what"] == VIEWS:
            joined[-1][measured] += f"; {view} {row[measured]}"
        else:
            joined.append({**row, "what": VIEWS, measured: f"{view} {row[measured]}", "growth": ""} if is_view else row)
    return joined


def _state(row: Cells) -> str | None:
    return next((state for state in STATES if row.get("what", "").startswith(f"{state}: ")), None)


def _by_state(rows: Sequence[Cells]) -> tuple[list[Cells], list[Cells]]:
    """Return the questions that were asked in several states, with a column for each state, and the other rows."""
    joint: dict[str, Cells] = {}
    rest = []
    state = None
    for row in rows:
        if (own := _state(row)) is not None or (state is not None and row["what"].startswith("…")):
            state = own or state
            name = row["what"].removeprefix(f"{state}: ")
            _, measured, growth, target = row.values()
            limit, missed, _ = target.partition(" **missed**")
            line = joint.setdefault(name, {"what": name, **dict.fromkeys(STATES, ""), "target": limit})
            line[str(state)] = ", ".join(filter(None, (measured, growth))) + missed
        else:
            state = None
            rest.append(row)
    return list(joint.values()), rest


def _shortened(rows: list[Cells]) -> list[Cells]:
    """Put `…` for the beginning that a row shares with the one above it, up to a colon or a comma."""
    before = ""
    for row in rows:
        name = next(iter(row))
        what = row[name]
        ends = [found.end() for found in re.finditer(r"[:,] ", what) if before.startswith(what[: found.end()])]
        if ends and what[: ends[-1]].count(" ") >= LEAST_WORDS and what != before:
            row[name] = f"… {what[ends[-1] :]}"
        before = what
    return rows


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
    tables, before = kept(), None
    parts = re.split(r"^\{\{(.+)\}\}$", TEMPLATE.read_text(), flags=re.MULTILINE)
    for at in range(1, len(parts), 2):
        table = tables[parts[at]]
        parts[at], before = table.text(before), table
    return "".join(parts)


if __name__ == "__main__":
    print(page(), end="")

"""The guide to queries of the archive: each of its statements runs on a real archive and answers what the guide says."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from tests.support.command_line import ROOT, CommandLine

PAGE: Final = (ROOT / "docs/guides/archive.md").read_text()
STATEMENTS: Final = re.findall(r"^```sql\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
COMMANDS: Final = re.findall(r"^```console\n\$ permission-ledger (.*) > log.jsonl\n```", PAGE, re.MULTILINE)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[list[tuple[Any, ...]]]]:
    """The rows of each statement. Of three sessions one is on the server, and one in two files of the archive."""
    folder = tmp_path_factory.mktemp("queried")
    archive, log = folder / "stream=x" / "archive", folder / "log.jsonl"
    ledger = CommandLine(f"embedded://{folder / 'data'}")
    for name in ("ses_1", "ses_2", "ses_3"):
        ledger("ask", name, "bash", "git push", "--id", f"{name}_r", "--no-wait", code=7)
        ledger("reply", f"{name}_r", "once", "--as", "ann", code=0)
        ledger("close", name, code=0)
    ledger("archive", "ses_1", "ses_2", "--to", archive, code=0)
    ledger("restore", "ses_1", code=0)
    ledger("archive", "ses_1", code=0)
    assert len(list(archive.rglob("*.jsonl.zst"))) == 2
    log.write_text(ledger(*shlex.split(COMMANDS[0]), code=0).out)
    with duckdb.connect() as database:
        yield [database.execute(_placed(one, folder, archive)).fetchall() for one in STATEMENTS]


def _placed(statement: str, folder: Path, archive: Path) -> str:
    statement = statement.replace("/srv/ledger-archive", str(archive))
    return statement.replace("events.csv", f"{folder}/events.csv").replace("log.jsonl", f"{folder}/log.jsonl")


def test_every_statement_answers_what_the_guide_says(answers: list[list[tuple[Any, ...]]]) -> None:
    _, outcomes, people, asked, delays, written, logged = answers
    assert outcomes == [("bash", "allowed", 2)]
    assert people == [("ann", "allowed", 2)]
    assert asked == [(f"session:ses_{one}", f"ses_{one}_r", '["git push"]') for one in (1, 2)]
    assert [row[:2] for row in delays] == [(f"session:ses_{one}", f"ses_{one}_r") for one in (1, 2)]
    assert all(0 < row[2] < 60 for row in delays)
    assert written == [(8,)]
    assert {("asked", 3), ("replied", 3), ("session_opened", 3)} <= set(logged)

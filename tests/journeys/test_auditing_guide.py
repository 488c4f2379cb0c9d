"""The steps of `docs/guides/auditing.md`: its commands unchanged, beside a running `up`, on every kind of stream."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from ledger.stores.embedded import stop
from ledger.stores.port import StreamKey
from tests.journeys.processes import ROOT, Stage
from tests.support.command_line import CommandLine
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

GUIDE: Final = (ROOT / "docs" / "guides" / "auditing.md").read_text()
KINDS: Final = {"session", "project", "access", "policy"}


def commands_below(heading: str) -> list[list[list[str]]]:
    """Return the commands of each block of a section, as the words that a shell would pass on."""
    section = GUIDE.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    blocks = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    return [
        [shlex.split(line, comments=True)[1:] for line in block.splitlines() if line.startswith("permission-ledger ")]
        for block in blocks
    ]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(tmp_path / "data")
    yield stage
    stage.close()
    stop(stage.folder.path)


@pytest.fixture
def ledger(stage: Stage, tmp_path: Path) -> CommandLine:
    """A ledger with every kind of stream: a session, a project, and the token that `up` creates."""
    stage.run("up").wait_for_word("Ctrl-C ends it")
    command_line = CommandLine(stage.url, folder=tmp_path)
    command_line("ask", "ses_1", "bash", "ls", "--project", "shop", "--no-wait", code=7)
    command_line("grant", "--project", "shop", "bash", "git *", code=0)
    streams = command_line("verify", "--all", "--json", code=0).rows
    assert {StreamKey.parse(row["stream"]).kind for row in streams} == KINDS
    return command_line


def run(ledger: CommandLine, command: list[str]) -> None:
    """Run a command of the guide to its end, after waiting for the projector to bring the views up to date."""
    if command[0] == "rebuild":
        wait_until(lambda: ledger(*command).code == 0, " ".join(command))
    else:
        ledger(*command, code=0)


def test_the_nightly_check_runs_on_every_stream_there_is(ledger: CommandLine) -> None:
    begin, nightly = commands_below("The nightly check")
    for command in [*begin, *nightly]:
        run(ledger, command)
    ledger("token", "create", "bob", "--role", "approver", code=0)
    ledger("ask", "ses_2", "bash", "ls", "--no-wait", code=7)
    for command in nightly:
        run(ledger, command)
    saved = (ledger.folder / "heads.jsonl").read_text()
    assert all(f'"{name}' in saved for name in ("session:ses_2", "project:shop", "access:"))


def test_the_check_after_a_restore_runs_and_begins_new_heads(ledger: CommandLine, tmp_path: Path) -> None:
    begin, nightly = commands_below("The nightly check")
    exporting, restoring = commands_below("After a restore")
    for command in [*begin, *exporting]:
        run(ledger, command)
    elsewhere = Stage(tmp_path / "other")
    try:
        restored = CommandLine(elsewhere.url, folder=tmp_path)
        for command in restoring:
            run(restored, command)
        elsewhere.run("up").wait_for_word("Ctrl-C ends it")
        for command in nightly:
            run(restored, command)
    finally:
        elsewhere.close()
        stop(elsewhere.folder.path)

"""`--resume`: what an interrupted run has done is left out by the next, and a run to the end leaves nothing behind."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ledger.core.errors import InputError
from tests.support.command_line import CommandLine
from tests.workers.cli.filling import fill
from workers.cli.journal import journal


def interrupted_run(file: Path, work: str, *parts: tuple[str, str]) -> None:
    def run() -> None:
        with journal(file, work) as begun:
            begun.note(parts)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run()


def test_a_run_that_was_interrupted_goes_on_and_one_to_the_end_removes_the_file(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    interrupted_run(file, "rebuild", ("1", "a"), ("2", "b"))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with file.open("ab") as torn:
        torn.write(b'{"done":"3","va')
    interrupted_run(file, "rebuild", ("4", "d"))
    with journal(file, "rebuild") as again:
        assert again.done == {"1": "a", "2": "b", "4": "d"}
    assert not file.exists()


@pytest.mark.parametrize("content", [b"", b"{}", b'{"file":"permission-ledger heads","format":1,"work":"rebuild"}\n'])
def test_another_file_is_neither_read_nor_removed(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "other"
    file.write_bytes(content)
    with pytest.raises(InputError, match="--resume"), journal(file, "rebuild"):
        pytest.fail("it is no journal")
    assert file.read_bytes() == content


def test_the_journal_of_other_work_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "journal"
    interrupted_run(file, "verify --all")
    with pytest.raises(InputError, match="give another file"), journal(file, "verify --all --deep"):
        pytest.fail("it is of other work")


def test_streams_that_were_found_whole_are_not_checked_again_and_their_heads_are_saved(
    ledger: CommandLine, tmp_path: Path
) -> None:
    fill(ledger)
    heads, again, file = tmp_path / "heads", tmp_path / "again", tmp_path / "journal"
    rows = ledger("verify", "--all", "--save", heads, "--json", code=0).rows
    one = next(row for row in rows if row["stream"] == "session:ses_1")
    interrupted_run(file, "verify --all", (one["stream"], f"{one['head']['id']} {one['head']['hash']}"))
    rest = ledger("verify", "--all", "--resume", file, "--save", again, "--json", code=0).rows
    assert [row["stream"] for row in rest] == [row["stream"] for row in rows if row is not one]
    assert again.read_text() == heads.read_text()
    assert not file.exists()
    assert "--resume goes with --all" in ledger("verify", "ses_1", "--resume", file, code=2).err


def test_partitions_that_were_rebuilt_are_not_rebuilt_again(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger)
    file = tmp_path / "journal"
    interrupted_run(file, "rebuild", *((str(number), "") for number in range(256)))
    row = ledger("rebuild", "--resume", file, "--json", code=0).row
    assert row == {"streams": 0, "events": 0, "problems": []}
    assert not file.exists()
    assert ledger("rebuild", "--resume", file, "--json", code=0).row["streams"] == 4
    assert "leave out --jobs and --resume" in ledger("rebuild", "--verify", "--resume", file, code=2).err

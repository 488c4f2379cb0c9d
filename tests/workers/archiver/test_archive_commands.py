"""`archive` and `restore`, as typed in a shell; and archivers that are killed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest
from backports import zstd

from tests.support.command_line import CommandLine

KILLED: Final = """
import os, sys
from ledger.log.archive.buckets import FolderBucket
from ledger.stores.redis.store import RedisStore
from workers.cli import cli

step, when = sys.argv[1], sys.argv[2]

def deadly(cls, name):
    real = getattr(cls, name)

    async def dies(self, *given):
        is_here = step in (name, f"{name} {str(given[0]).rpartition('.')[2]}")
        if is_here and when == "before":
            os.kill(os.getpid(), 9)
        result = await real(self, *given)
        if is_here:
            os.kill(os.getpid(), 9)
        return result

    setattr(cls, name, dies)

deadly(FolderBucket, "put_new")
deadly(FolderBucket, "get")
deadly(RedisStore, "seal")
deadly(RedisStore, "restore")
deadly(RedisStore, "close_file")
deadly(FolderBucket, "remove")
cli(sys.argv[3:], standalone_mode=False)
"""
STEPS: Final = ("put_new zst", "put_new json", "get json", "get zst", "seal")


def fill(ledger: CommandLine, *names: str) -> None:
    for name in names:
        ledger(
            "ask",
            name,
            "bash",
            f"git push {name}",
            "--always",
            f"git * {name}",
            "--project",
            "shop",
            "--id",
            f"{name}_r",
            "--no-wait",
            code=7,
        )
        ledger("reply", f"{name}_r", "always", code=0)
        ledger("close", name, code=0)


def reading(ledger: CommandLine, name: str) -> list[str]:
    """Return what the reading commands print of a session."""
    words = (("show", name), ("log", name), ("log", name, "--json"), ("replay", name, "--speed", "0"), ("export", name))
    return [ledger(*some, code=0).out for some in words]


def exported(ledger: CommandLine, name: str) -> str:
    """Return every byte of a session, as one command prints them."""
    return ledger("export", name, code=0).out


def logged(ledger: CommandLine, name: str) -> str:
    """Return a session without its project."""
    return ledger("log", name, "--json", code=0).out


def test_a_closed_session_is_sealed_read_by_every_command_and_restored(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1", "ses_2")
    ledger("ask", "ses_3", "bash", "ls", "--id", "r3", "--no-wait", code=7)
    before, sessions = reading(ledger, "ses_1"), ledger("sessions", "--json", code=0).rows
    whole = ledger("export", "--all", code=0).out
    would = ledger("archive", "--dry-run", "--json", code=0)
    assert {row["session"] for row in would.rows if row["kept"] is None} == {"ses_1", "ses_2"}
    done = ledger("archive", "--to", str(tmp_path / "archive"), "--json", code=0)
    assert {row["session"] for row in done.rows if row["sealed"]} == {"ses_1", "ses_2"}
    assert {row["session"]: "it is open" in (row["kept"] or "") for row in done.rows}["ses_3"]
    assert "2 sessions with" in done.err
    assert reading(ledger, "ses_1") == before
    assert ledger("export", "--all", code=0).out == whole
    assert ledger("sessions", "--json", code=0).rows == sessions
    assert "all is well" in ledger("verify", "--all", code=0).err
    ledger("rebuild", "--verify", code=0)
    ledger("rebuild", code=0)
    assert ledger("archive", "--json", code=0).rows == []
    row = ledger("restore", "ses_1", "--json", code=0).row
    assert (row["session"], row["restored"]) == ("ses_1", True)
    assert "was not sealed" in ledger("restore", "ses_1", code=0).out
    assert reading(ledger, "ses_1") == before
    assert "there is no session" in ledger("restore", "ses_9", code=9).err


@pytest.mark.parametrize("lost", ["*.zst", "*.*"])
def test_doctor_names_a_lost_file_of_the_archive(ledger: CommandLine, tmp_path: Path, lost: str) -> None:
    fill(ledger, "ses_1")
    assert "archive" not in {row["check"] for row in ledger("doctor", "--json").rows}
    ledger("archive", "--to", str(tmp_path / "archive"), code=0)

    def found(*words: str) -> tuple[bool, str]:
        (row,) = (row for row in ledger("doctor", "--json", *words).rows if row["check"] == "archive")
        return row["ok"], row["text"]

    assert found() == (True, "no file is lost, as far as was looked")
    (file,) = (tmp_path / "archive").rglob("*.zst")
    for path in (tmp_path / "archive").rglob(lost):
        path.unlink()
    assert (
        found()
        == found("--deep")
        == (False, f"1 files with sealed sessions are lost: {file.relative_to(tmp_path / 'archive')}")
    )


def test_a_rebuild_without_the_archive_names_what_it_could_not_read_and_a_later_one_makes_up_for_it(
    ledger: CommandLine, tmp_path: Path
) -> None:
    fill(ledger, "ses_1", "ses_2")
    ledger("ask", "ses_3", "bash", "ls", "--id", "r3", "--no-wait", code=7)
    place, away = tmp_path / "archive", tmp_path / "away"
    ledger("archive", "ses_1", "--to", str(place), code=0)
    sessions = ledger("sessions", "--json", code=0).rows
    place.rename(away)
    for words in (("rebuild", "--verify"), ("rebuild",)):
        told = ledger(*words, code=11)
        assert "ses_1" in told.out + told.err
        assert "ses_2" not in told.out + told.err
    assert "behind" in ledger("rebuild", "--verify", code=0).err
    assert [row["session"] for row in ledger("pending", "--json", code=0).rows] == ["ses_3"]
    away.rename(place)
    ledger("rebuild", code=0)
    ledger("rebuild", "--verify", code=0)
    assert ledger("sessions", "--json", code=0).rows == sessions


def test_named_sessions_are_sealed_and_an_unknown_one_is_exit_code_9(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1", "ses_2")
    ledger("archive", "ses_1", "ses_9", "--to", str(tmp_path), code=9)
    told = ledger("archive", "ses_1", code=0)
    assert "ses_1" in told.out
    assert ledger("archive", "ses_1", "--json", code=0).row["kept"] == "it is sealed already"
    assert (
        ledger("archive", "ses_2", "--project", "other", "--json", code=0).row["kept"] == "it is not of project `other`"
    )
    assert "--older-than" in ledger("archive", "--older-than", "none", code=12).err
    assert "is not the place of an archive" in ledger("archive", "--to", "http://host", code=12).err


def test_without_a_place_nothing_is_sealed_and_the_command_says_how_to_set_one(ledger: CommandLine) -> None:
    fill(ledger, "ses_1")
    assert "archive --to URL" in ledger("archive", "ses_1", code=8).err
    assert ledger("show", "ses_1", code=0)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_an_archiver_killed_at_any_step_loses_nothing_and_is_run_again(
    ledger: CommandLine, tmp_path: Path, step: str, when: str
) -> None:
    fill(ledger, "ses_1")
    before = exported(ledger, "ses_1")
    words = ("archive", "--to", str(tmp_path / "archive"), "ses_1")
    with ledger.beside(KILLED.replace("sys.argv", repr(["", step, when, *words]))) as process:
        assert process.wait(timeout=60) == -9
    assert exported(ledger, "ses_1") == before
    row = ledger("archive", "ses_1", "--json", code=0).row
    assert row["kept"] == ("it is sealed already" if (step, when) == ("seal", "after") else None)
    assert exported(ledger, "ses_1") == before
    assert "all is well" in ledger("verify", "ses_1", code=0).err


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_restore_that_is_killed_leaves_the_session_in_one_place(
    ledger: CommandLine, tmp_path: Path, when: str
) -> None:
    fill(ledger, "ses_1")
    before = exported(ledger, "ses_1")
    ledger("archive", "ses_1", "--to", str(tmp_path / "archive"), code=0)
    with ledger.beside(KILLED.replace("sys.argv", repr(["", "restore", when, "restore", "ses_1"]))) as process:
        assert process.wait(timeout=60) == -9
    assert exported(ledger, "ses_1") == before
    assert ledger("restore", "ses_1", "--json", code=0).row["restored"] is (when == "before")
    assert exported(ledger, "ses_1") == before


def test_a_lost_file_is_named_by_verify_and_the_rest_is_read(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1", "ses_2")
    ledger("archive", "ses_1", "--to", str(tmp_path / "archive"), code=0)
    ledger("archive", "ses_2", code=0)
    file = ledger("archive", "ses_1", "--json", code=0).row["file"]
    (tmp_path / "archive" / file).unlink()
    rows = {row["session"]: row for row in ledger("verify", "--all", "--json", code=11).rows if row["session"]}
    assert (rows["ses_1"]["ok"], rows["ses_2"]["ok"]) == (False, True)
    assert file in rows["ses_1"]["problems"][0]["text"]
    assert file in ledger("show", "ses_1", code=11).err
    assert ledger("show", "ses_2", code=0)
    assert json.dumps(file)[1:-1] in ledger("export", "--all", code=11).err


REDACTION: Final = ("redact", "ses_1", "2", "--reason", "a password", "--yes")


def archived_words(folder: Path, words: str) -> list[str]:
    """Return the files of an archive with these words in the content of an entry."""
    return [str(one) for one in folder.rglob("*.jsonl.zst") if words.encode() in zstd.decompress(one.read_bytes())]


def test_a_sealed_session_is_redacted_in_the_archive_and_no_file_has_its_content_any_more(
    ledger: CommandLine, tmp_path: Path
) -> None:
    fill(ledger, "ses_1", "ses_2")
    folder = tmp_path / "archive"
    ledger("archive", "--to", str(folder), code=0)
    other = logged(ledger, "ses_2")
    assert len(archived_words(folder, "git push ses_1")) == 1
    told = ledger(*REDACTION, code=0)
    assert "was rewritten" in told.err
    assert archived_words(folder, "git push ses_1") == []
    assert ledger("archive", "ses_1", "--json", code=0).row["kept"] == "it is sealed already"
    assert "content redacted" in ledger("log", "ses_1", code=0).out
    assert logged(ledger, "ses_2") == other
    assert "all is well" in ledger("verify", "--all", code=0).err
    ledger("rebuild", "--verify", code=0)
    assert len(sorted(folder.rglob("*.json"))) == len(sorted(folder.rglob("*.jsonl.zst"))) == 2


def test_a_redaction_without_its_archive_says_what_is_left_and_is_repeated(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1")
    folder = tmp_path / "archive"
    ledger("archive", "--to", str(folder), code=0)
    ledger("restore", "ses_1", code=0)
    folder.rename(tmp_path / "away")
    folder.write_text("no folder")
    assert "repeat the command" in ledger(*REDACTION, code=11).err
    folder.unlink()
    (tmp_path / "away").rename(folder)
    assert "was removed" in ledger(*REDACTION, code=0).err
    assert sorted(path for path in folder.rglob("*") if path.is_file()) == []


def test_the_sweep_takes_its_age_and_keeps_files_in_use(ledger: CommandLine, tmp_path: Path) -> None:
    fill(ledger, "ses_1", "ses_2")
    folder = tmp_path / "archive"
    ledger("archive", "--to", str(folder), code=0)
    ledger("restore", "ses_1", code=0)
    assert "0 files removed" in ledger("archive", "--sweep", code=0).err
    assert "10 minutes" in ledger("archive", "--sweep", "--older-than", "1m", code=12).err
    for words in (("--sweep", "ses_1"), ("--sweep", "--project", "shop"), ("--sweep", "--to", str(folder))):
        ledger("archive", *words, code=2)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["put_new zst", "put_new json", "seal", "close_file", "remove zst"])
def test_a_redaction_that_is_killed_leaves_one_valid_place_and_is_repeated(
    ledger: CommandLine, tmp_path: Path, step: str
) -> None:
    fill(ledger, "ses_1", "ses_2")
    folder = tmp_path / "archive"
    ledger("archive", "--to", str(folder), code=0)
    other = logged(ledger, "ses_2")
    with ledger.beside(KILLED.replace("sys.argv", repr(["", step, "after", *REDACTION]))) as process:
        assert process.wait(timeout=60) == -9
    assert "all is well" in ledger("verify", "--all", code=0).err
    assert logged(ledger, "ses_2") == other
    ledger(*REDACTION, code=11 if step == "put_new zst" else 0)
    assert "content redacted" in ledger("log", "ses_1", code=0).out
    assert logged(ledger, "ses_2") == other
    assert archived_words(folder, "git push ses_1") == []

"""Operands on a disk, as the ledger looks for them and as hooks and bridges are asked to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledger.client.claims import found_operands
from ledger.core import limits, operand_files
from ledger.core.operands import Operand, WantedOperand, check_operands
from workers.transport.operand_files import hashed

Look = Callable[[list[WantedOperand]], tuple[Operand, ...]]


def by_the_hook(wanted: list[WantedOperand]) -> tuple[Operand, ...]:
    """The body that a hook would send, as the gateway reads it."""
    return check_operands(hashed(msgspec.json.decode(msgspec.json.encode(wanted))))


@pytest.fixture(params=[found_operands, by_the_hook], ids=["ledger", "hook"])
def look(request: pytest.FixtureRequest) -> Look:
    found: Look = request.param
    return found


def test_a_file_that_is_swapped_for_a_link_after_its_name_was_tested_is_not_read(tmp_path: Path) -> None:
    inside, outside = tmp_path / "project", tmp_path / "secret.sh"
    inside.mkdir()
    outside.write_text("secret")
    file = inside / "own.sh"
    file.write_text("mine")

    def may_open(path: str) -> bool:
        is_inside = os.path.realpath(path).startswith(f"{inside}/")
        file.unlink(missing_ok=True)
        file.symlink_to(outside)
        return is_inside

    (row,) = hashed([{"paths": [str(file)]}], may_open)[:1]
    assert (row["found"], row.get("sha256")) == ("unreadable", None)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def wanted(*paths: Path | str, **how: Any) -> list[WantedOperand]:
    return [WantedOperand(tuple(map(str, paths)), **how)]


def test_a_file_is_found_with_its_hash_and_size(look: Look, tmp_path: Path) -> None:
    script = tmp_path / "deploy.sh"
    script.write_bytes(b"echo hi\n")
    assert look(wanted(script)) == (Operand(str(script), sha(b"echo hi\n"), size_bytes=8),)


def test_an_empty_file_is_a_file(look: Look, tmp_path: Path) -> None:
    (tmp_path / "x").touch()
    assert look(wanted(tmp_path / "x")) == (Operand(f"{tmp_path}/x", sha(b""), size_bytes=0),)


def test_a_link_is_named_with_the_file_behind_it(look: Look, tmp_path: Path) -> None:
    (tmp_path / "real.sh").write_bytes(b"1")
    (tmp_path / "link.sh").symlink_to("real.sh")
    (tmp_path / "folder").symlink_to(tmp_path)
    for path in (tmp_path / "link.sh", tmp_path / "folder" / "link.sh"):
        assert look(wanted(path)) == (Operand(str(path), sha(b"1"), real=f"{tmp_path}/real.sh", size_bytes=1),)


def test_a_missing_file_is_missing_and_an_optional_one_is_none(look: Look, tmp_path: Path) -> None:
    assert look(wanted(tmp_path / "x")) == (Operand(f"{tmp_path}/x", found="missing"),)
    assert look(wanted(tmp_path / "x" / "y")) == (Operand(f"{tmp_path}/x/y", found="missing"),)
    assert look(wanted(tmp_path / "x", is_optional=True)) == ()


def test_a_link_to_nothing_is_missing(look: Look, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("nowhere")
    assert look(wanted(tmp_path / "link")) == (Operand(f"{tmp_path}/link", found="missing"),)


def test_links_in_a_circle_are_unreadable(look: Look, tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (found,) = look(wanted(tmp_path / "a"))
    assert (found.path, found.found, found.sha256) == (f"{tmp_path}/a", "unreadable", None)


def test_the_first_path_that_is_a_file_counts(look: Look, tmp_path: Path) -> None:
    (tmp_path / "makefile").write_bytes(b"a")
    (tmp_path / "Makefile").write_bytes(b"b")
    names = [tmp_path / name for name in ("GNUmakefile", "makefile", "Makefile")]
    assert [one.path for one in look(wanted(*names))] == [f"{tmp_path}/makefile"]


def test_a_folder_stands_for_the_program_in_it(look: Look, tmp_path: Path) -> None:
    (tmp_path / "tool").mkdir()
    (tmp_path / "tool" / "__main__.py").write_bytes(b"a")
    assert [one.path for one in look(wanted(tmp_path / "tool", tmp_path / "tool" / "__main__.py"))] == [
        f"{tmp_path}/tool/__main__.py"
    ]
    assert look(wanted(tmp_path / "tool", tmp_path / "tool" / "x")) == ()


def test_what_is_no_regular_file_is_unreadable_and_nobody_waits_for_it(look: Look, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert look(wanted(tmp_path / "pipe")) == (Operand(f"{tmp_path}/pipe", found="unreadable"),)


def test_a_pattern_finds_every_file_with_such_a_name(look: Look, tmp_path: Path) -> None:
    for name in ("b.tf", "a.tf", ".hidden.tf", "c.txt"):
        (tmp_path / name).write_bytes(name.encode())
    (tmp_path / "folder.tf").mkdir()
    found = look(wanted(tmp_path / "*.tf", is_glob=True, is_optional=True))
    assert [one.path for one in found] == [f"{tmp_path}/a.tf", f"{tmp_path}/b.tf"]
    assert look(wanted(tmp_path / "x" / "*.tf", is_glob=True)) == ()


def test_a_file_is_listed_once(look: Look, tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"a")
    assert len(look([*wanted(tmp_path / "x"), *wanted(tmp_path / "x", is_optional=True)])) == 1


def test_a_file_over_the_limit_is_not_read(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operand_files, "OPERAND_FILE_BYTES", 10)
    (tmp_path / "fits").write_bytes(b"x" * 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    found = look([*wanted(tmp_path / "fits"), *wanted(tmp_path / "large")])
    assert [(one.found, one.size_bytes) for one in found] == [("file", 10), ("too large", 11)]


def test_all_files_together_have_a_limit(look: Look, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operand_files, "OPERANDS_BYTES", 15)
    for name in "abc":
        (tmp_path / name).write_bytes(b"x" * 6)
    found = look([one for name in "abc" for one in wanted(tmp_path / name)])
    assert [one.found for one in found] == ["file", "file", "too large"]


def test_the_number_of_files_is_bounded(look: Look, tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"{number:02}.tf").touch()
    assert len(look(wanted(tmp_path / "*.tf", is_glob=True))) == limits.OPERAND_COUNT


@pytest.mark.parametrize("path", ["/nul\0byte", "/lone\ud800surrogate", "/" + "x" * 5000, "/" + "x/" * 3000])
def test_an_odd_path_raises_nothing(path: str) -> None:
    assert [one.found for one in found_operands([WantedOperand((path,))])] in (["missing"], ["unreadable"])
    assert [one["found"] for one in hashed([{"paths": [path]}])] in (["missing"], ["unreadable"])


@pytest.mark.parametrize("odd", [None, 3, "x", {}, [None], [{}], [{"paths": "x"}], [{"paths": [3, "relative"]}]])
def test_a_hook_ignores_a_list_that_it_cannot_read(odd: object) -> None:
    assert hashed(odd) == []


def test_a_file_name_that_is_no_text_is_written_with_escapes(look: Look, tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/\xff.sh"
    with open(raw, "wb") as file:  # noqa: PTH123 - a name in bytes
        file.write(b"1")
    (tmp_path / "link").symlink_to(os.fsdecode(raw))
    (found,) = look(wanted(tmp_path / "link"))
    assert (found.sha256, found.real) == (sha(b"1"), f"{tmp_path}/\\xff.sh")

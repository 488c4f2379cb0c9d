"""Settings files in any layout: installed lines are removed again, and every other byte stays."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.policy.jsonc import Insertion, appending, applied, comments_in, parse
from tests.workers.bridges.layouts import settings_of, written
from workers.bridges import settings_file
from workers.bridges.hook_entries import AGENT, hook_settings, without_entries
from workers.bridges.settings_file import essence

OURS: Final = hook_settings([])
OTHERS: Final = hook_settings(["--on-unreachable", "agent"])
_MARK: Final = "\ufeff"

seeds = st.integers(0, 2**32)
steady = settings(max_examples=40)
"""Files are written to the disk, which takes as long as the machine lets it."""


class File:
    """A settings file in a home of its own."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "settings.json"
        self.home = folder / "home"

    def write(self, text: str) -> None:
        self.path.write_bytes(text.encode())

    def read(self) -> str:
        return self.path.read_bytes().decode()

    def value(self) -> Any:
        text = self.read().removeprefix(_MARK)
        return parse(text, comments=True).value if text.strip() else {}

    def install(self, entries: Any = OURS) -> None:
        settings_file.apply(settings_file.planned(self.path, AGENT, entries, comments=True))

    def uninstall(self) -> None:
        settings_file.apply(settings_file.planned(self.path, AGENT, None, comments=True))

    def forget(self) -> None:
        for record in self.home.rglob("*.json"):
            record.unlink()


@contextmanager
def a_file(text: str | None = None) -> Iterator[File]:
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        file = File(Path(folder))
        patch.setenv("PERMISSION_LEDGER_HOME", str(file.home))
        if text is not None:
            file.write(text)
        yield file


def comments_of(text: str) -> list[str]:
    return sorted(one.strip() for one in comments_in(text))


@pytest.mark.slow
@steady
@given(seed=seeds, comments=st.booleans())
def test_uninstalling_gives_back_every_byte(seed: int, comments: bool) -> None:
    chance = random.Random(seed)
    text = written(settings_of(chance), chance, comments=comments)
    with a_file(text) as file:
        file.install()
        once = file.read()
        assert once != text
        file.install()
        assert file.read() == once, "installing twice is installing once"
        file.install(OTHERS)
        file.install()
        assert file.read() == once, "installing anew replaces what was installed"
        file.uninstall()
        assert file.read() == text


@steady
@given(seed=seeds, comments=st.booleans())
def test_where_nothing_is_remembered_the_settings_and_the_comments_stay(seed: int, comments: bool) -> None:
    chance = random.Random(seed)
    text = written(settings_of(chance), chance, comments=comments)
    with a_file(text) as file:
        before = file.value()
        file.install()
        assert essence(without_entries(file.value(), AGENT)) == essence(before)
        file.forget()
        file.uninstall()
        assert essence(file.value()) == essence(before)
        assert comments_of(file.read()) == comments_of(text)


@steady
@given(seed=seeds, comments=st.booleans())
def test_what_a_person_edited_since_stays_edited(seed: int, comments: bool) -> None:
    chance = random.Random(seed)
    text = written(settings_of(chance), chance, comments=comments)
    with a_file(text) as file:
        file.install()
        body = file.read().removeprefix(_MARK)
        where = chance.choice(["", "/hooks", "/hooks/PreToolUse"])
        theirs = (
            Insertion(None, {"matcher": "theirs", "hooks": []}) if where.count("/") > 1 else Insertion("theirs", ["x"])
        )
        edited = applied(body, [appending(body, parse(body, comments=True), where, [theirs])])
        file.write("// mine\n" + edited)
        wanted = without_entries(file.value(), AGENT)
        file.uninstall()
        assert essence(file.value()) == essence(wanted)
        assert comments_of(file.read()) == sorted([*comments_of(text), "// mine"])


@pytest.mark.parametrize("text", ["{}", "{ }\n", "", " \n", _MARK + "{}", '{"hooks": {}}', '{"hooks": {"Stop": []}}'])
def test_a_file_that_was_there_is_never_removed(text: str) -> None:
    with a_file(text) as file:
        file.install()
        file.uninstall()
        assert file.read() == text


def test_a_file_that_was_made_for_the_hooks_goes_with_them_unless_somebody_wrote_there_too() -> None:
    with a_file() as file:
        file.install()
        file.install(OTHERS)
        file.uninstall()
        assert not file.path.exists()
        file.install()
        file.write(file.read() + "// mine\n")
        file.uninstall()
        assert comments_of(file.read()) == ["// mine"]


def test_a_file_written_by_somebody_else_after_ours_was_taken_away_stays() -> None:
    with a_file() as file:
        file.install()
        file.path.unlink()
        file.write("{}")
        file.install()
        file.uninstall()
        assert file.read() == "{}"


def test_a_comment_stays_beside_what_it_is_about() -> None:
    with a_file('{\r\n\t"model": "x", // the fast one\r\n}') as file:
        file.install({"Stop": [1]})
        expected = (
            '{\r\n\t"model": "x", // the fast one\r\n\t"hooks": {\r\n\t\t"Stop": [\r\n\t\t\t1\r\n\t\t]\r\n\t},\r\n}'
        )
        assert file.read() == expected


def test_links_stay_links_and_rights_stay_as_they_were() -> None:
    with a_file() as file:
        real = file.path.with_name("dotfiles.json")
        real.write_text("{}")
        real.chmod(0o664)
        file.path.symlink_to(real)
        file.install()
        assert (file.path.is_symlink(), real.stat().st_mode & 0o777) == (True, 0o664)
        assert "run.py" in real.read_text()
        file.uninstall()
        assert (file.path.is_symlink(), real.read_text()) == (True, "{}")


def test_the_record_holds_nothing_of_what_stood_in_the_file() -> None:
    with a_file('{"env": {"TOKEN": "secret"}}') as file:
        file.install()
        [record] = file.home.rglob("*.json")
        assert "secret" not in record.read_text()

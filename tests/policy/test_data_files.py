"""Data files of the policy: an invalid one is refused as a whole, with a message that names the entry."""

from __future__ import annotations

import gc
import importlib
import pkgutil
import re

import msgspec
import pytest

import ledger
import projections
from ledger.core.late_patterns import LatePattern
from ledger.policy.data_files import TableError, WordList, WordSet, read_entries, read_entry
from ledger.policy.shell.tables import DangerousArguments, Opaque, ProgramEffect, Transparent
from tests.policy.compiling import parse_toml
from workers.runtime.process import import_judging


class Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: WordSet = WordSet()
    order: WordList = WordList()
    pattern: LatePattern | None = None
    count: int = 0


def entries(text: str, kind: type = Entry) -> dict[str, object]:
    return read_entries(kind, parse_toml(text, "x.toml"), "x.toml")


def test_words_patterns_and_aliases_are_read_from_strings() -> None:
    found = entries("[a]\naliases = 'b c'\nnames = '''\nz y\n  x'''\norder = 'z y'\npattern = 'k.'")
    entry = found["a"]
    assert isinstance(entry, Entry)
    assert (entry.names, entry.order, entry.pattern and entry.pattern.pattern) == (WordSet("xyz"), WordList("zy"), "k.")
    assert found["a"] is found["b"] is found["c"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[a]\nnames = ", "x.toml is not valid TOML: "),
        ("[a]\n[a]", "x.toml is not valid TOML: "),
        ("[a]\ncount = 1\ncount = 2", "x.toml is not valid TOML: "),
        ("[a]\nname = 'b'", "x.toml: `a`: Object contains unknown field `name`"),
        ("[a]\nnames = ['b']", "x.toml: `a`: Expected `str`, got `list` - at `$.names`"),
        ("[a]\norder = 3", "x.toml: `a`: Expected `str`, got `int` - at `$.order`"),
        ("[a]\ncount = 'b'", "x.toml: `a`: Expected `int`, got `str` - at `$.count`"),
        ("a = 1", "x.toml: `a`: Expected `object`, got `int`"),
        ("[a]\nnames = 'b c b'", "x.toml: `a`: `b` is listed twice - at `$.names`"),
        ("[a]\naliases = 'b'\n[b]", "x.toml: `b` is listed twice"),
        ("[a]\naliases = 'a'", "x.toml: `a` is listed twice"),
        ("[a]\naliases = ['b']", "x.toml: `a`: aliases: Expected `str`, got `list`"),
    ],
)
def test_an_invalid_file_is_refused_with_the_name_of_the_entry(text: str, says: str) -> None:
    with pytest.raises(TableError, match=re.escape(says)):
        entries(text)


@pytest.mark.parametrize("kind", [DangerousArguments, Opaque, Transparent])
def test_an_unknown_member_of_a_shell_table_is_refused(kind: type) -> None:
    with pytest.raises(TableError, match="unknown field `valud`"):
        entries("[a]\nvalud = 'x'", kind)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("programs = 'a'\nprogram = 'b'", "x.toml: Object contains unknown field `program`"),
        ("anywhere.a = '-x'", "x.toml: Object missing required field `programs`"),
        ("programs = ''\nanywhere.a = '-x'\nsubcommands.a = 'rm'", "x.toml: `a` is listed twice"),
    ],
)
def test_an_invalid_table_of_an_effect_is_refused(text: str, says: str) -> None:
    with pytest.raises(TableError, match=re.escape(says)):
        ProgramEffect(parse_toml(text, "x.toml"), "x.toml")


def test_an_effect_is_found_by_program_by_sub_command_and_by_word() -> None:
    table = "programs = 'rm'\nsubcommands.git = 'push|rm'\nanywhere.find = '-delete'"
    effect = ProgramEffect(parse_toml(table, "x.toml"), "x.toml")
    assert effect.applies(["rm"], [])
    assert effect.applies(["git"], ["-C", "x", "push"])
    assert not effect.applies(["git"], ["log", "push"])
    assert effect.applies(["gfind", "find"], [".", "-delete"])
    assert not effect.applies(["find"], ["a-delete"])


def test_a_word_of_one_letter_is_read_from_a_string_like_any_other() -> None:
    assert read_entry(WordSet, "a", "x.toml") == WordSet("a")


def test_a_number_without_end_and_endless_nesting_are_errors_of_the_file() -> None:
    for text in ("a = " + "9" * 5000, "a = " + "[" * 20_000):
        with pytest.raises(TableError, match=r"x\.toml is not valid TOML"):
            parse_toml(text, "x.toml")


def test_every_late_pattern_is_a_regular_expression() -> None:
    for package in (ledger, projections):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    import_judging()
    gc.unfreeze()
    patterns = [one for one in gc.get_objects() if type(one) is LatePattern]
    gc.freeze()
    assert len(patterns) > 400
    for one in patterns:
        assert one.pattern

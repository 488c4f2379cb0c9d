"""The tables of programs: all can be read, and no argument that was found dangerous is harmless in them."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from ledger.policy.data_files import COMPILED, TableError
from ledger.policy.shell.forms.nodes import known_programs, program_table
from ledger.policy.shell.tables import ARGUMENTS, DangerousArguments
from tests.policy.compiling import check_names, compiled, read_tables
from tests.policy.shell.programs.worries import worries
from tests.support.rows import every

DANGEROUS: Final = Path(__file__).parents[3] / "data/programs/dangerous.txt"


@every("program", known_programs())
def test_every_table_is_read_and_says_what_it_was_made_from(program: str) -> None:
    table = program_table(program)
    assert table is not None
    assert table.version or table.always


def test_the_compiled_file_is_what_its_sources_say() -> None:
    assert COMPILED.read_bytes() == compiled(), "run `python -m tests.policy.compiling`"


def test_options_stand_on_lines_or_with_commas_between_them() -> None:
    one = '[a]\nplain = """\n-q --quiet, -n=A,B\n# a note, of two\n--color[=WHEN]\n"""'
    other = '[a]\nplain = """\n-q --quiet\n-n=A,B\n--color[=WHEN]\n"""'
    (node,) = read_tables(one)
    assert (node,) == tuple(read_tables(other))
    assert [option.names for option in node.listed] == [("-q", "--quiet"), ("-n",), ("--color",)]
    with pytest.raises(TableError, match="is not written like an option"):
        list(read_tables(one.replace(", -n", ",-n")))


def test_no_program_has_two_tables() -> None:
    with pytest.raises(TableError, match="the program `b` is listed twice"):
        check_names(read_tables("[a]\naliases = ['b']\n[b]"), "the program")


def test_no_argument_that_was_found_dangerous_is_harmless_by_a_table() -> None:
    lines = DANGEROUS.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if not line.startswith("#") and not worries(line)] == []


def test_only_programs_without_a_table_have_dangerous_arguments_listed() -> None:
    nothing = DangerousArguments()
    assert {name for name, entry in ARGUMENTS.items() if entry == nothing} == set(ARGUMENTS) & set(known_programs())

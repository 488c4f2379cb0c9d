"""Every option that a program's help names has a class in its table."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.policy.shell.forms.nodes import ProgramNode, program_table
from tests.support.program_help import PROGRAMS, is_here, options_of, version_of
from tests.support.rows import every

RECORDS = Path(__file__).parents[3] / "data/programs/options"
RECORDED = sorted(file.stem for file in RECORDS.glob("*.txt"))
AGED = 0.15
"""The share of options that another version may have in addition: they ask, until the table is made anew."""


def recorded(program: str) -> tuple[str, list[tuple[str, ...]]]:
    version, *lines = (RECORDS / f"{program}.txt").read_text(encoding="utf-8").splitlines()
    return version.removeprefix("# "), [tuple(line.split()) for line in lines]


def has_class(program: str, words: tuple[str, ...]) -> bool:
    root = program_table(program)
    assert root is not None
    nodes: list[ProgramNode] = [root]
    for name in words[:-1]:
        nodes.append(nodes[-1].commands[name])
    spelt = words[-1].lower() if nodes[-1].caseless else words[-1]
    if nodes[-1].style == "go":
        spelt = "-" + spelt.lstrip("-")
    plain = spelt.replace("--no-", "--", 1)
    known = any(
        one in node.options
        for node in (nodes[-1], *(above for above in nodes if above.globals == "anywhere"))
        for one in (spelt, *((plain,) if node.negatable else ()))
    )
    return known or words[-1] in ("--help", "-h") or (nodes[-1].style == "words" and words[-1] in root.options)


def test_no_listed_program_is_without_a_record() -> None:
    assert sorted(set(PROGRAMS) - set(RECORDED)) == []


@every("program", RECORDED)
def test_every_recorded_option_has_a_class(program: str) -> None:
    _, options = recorded(program)
    assert options
    assert [" ".join(words) for words in options if not has_class(program, words)] == []


@pytest.mark.slow
@every("program", lambda: filter(is_here, PROGRAMS))
def test_the_options_of_a_program_on_this_machine_have_classes(program: str) -> None:
    version, _ = recorded(program)
    options = list(options_of(program))
    missing = [" ".join(words) for words in options if not has_class(program, words)]
    if version_of(program) == version:
        assert missing == []
    else:
        assert len(missing) <= AGED * len(options)

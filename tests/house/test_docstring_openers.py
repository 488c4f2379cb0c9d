"""Docstrings open with a noun phrase or a verb, which one reading understands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import Final

import pytest

from tests.house.sources import PACKAGES, files, nodes_of

FOLDERS: Final = (*PACKAGES, "tests", "bench")
OPENER: Final = re.compile(r"(?:What|Who|Whose|Whether|How|Where|Which|Why)\b")
SHARE_MAX: Final = 0.03

Docstring = tuple[int, str]
"""Line and text."""


def docstrings_of(nodes: Iterable[ast.AST]) -> list[Docstring]:
    """Return the docstrings of a module, its classes and its functions, and the strings below constants and members."""
    bodies = [
        node.body
        for node in nodes
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    return [
        (statement.lineno, statement.value.value.strip())
        for body in bodies
        for statement in body
        if isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    ]


def test_at_most_three_docstrings_in_a_hundred_open_with_a_question_word() -> None:
    found = [(file, line, text) for file in files(*FOLDERS) for line, text in docstrings_of(nodes_of(file))]
    riddles = [f"{file}:{line}: {text.splitlines()[0]}" for file, line, text in found if OPENER.match(text)]
    assert len(riddles) <= SHARE_MAX * len(found), (
        f"{len(riddles)} of {len(found)}; instead: a noun phrase for a type or a value, a verb for a function\n"
        + "\n".join(riddles)
    )


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ('"""What it is."""', "What it is."),
        ('class A:\n    """Who it is."""', "Who it is."),
        ('async def f():\n    """Whether it is."""', "Whether it is."),
        ('def f():\n    def g():\n        """How it is."""', "How it is."),
        ('A = 1\n"""Where it is."""', "Where it is."),
        ('class A:\n    """A thing."""\n    a: int\n    """Which it is."""', "Which it is."),
        ('class A:\n    def __init__(self):\n        self.a = 1\n        """Why it is."""', "Why it is."),
    ],
)
def test_docstrings_are_found_wherever_they_may_stand(source: str, text: str) -> None:
    last = docstrings_of(ast.walk(ast.parse(source)))[-1][1]
    assert last == text
    assert OPENER.match(last)

"""One type name, one meaning: `docs/reference/glossary.md` has the words, and the few names that stand for two things."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from tests.house.sources import PACKAGES, files, text_of, tree_of

PAGE: Final = text_of("docs/reference/glossary.md")
TWO_MEANINGS: Final = set(
    re.findall(r"^- `(\w+)`: ", PAGE.split("\n## Type names with two meanings\n")[1], re.MULTILINE)
)
ALLOWED: Final = 10
WORDS: Final = [
    "session",
    "project",
    "tool call",
    "request",
    "pending",
    "reply",
    "feedback",
    "grant",
    "approved",
    "rule",
    "ruleset",
    "layer",
    "dialect",
    "verdict",
    "evaluation",
    "outcome",
    "event",
    "version",
    "append",
    "expected version",
    "projection",
    "view",
    "checkpoint",
    "snapshot",
    "actor",
    "client",
    "input lock",
    "claim",
    "operand",
    "fact",
    "freeze",
    "redaction",
    "hold",
    "seal",
    "archive",
    "notary",
    "witness",
    "checkpoint of the log",
    "normal form",
]
NOT_SAID: Final = ("Bell", "Errand", "Prophet", "Honour", "Desk")
"""Metaphors of ours for which the field has a word: wake-up, effect, oracle, accept, tracker."""


def types_of(file: str) -> Iterator[tuple[str, str]]:
    """Public name and definition of each type of a file: classes by their place, aliases by what they stand for."""
    for node in tree_of(file).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name, f"class of {file}"
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            if isinstance(target, ast.Name) and re.fullmatch(r"[A-Z]\w*[a-z]\w*", target.id):
                yield target.id, ast.unparse(node.value)


def meanings() -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for file in files(*PACKAGES):
        for name, definition in types_of(file):
            if not definition.startswith(("TypeVar(", "ParamSpec(")):
                found[name].add(definition)
    return found


def test_no_type_name_has_two_meanings_but_those_that_the_glossary_lists() -> None:
    found = meanings()
    assert len(found) > 500
    assert {name for name, definitions in found.items() if len(definitions) > 1} - TWO_MEANINGS == set()


def test_the_list_of_names_with_two_meanings_is_short() -> None:
    assert len(TWO_MEANINGS) <= ALLOWED


def test_each_word_of_the_design_is_explained_in_one_line() -> None:
    explained = re.findall(r"^- \*\*([a-z -]+)\*\*: \S", PAGE, re.MULTILINE)
    assert [word for word in WORDS if explained.count(word) != 1] == []


def test_no_public_type_is_named_by_a_metaphor_of_ours() -> None:
    assert [name for name in meanings() for word in NOT_SAID if word in name] == []

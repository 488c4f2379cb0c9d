"""Dangerous commands stay dangerous in every spelling: each dangerous row is rewritten in many ways."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ledger.core.policy import Verdict
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Word
from tests.policy.shell.simple_rules import verdict
from tests.support.rows import every

HARMLESS_ELSEWHERE = {
    "own-lexical-12": "the backslash at the end of the line quotes what is put behind it",
    "own-word-06": "behind `timeout` the braces expand to `ls -la`",
    "own-word-07": "behind `timeout` the braces expand to `ls lx`",
    "own-word-15": "the loop gives the variable a known value",
}
ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data/policy/shell.json").read_text())[
    "adversarial"
]


def mutations(line: str) -> Iterator[str]:
    """Yield other writings of a line that do at least the same."""
    yield from (f"{line} && ls", f"ls; {line}", f"ls | {line}", f"timeout 5 {line}", f"if true; then {line}\nfi")
    yield from (f"{{ {line}\n}}", f"( {line}\n)", f"for x in 1; do {line}\ndone", f"! {line}", f"{line} &")
    read = lex(line)
    commands = read.commands
    if not read.plain or len(commands) != 1 or commands[0].redirects:
        return
    words = commands[0].words
    for at in range(1, len(words)):
        yield from (_with(words, at, text) for text in _rewritten(words[at]))
    yield "  ".join(word.raw for word in words)
    yield " \\\n".join(word.raw for word in words)


def _with(words: tuple[Word, ...], at: int, text: str) -> str:
    return " ".join([*(word.raw for word in words[:at]), text, *(word.raw for word in words[at + 1 :])])


def _rewritten(word: Word) -> Iterator[str]:
    """Quotes that change nothing; a glob or a tilde would become another word in them."""
    text = word.resolved
    if not text or word.glob or word.tilde or word.quoted or not text.isascii() or not text.isprintable():
        return
    if not set(text) & set("'\"\\$`!"):
        yield from (f"'{text}'", f'"{text}"', f'{text[0]}""{text[1:]}', f"{text[:1]}'{text[1:]}'", f"\\{text}")


@every("row", ROWS, ids=lambda row: row["id"])
def test_a_dangerous_row_stays_dangerous_however_it_is_written(row: dict[str, Any]) -> None:
    allow, deny = [*row["allow"], "prefix ls", "prefix true"], row.get("deny", ())
    found = [line for line in mutations(row["command"]) if verdict(line, allow, deny) is Verdict.ALLOW]
    assert (found == []) is (row["id"] not in HARMLESS_ELSEWHERE)

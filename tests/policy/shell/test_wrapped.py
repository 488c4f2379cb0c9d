"""Options of a wrapper: one loop finds the command behind them, whatever the wrapper's table says of each option."""

from __future__ import annotations

import pytest

from ledger.policy.shell.model import Word
from ledger.policy.shell.unwrap import after_options


def width(option: str, following: Word | None) -> int | None:
    """Return the width of `-v`, which takes the next word, of `-f`, and of no other option."""
    return {"-v": 2 if following is not None else None, "-f": 1}.get(option)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("w ls", 1),
        ("w -f ls", 2),
        ("w -v 1 -f ls", 4),
        ("w -f -- -x", 3),
        ("w - ls", 1),
        ("w -x ls", None),
        ("w -v", None),
        ("w $X ls", None),
        ("w -f", 2),
        ("w", 1),
    ],
)
def test_the_command_begins_behind_the_options_that_are_understood(line: str, command: int | None) -> None:
    words = [Word(raw, None if raw.startswith("$") else raw) for raw in line.split()]
    assert after_options(words, 1, lambda word: word.resolved, width) == command

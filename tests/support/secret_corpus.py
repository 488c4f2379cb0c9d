"""The corpora of `tests/data/secrets/`: lines with a secret, and everyday lines without one.

The shapes were tuned on the first one. `held_out` names the second, which was written without them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent.parent / "data" / "secrets"


class WithSecret(NamedTuple):
    """A line, its kind of secret, and the span of the secret in it."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def secret(self) -> str:
        return self.text[self.start : self.end]


def lines_with_a_secret(*, held_out: bool = False) -> list[WithSecret]:
    """Return the lines with their secrets put together: no file holds a whole key."""
    made = []
    for row in _rows(_named("positives.txt", held_out)):
        kind, line = row.split("\t", 1)
        before, rest = line.replace("\\n", "\n").split("«")
        secret, after = rest.replace("·", "").split("»")
        made.append(WithSecret(kind, before + secret + after, len(before), len(before) + len(secret)))
    return made


def everyday_lines(*, held_out: bool = False) -> list[str]:
    return _rows(_named("negatives.txt", held_out))


def _named(name: str, held_out: bool) -> str:
    return f"held-out-{name}" if held_out else name


def _rows(name: str) -> list[str]:
    return [row for row in (FOLDER / name).read_text(encoding="utf-8").split("\n") if row and not row.startswith("# ")]

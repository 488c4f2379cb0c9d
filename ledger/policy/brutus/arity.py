"""The number of words of a command that an approval covers (brutus.md, "Bash Arity")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

_BY_ARITY: Final[dict[int, str]] = {
    1: "cat cd chmod chown cp echo grep kill ls mkdir mv pwd rm rmdir touch",
    2: "brew cargo docker git go helm kubectl make npm pip pnpm poetry python yarn",
    3: "aws|bun run|docker compose|git config|git remote|git stash|npm run|pnpm run|yarn run",
}
_ARITY: Final = {
    name: arity for arity, names in _BY_ARITY.items() for name in (names.split("|") if "|" in names else names.split())
}


def arity_prefix(tokens: Sequence[str]) -> tuple[str, ...]:
    """Return the words that identify a command: as many as its longest entry says.

    An entry counts only if the command has that many words; without one, the first word is returned. Empty for no
    words.
    """
    for length in range(min(len(tokens), 2), 0, -1):
        arity = _ARITY.get(" ".join(tokens[:length]))
        if arity is not None and arity <= len(tokens):
            return tuple(tokens[:arity])
    return tuple(tokens[:1])

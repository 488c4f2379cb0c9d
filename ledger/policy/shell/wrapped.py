"""Position of the command behind the options of a wrapper."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ledger.policy.shell.model import Word


def after_options(
    words: Sequence[Word],
    at: int,
    read: Callable[[Word], str | None],
    width: Callable[[str, Word | None], int | None],
) -> int | None:
    """Return the index of the first word behind the options from an index on; `--` ends them.

    `read` gives a word's text. `width` gives the number of words of an option, from its text and the word after it.
    None if a text is unknown, or an option is not understood.
    """
    while at < len(words):
        text = read(words[at])
        if text is None:
            return None
        if text == "--":
            return at + 1
        if not text.startswith("-") or text == "-":
            return at
        step = width(text, words[at + 1] if at + 1 < len(words) else None)
        if step is None:
            return None
        at += step
    return at

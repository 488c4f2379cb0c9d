"""Words that may be options when the line runs."""

from __future__ import annotations

from ledger.policy.shell.model import Word


def may_be_option(word: Word) -> bool:
    """Return whether a word may be an option, or several words with an option among them, when the line runs."""
    if word.resolved is not None:
        return word.resolved.startswith("-") or (word.glob and word.raw[:1] in "*?[-")
    return not word.operand and (word.several or not word.prefix or word.prefix.startswith("-"))

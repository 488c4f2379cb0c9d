"""Text as HTML with hidden characters revealed: invisible ones and look-alikes are marked and named."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from ledger.core.characters import code_of, name_of
from ledger.session.would_run.description import Description
from ledger.session.would_run.marks import Mark, marks_of
from workers.presentation.text import visible

NAMED_COUNT: Final = 4
"""Characters that a warning names; the others are counted."""


def text(value: str, marks: Iterable[Mark] | None = None) -> str:
    """Return a text as HTML, on one line, with deceptive characters in `<mark>`."""
    return _written(value, marks, kept="")


def lines(value: str, marks: Iterable[Mark] | None = None) -> str:
    """Return a text as HTML that keeps line breaks and tabs."""
    return _written(value, marks, kept="\n\t")


def named_characters(description: Description) -> str:
    """Return the deceptive characters of a request by number and name, or an empty text."""
    named = ", ".join(
        f"{one.code} {one.name}" + (f" (not {one.like})" if one.like else "") for one in description.odd[:NAMED_COUNT]
    )
    left = len(description.odd) - NAMED_COUNT + description.odd_left
    return named + (f" and {left} more" if left > 0 else "")


def warning(description: Description) -> str:
    """Return a paragraph on the deceptive characters of a request, or an empty text."""
    if not description.odd:
        return ""
    return (
        '<p class="odd"><b>Look closely.</b> It contains characters that are invisible or look like others: '
        f"{escape(named_characters(description))}.</p>"
    )


def _written(value: str, marks: Iterable[Mark] | None, kept: str) -> str:
    if value.isascii() and value.isprintable():
        return escape(value)
    kinds = {at: one.kind for one in (marks_of(value) if marks is None else marks) for at in range(one.start, one.end)}
    return "".join(one if one in kept else _character(one, kinds.get(index)) for index, one in enumerate(value))


def _character(one: str, kind: str | None) -> str:
    shown = visible(one)
    is_numbered = kind in ("combining", "crowded") and not one.isascii()
    if shown != one or is_numbered or (kind is not None and not one.isascii()):
        written = f"⟨{code_of(one)}⟩" if is_numbered and shown == one else shown
        return f'<mark title="{escape(f"{code_of(one)} {name_of(one)}")}">{escape(written)}</mark>'
    return escape(one)

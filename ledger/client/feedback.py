"""Feedback that an agent's protocol cannot deliver to its model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TAKES_NO_FEEDBACK: Final = "hears_no_words"
"""The member of a request's metadata by which a bridge declares this."""

NOTE: Final = "the agent will not see these words, because its protocol has no place for them; the log keeps them"


def undelivered_note(metadata: Mapping[str, Any] | None, message: str | None) -> str | None:
    """Return the note for a person who answers with a message; None where the agent gets the message."""
    return NOTE if message and metadata and metadata.get(TAKES_NO_FEEDBACK) is True else None

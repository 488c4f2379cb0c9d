"""Paths below an unknown folder or home. They are in no project, and no rule that allows covers them. Pure."""

from __future__ import annotations

import posixpath
from typing import Final

from msgspec.structs import replace

from ledger.core.policy import Evaluation

UNKNOWN_FOLDER: Final = "/\0"
"""Placeholder for an unknown working directory; no path of a file holds a NUL."""

UNKNOWN_HOME: Final = "/\0~"
"""Placeholder for an unknown home directory."""


def is_unknown(root: str) -> bool:
    return root in (UNKNOWN_FOLDER, UNKNOWN_HOME)


def possible_roots(root: str, path: str) -> tuple[str, ...]:
    """Return the folders that a root may be, for a rule that restricts: if unknown, also every parent of the path."""
    if not is_unknown(root):
        return (root,)
    held = [root]
    while path != "/" and "\0" not in path:
        path = posixpath.dirname(path)
        held.append(path)
    return tuple(held)


def readable(text: str) -> str:
    """Return the text with `~/x` and `x` for paths below an unknown folder or home."""
    if "\0" not in text:
        return text
    text = text.replace("/" + UNKNOWN_HOME, "~").replace(UNKNOWN_HOME, "~")
    text = text.replace("/" + UNKNOWN_FOLDER + "/", "").replace(UNKNOWN_FOLDER + "/", "")
    return text.replace(UNKNOWN_FOLDER, ".")


def readable_evaluation(found: Evaluation) -> Evaluation:
    """Return the evaluation with `readable` applied to all its texts."""
    return replace(
        found,
        parts=tuple(replace(part, text=readable(part.text)) for part in found.parts),
        message=None if found.message is None else readable(found.message),
        reason=None if found.reason is None else readable(found.reason),
        always=tuple(map(readable, found.always)),
        ask_first=tuple(replace(one, patterns=tuple(map(readable, one.patterns))) for one in found.ask_first),
    )

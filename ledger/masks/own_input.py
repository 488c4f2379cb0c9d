"""Masks, and an input with masks in it as a person changed it: the masks stay, and the asker runs its own bytes. Pure.

A mask is the text that is stored in place of a secret: `{secret:github:3f9c2a81d0b4}`. It is plain ASCII without a
character that a wildcard gives a meaning. A text with a mask is not the text that was asked, so a judgement of it is
never an allow.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ledger.core.errors import InputError
from ledger.core.late_patterns import late_pattern

FINGERPRINT_CHARS: Final = 12

OPENING: Final = "{secret:"
"""The beginning of every mask; a text without it has none."""

MASK: Final = late_pattern(r"\{secret:[a-z][a-z0-9-]{0,31}:[0-9a-f]{12}\}")


def mask_text(kind: str, fingerprint: str) -> str:
    """Return the mask of a secret of a kind; `fingerprint` has `FINGERPRINT_CHARS` hexadecimal digits."""
    return f"{OPENING}{kind}:{fingerprint}}}"


def holds_mask(value: Any) -> bool:
    """Return whether a JSON value has a mask in one of its texts, names of members included."""
    if type(value) is str:
        return OPENING in value and MASK.search(value) is not None
    if value is None:
        return False
    if isinstance(value, (list, tuple)):
        return any(map(holds_mask, value))
    return isinstance(value, Mapping) and any(holds_mask(name) or holds_mask(member) for name, member in value.items())


_MISSING: Final = object()

Path = tuple[str | int, ...]


def masked_texts(value: Any, at: Path = ()) -> dict[Path, str]:
    """Return the texts with a mask by their place. Raises InputError for a mask in the name of a member."""
    if isinstance(value, str):
        return {at: value} if holds_mask(value) else {}
    found: dict[Path, str] = {}
    if isinstance(value, Mapping):
        for name, member in value.items():
            if holds_mask(name):
                raise InputError(
                    "the input has a masked secret in the name of a member, so that nobody but the asker can change it; "
                    "reject it with a message instead"
                )
            found |= masked_texts(member, (*at, name))
    elif isinstance(value, (list, tuple)):
        for index, member in enumerate(value):
            found |= masked_texts(member, (*at, index))
    return found


def check_edit(asked: Any, edited: Any) -> None:
    """Raise InputError for a changed input that touches a masked text of the asked one, or has another mask."""
    before, after = masked_texts(asked), masked_texts(edited)
    for place in before.keys() | after.keys():
        if before.get(place) != after.get(place):
            raise InputError(
                f"`{_named(place)}` holds a masked secret, so that it can be neither changed nor filled in: leave it as "
                "it is shown, or reject the request with a message"
            )


def with_own_texts(edited: Any, own: Any) -> Any:
    """Return a changed input with the asker's own texts in place of the masked ones. Raises InputError without them."""
    made = edited
    for place in masked_texts(edited):
        text = _at(own, place)
        if not isinstance(text, str) or holds_mask(text):
            raise InputError(f"`{_named(place)}` holds a masked secret that the asker does not have; it must not run")
        made = _with(made, place, text)
    return made


def _at(value: Any, place: Path) -> Any:
    for step in place:
        if isinstance(step, int):
            if not isinstance(value, (list, tuple)) or step >= len(value):
                return _MISSING
            value = value[step]
        elif isinstance(value, Mapping) and step in value:
            value = value[step]
        else:
            return _MISSING
    return value


def _with(value: Any, place: Path, text: str) -> Any:
    if not place:
        return text
    step, rest = place[0], place[1:]
    if isinstance(step, int):
        return [_with(one, rest, text) if index == step else one for index, one in enumerate(value)]
    return {name: _with(one, rest, text) if name == step else one for name, one in value.items()}


def _named(place: Path) -> str:
    return ".".join(str(step) for step in place) or "input"

"""A walk over a value with texts in it: JSON, and the shapes of the ledger that hold it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.masks.finder import find
from ledger.masks.named_values import is_secret_name, is_secret_option

LEFT: Final = frozenset(("cwd", "home", "salt"))
"""Members of shapes that are no free text: rules are judged by the folders, as they are."""

_WORDS_MIN: Final = 2
_WORDS_MAX: Final = 64
_WORD_CHARS: Final = 512
"""The limits of a list that is read as the words of a command."""

_NONE: Final[frozenset[int]] = frozenset()

_NAMING: Final = ("name", "Name", "key", "Key", "variable")
_VALUES: Final = frozenset(("value", "Value"))

Leaf = Callable[[str, bool], str]
"""Returns the text to store for a text; the flag is True under the name of a secret."""


def texts(value: Any) -> Iterator[tuple[str, bool]]:
    """Iterate over the texts of a value, names of members included, and whether each stands under a secret's name."""
    found: list[tuple[str, bool]] = []

    def keep(text: str, is_named: bool) -> str:
        found.append((text, is_named))
        return text

    rebuilt(value, keep)
    return iter(found)


def rebuilt(value: Any, leaf: Leaf, *, is_named: bool = False) -> Any:
    """Return a value with each of its texts as `leaf` returns it; the same value where nothing changes."""
    if type(value) is str:
        return leaf(value, is_named)
    if isinstance(value, Mapping):
        return _of_mapping(value, leaf)
    if isinstance(value, (list, tuple)):
        return _of_list(value, leaf, is_named)
    if isinstance(value, msgspec.Struct):
        return _of_struct(value, leaf)
    return value


def _of_mapping(value: Mapping[str, Any], leaf: Leaf) -> Any:
    naming = any(isinstance(value.get(name), str) and is_secret_name(value[name]) for name in _NAMING)
    made: dict[str, Any] = {}
    changes = False
    for name, member in value.items():
        own = leaf(name, False)
        # Two names may have the same mask, where they differ in invisible characters only.
        while own in made:
            own += "'"
        made[own] = rebuilt(member, leaf, is_named=is_secret_name(name) or (naming and name in _VALUES))
        changes = changes or own is not name or made[own] is not member
    return made if changes else value


def _of_list(value: Sequence[Any], leaf: Leaf, is_named: bool) -> Any:
    secret = _secret_arguments(value)
    made = [rebuilt(one, leaf, is_named=is_named or index in secret) for index, one in enumerate(value)]
    if all(one is before for one, before in zip(made, value, strict=True)):
        return value
    return tuple(made) if isinstance(value, tuple) else made


def _secret_arguments(value: Sequence[Any]) -> frozenset[int]:
    """Return the places of a list that are secrets if its texts are the words of a command."""
    if len(value) < _WORDS_MIN or len(value) > _WORDS_MAX or any(type(one) is not str for one in value):
        return _NONE
    if not all(0 < len(one) <= _WORD_CHARS for one in value):
        return _NONE
    found = find(" ".join(value))
    secret, start = set(), 0
    for index, one in enumerate(value):
        end = start + len(one)
        is_argument = any(span.start < end and start < span.end for span in found) and _is_one_word(one)
        if is_argument or (index and is_secret_option(value[index - 1])):
            secret.add(index)
        start = end + 1
    return frozenset(secret)


def _is_one_word(text: str) -> bool:
    """Return whether a text is one word that is no secret without the words before it."""
    return not any(character.isspace() for character in text) and not find(text)


def _of_struct(value: msgspec.Struct, leaf: Leaf) -> Any:
    changed = {}
    for name in value.__struct_fields__:
        if name in LEFT:
            continue
        member = getattr(value, name)
        if member is None or member in ((), {}):
            continue
        made = rebuilt(member, leaf)
        if made is not member:
            changed[name] = made
    return msgspec.structs.replace(value, **changed) if changed else value

"""Texts with masks in place of secrets. Pure: the key is a value.

A fingerprint is an HMAC of the secret with the deployment's own key. So the same secret has the same mask in every
request of a deployment, and who reads the log without the key cannot test a guess.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.commitments import keyed
from ledger.core.errors import InputError
from ledger.core.policy import Call
from ledger.masks.finder import KEPT_CHARS, SecretSpan, candidates, find, joined, lowered, plain
from ledger.masks.named_values import is_plausible, is_secret_name, is_secret_option
from ledger.masks.own_input import FINGERPRINT_CHARS, MASK, OPENING, holds_mask, mask_text
from ledger.masks.shape_tables import SecretShape

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


_PURPOSE: Final = b"permission-ledger masks\n"
_FORGED: Final = "mask"
"""The kind of a text that only looks like a mask."""

_UNDER_A_NAME: Final = "named"

_ALSO_CHARS: Final = 8
"""The least length of a secret that is masked wherever else its text stands."""

_ALSO_COUNT: Final = 32

LARGE_CHARS: Final = 64 * 1024
"""The length of a value, as JSON, from which its long texts are searched each on its own."""

NOTHING_ELSE: Final[Mapping[str, str]] = {}


class Masks:
    """Masks with the key of one deployment. Immutable; safe to share."""

    def __init__(self, key: bytes) -> None:
        self._key = hmac.digest(key, _PURPOSE, "sha256")

    def text(self, text: str) -> str:
        """Return a text with masks in place of its secrets, and of what only looks like a mask."""
        return self._masked(text, False, NOTHING_ELSE, keeps=False)

    def value(self, value: Any, also: Mapping[str, str] = NOTHING_ELSE, *, keeps: bool = False) -> Any:
        """Return a value with masks in place of the secrets in its texts; the same value where it has none.

        `also` are further secrets with their kinds. `keeps` leaves masks as they are: the value is from the log.
        """
        return rebuilt(value, lambda text, is_named: self._masked(text, is_named, also, keeps=keeps))

    def digest(self, digest: str) -> str:
        """Return the digest by which the log knows content with a secret: without the key no guess can be tested."""
        return hmac.digest(self._key, b"digest\n" + digest.encode(), "sha256").hex()

    def _masked(self, text: str, is_named: bool, also: Mapping[str, str], *, keeps: bool) -> str:
        found = spans(text, is_named=is_named, keeps=keeps)
        if also:
            found += _occurrences(text, also)
        if not found:
            return text
        parts: list[str] = []
        after = 0
        for start, end, kind in joined(found):
            parts += (text[after:start], self._mask(text[start:end], kind))
            after = end
        return "".join((*parts, text[after:]))

    def _mask(self, secret: str, kind: str) -> str:
        text = plain(secret).text.encode("utf-8", "surrogatepass")
        return mask_text(kind, hmac.digest(self._key, text, "sha256").hex()[:FINGERPRINT_CHARS])


def spans(text: str, *, is_named: bool, keeps: bool) -> list[SecretSpan]:
    """Return the secrets of a text, perhaps overlapping. `is_named`: it stands under the name of a secret."""
    found = list(find(text))
    if OPENING in text:
        forged = [SecretSpan(*match.span(), _FORGED) for match in MASK.finditer(text)]
        if keeps:
            return [one for one in found if not any(one.start < mask.end and mask.start < one.end for mask in forged)]
        found += forged
    if is_named and is_plausible(text):
        found.append(SecretSpan(0, len(text), _UNDER_A_NAME))
    return found


def secrets_of(value: Any) -> dict[str, str]:
    """Return the longer secrets of a value with their kinds, to be masked wherever else they stand."""
    found: dict[str, str] = {}
    for text, is_named in texts(value):
        for start, end, kind in joined(spans(text, is_named=is_named, keeps=True)):
            if end - start >= _ALSO_CHARS and len(found) < _ALSO_COUNT:
                found.setdefault(text[start:end], kind)
    return found


def first_kind(value: Any) -> str | None:
    """Return the kind of the first secret of a value, None where it has none; masks are no secrets."""
    for text, is_named in texts(value):
        found = spans(text, is_named=is_named, keeps=True)
        if found:
            return found[0].kind
    return None


def may_need_masks(value: Any) -> bool:
    """Return whether a value may have a secret, or a text that looks like a mask. False is certain.

    Nearly all values have none, so this must be quick: the words of all shapes are looked for once, in its JSON.
    """
    written = msgspec.json.encode(value).decode("utf-8", "replace")
    if OPENING in written:
        return True
    if len(written) > LARGE_CHARS:
        # Its long texts stand in it several times, and were perhaps searched already.
        found = list(texts(value))
        short = _joined(text for text, _ in found if len(text) <= KEPT_CHARS)
        return _is_any_named(found) or any(map(find, _long(found))) or _has_secret(short, candidates(short))
    shapes = candidates(written if written.isascii() else plain(written).text)
    if not shapes:
        return False
    found = list(texts(value))
    return _is_any_named(found) or _has_secret(_joined(text for text, _ in found), shapes)


def _is_any_named(found: Iterable[tuple[str, bool]]) -> bool:
    return any(is_named and is_plausible(text) for text, is_named in found)


def _has_secret(whole: str, shapes: Iterable[SecretShape]) -> bool:
    lower = lowered(whole)
    for shape in shapes:
        for _ in shape.spans(whole, lower if shape.is_folded else whole):
            return True
    return False


def prefetch_secrets(value: Any) -> None:
    """Search the long texts of a value, so that its masks need no second search. For a thread beside a loop."""
    for text in _long(texts(value)):
        find(text)


def _long(found: Iterable[tuple[str, bool]]) -> set[str]:
    return {text for text, _ in found if len(text) > KEPT_CHARS}


def _joined(found: Iterable[str]) -> str:
    return plain("\n".join(found)).text


def is_recorded_digest(plain: str, recorded: str, salt: str, masks: Masks | None) -> bool:
    """Return whether a plain digest is the one that was recorded under this salt, with or without masks."""
    own = keyed(plain, salt)
    return recorded == own or (masks is not None and recorded == masks.digest(own))


def masked_input(value: Any, masks: Masks | None) -> Any:
    """Return a tool's input as the log has it."""
    return value if masks is None or value is None or not may_need_masks(value) else masks.value(value)


def masked_call(call: Call, masks: Masks | None) -> Call:
    """Return a call with its input as the log has it."""
    own = masked_input(call.input, masks)
    return call if own is call.input else msgspec.structs.replace(call, input=own)


def with_masked_reason(command: Any, masks: Masks) -> Any:
    """Return a command with masks in its reason, if it has one."""
    reason = getattr(command, "reason", None)
    return msgspec.structs.replace(command, reason=masks.text(reason)) if reason else command


def require_no_secret(pattern: str) -> None:
    """Raise InputError for a grant's pattern with a secret in it."""
    kind = first_kind(pattern)
    if kind is not None or holds_mask(pattern):
        raise InputError(
            f"the pattern has a secret in it ({kind or 'masked'}), and a grant stands in the log: write `*` in its place"
        )


def _occurrences(text: str, secrets: Mapping[str, str]) -> list[SecretSpan]:
    found = []
    for secret, kind in secrets.items():
        start = text.find(secret)
        while start >= 0:
            found.append(SecretSpan(start, start + len(secret), kind))
            start = text.find(secret, start + len(secret))
    return found

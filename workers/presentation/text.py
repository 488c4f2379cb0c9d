"""Text of agents and people, made safe to display: it cannot move the cursor, hide, or change direction.

A terminal obeys control characters, and some characters are invisible or reverse the text after them. With either, an
agent could show a person something else than the call that would run.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}

_NOT_ASCII: Final = re.compile(r"[^ -~]")
# Greedy: a password with an unescaped `@` or `/` in it is masked as a whole.
_PASSWORD: Final = re.compile(r"(://[^\s/:@]*:)\S*(?=@)|([?&]password=)[^&\s`]*")


def visible(text: str) -> str:
    """Return the text on one line, with invisible characters written as Python escapes."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(one if _is_shown(one) else _NAMED.get(one) or _escape(one) for one in text)


def revealed(text: str) -> str:
    """Return the text on one line, with invisible characters and look-alikes written as Python escapes.

    For example, `rm \u0430` shows a Cyrillic letter. For text of agents; people may write in any alphabet.
    """
    if text.isascii():
        return visible(text)
    from ledger.session.would_run.odd_characters import marks_of  # noqa: PLC0415 - slow to import, and few texts need it

    marks = marks_of(text)
    shown: list[str] = []
    at = 0
    for mark in marks:
        shown += [visible(text[at : mark.start]), *map(_written, text[mark.start : mark.end])]
        at = mark.end
    return "".join((*shown, visible(text[at:])))


def _written(character: str) -> str:
    return character if " " <= character <= "~" else _NAMED.get(character) or _escape(character)


def fitted(text: str, chars: int) -> str:
    """Return a text of at most `chars` characters: a longer one is cut, with the number of characters left out."""
    if len(text) <= chars:
        return text
    shown = chars - len(f"… {len(text)} more")
    if shown < 1:
        return f"{text[: max(chars - 1, 0)]}…"
    return f"{text[:shown]}… {len(text) - shown} more"


def json_line(value: Any) -> str:
    """Return JSON on one line, with characters that a terminal obeys or hides escaped; it parses to the same value."""
    return _NOT_ASCII.sub(_json_character, json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def without_passwords(text: str) -> str:
    """Return the text with the passwords of URLs masked."""
    return _PASSWORD.sub(r"\1\2***", text)


def _is_shown(character: str) -> bool:
    if character.isascii():
        return character.isprintable()
    from ledger.core.characters import is_visible  # noqa: PLC0415 - slow to import, and few texts need it

    return is_visible(character)


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _json_character(found: re.Match[str]) -> str:
    character = found[0]
    return character if _is_shown(character) else json.dumps(character)[1:-1]

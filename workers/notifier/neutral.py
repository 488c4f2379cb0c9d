"""Agents' texts made harmless for a message: one line, nothing hidden, and no link that a client would make.

Chats, mail programs and phones turn anything like an address into a link. So addresses are broken up visibly:
`https[:]//evil[.]example`, `ann[@]example`. Pure.
"""

from __future__ import annotations

import re
from typing import Final

from workers.presentation.text import revealed

RAW_CHARS_MAX: Final = 8000
"""The characters of a text that are read, half of them from its end; a line of a message shows fewer."""

_SCHEME: Final = re.compile(r"(?<=\w):(?=//|\\\\)|(?<=mailto):|(?<=tel):", re.IGNORECASE)
_AT: Final = re.compile(r"@(?=\w)")
# The last three are full stops that browsers take for a dot.
_DOT: Final = re.compile("[.\u3002\uff0e\uff61]")
_DOTTED: Final = re.compile(rf"(?<![\w-])[\w-]+(?:{_DOT.pattern}[\w-]+)+")
_NUMBER: Final = re.compile(r"\d+")
_LETTER: Final = re.compile("[A-Za-z]")
_IP_PARTS: Final = 4

# File endings that are no top-level domains: no client makes a link of `package.json`.
_NO_DOMAINS: Final = frozenset(
    {
        "cfg", "cpp", "css", "csv", "env", "exe", "gz", "html", "ini", "js", "json", "jsx", "lock", "log", "pdf",
        "png", "sql", "svg", "toml", "ts", "tsx", "txt", "xml", "yaml", "yml",
    }
)  # fmt: skip


def neutral(text: str, limit_chars: int) -> str:
    """Return the text on one line of at most about `limit_chars`, a longer one without its middle."""
    left_out = max(0, len(text) - RAW_CHARS_MAX)
    if left_out:
        half = RAW_CHARS_MAX // 2
        head, tail = _shown(text[:half]), _shown(text[-half:])
    else:
        head, tail = _shown(text), ""
    return _cut(head, tail, left_out, limit_chars)


def has_broken_addresses(text: str) -> bool:
    """Return whether a neutral text holds an address that was broken up."""
    return any(mark in text for mark in ("[.]", "[:]", "[@]"))


def _shown(text: str) -> str:
    return _AT.sub("[@]", _DOTTED.sub(_broken, _SCHEME.sub("[:]", revealed(text))))


def _broken(found: re.Match[str]) -> str:
    labels = _DOT.split(found[0])
    numbers = [_NUMBER.fullmatch(one) is not None for one in labels]
    is_version = all(numbers[1:]) and not (numbers[0] and len(labels) == _IP_PARTS)
    # Some clients would make a link of the beginning of `evil.com.json`.
    is_file = len(labels) == 2 and (_LETTER.fullmatch(labels[1]) is not None or labels[1].lower() in _NO_DOMAINS)
    return found[0] if is_version or is_file else _DOT.sub("[.]", found[0])


def _cut(head: str, tail: str, left_out: int, limit_chars: int) -> str:
    if not left_out and len(head) <= limit_chars:
        return head
    shown = head + tail
    first, last = limit_chars * 2 // 3, limit_chars // 3
    more = left_out + len(shown) - first - last
    return f"{shown[:first]} … {more} more characters … {shown[-last:]}"

"""Queries: words, and conditions as `by:NAME`. One parser for the command line, HTTP and the inbox.

Nothing of a query is read as SQL or as the syntax of the full-text table: each word becomes a quoted phrase.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, get_args

import msgspec

from ledger.core.errors import InputError
from ledger.core.times import parse_duration, parse_moment, parse_time
from projections.search_rows import RequestStatus
from workers.indexer.facts import FactKind, fact_word, has_letters
from workers.indexer.schema import TEXT_COLUMNS, TIME_BITS

QUERY_CHARS: Final = 1000
WORDS_COUNT: Final = 32
ID_DIGITS: Final = 19

FACTS: Final[Mapping[str, FactKind]] = {
    "by": "by",
    "project": "project",
    "agent": "agent",
    "permission": "permission",
    "session": "session",
    "grant": "grant",
    "outcome": "outcome",
    "request": "request",
}
TIMES: Final = ("since", "until")
RULE: Final = "rule"
CONDITIONS: Final = (*FACTS, RULE, *TIMES)
"""The names of conditions, in a text as `NAME:VALUE` and as options."""

OUTCOMES: Final[tuple[str, ...]] = get_args(RequestStatus)

_PIECE: Final = re.compile(
    rf'(?P<name>{"|".join(CONDITIONS)}):(?:"(?P<quoted>[^"]*)"|(?P<value>\S*))|"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+)'
)


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Words and conditions that all hold. Times are server ms, of the ask; `before` is the number to go on before."""

    words: tuple[str, ...] = ()
    rule: str | None = None
    facts: tuple[tuple[FactKind, str], ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None
    before: int | None = None

    def match(self, scope: tuple[tuple[FactKind, str], ...] = ()) -> str | None:
        """Return the expression of the full-text table, None without words and facts; one of `scope` must hold too."""
        parts = [f"{{{' '.join(TEXT_COLUMNS)}}} : {_phrase(word)}" for word in self.words]
        parts += [f"rules : {_phrase(word)}" for word in (self.rule or "").split() if has_letters(word)]
        parts += [f"facts : {_phrase(fact_word(kind, value))}" for kind, value in self.facts]
        if scope:
            any_of = " OR ".join(_phrase(fact_word(kind, value)) for kind, value in scope)
            parts.append(f"facts : ({any_of})")
        return " AND ".join(parts) or None

    def numbers(self) -> tuple[int, int]:
        """Return the bounds of requests' numbers: at least, and below."""
        least = 0 if self.since_ms is None else max(self.since_ms, 0) << TIME_BITS
        below = _NUMBER_MAX if self.until_ms is None else (max(self.until_ms, 0) + 1) << TIME_BITS
        return min(least, _NUMBER_MAX), min(below, _NUMBER_MAX if self.before is None else self.before, _NUMBER_MAX)


_NUMBER_MAX: Final = (1 << 63) - 1


def parse_query(
    text: str, conditions: Mapping[str, str | None] | None = None, *, now_ms: int, cursor: str | None = None
) -> SearchQuery:
    """Return the query of a text and of conditions by name. Raises InputError."""
    if len(text) > QUERY_CHARS:
        raise InputError(f"the query has {len(text)} characters; at most {QUERY_CHARS} are accepted")
    given: dict[str, str] = {}
    words: list[str] = []
    for piece in _PIECE.finditer(text):
        name = piece["name"]
        if name is None:
            words.append(piece["phrase"] if piece["phrase"] is not None else piece["word"])
        else:
            _give(given, name, piece["quoted"] if piece["quoted"] is not None else piece["value"])
    for name, value in (conditions or {}).items():
        if value is not None:
            _give(given, name, value)
    found = _checked_words(words)
    if text.strip() and not found and not given:
        raise InputError("the query has no word to look up: words have a letter or a digit")
    return SearchQuery(
        words=found,
        rule=_rule(given.get(RULE)),
        facts=tuple((FACTS[name], _fact(name, value)) for name, value in given.items() if name in FACTS),
        since_ms=_time(given.get("since"), now_ms, is_end=False),
        until_ms=_time(given.get("until"), now_ms, is_end=True),
        before=None if cursor is None else _number(cursor),
    )


def _give(given: dict[str, str], name: str, value: str) -> None:
    if name in given:
        raise InputError(f"`{name}` is given twice; give it once")
    if not value or len(value) > QUERY_CHARS:
        raise InputError(f"`{name}` needs a value of 1 to {QUERY_CHARS} characters, as in `{name}:VALUE`")
    _check_text(value)
    given[name] = value


def _checked_words(words: list[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(one for one in words if has_letters(one)))
    if len(found) > WORDS_COUNT:
        raise InputError(f"the query has {len(found)} words; at most {WORDS_COUNT} are accepted")
    for one in found:
        _check_text(one)
    return found


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{text[:40]!a} is not valid Unicode") from None


def _rule(value: str | None) -> str | None:
    if value is not None and not has_letters(value):
        raise InputError(f"`rule:{value[:40]}` has no word to look up: words have a letter or a digit")
    if value is not None and len(value.split()) > WORDS_COUNT:
        raise InputError(f"`rule` has {len(value.split())} words; at most {WORDS_COUNT} are accepted")
    return value


def _fact(name: str, value: str) -> str:
    if name == "outcome" and value not in OUTCOMES:
        raise InputError(f"unknown outcome `{value[:40]}`; use one of {', '.join(OUTCOMES)}")
    return value


def _time(value: str | None, now_ms: int, *, is_end: bool) -> int | None:
    """Return a time, or a duration before now: `30d`."""
    if value is None:
        return None
    if value[:1].isdecimal() and value[-1:].isalpha() and value[-1:] != "Z":
        ms = parse_duration(value, "until" if is_end else "since")
        return None if ms is None else now_ms - ms
    return parse_moment(value) if is_end else parse_time(value)


def _number(cursor: str) -> int:
    if not (cursor.isascii() and cursor.isdecimal() and len(cursor) <= ID_DIGITS):
        raise InputError(f"`{cursor[:40]}` is not a cursor that was handed out")
    return min(int(cursor), _NUMBER_MAX)


def _phrase(word: str) -> str:
    """Return a word as a phrase; a `*` at its end matches words that begin so."""
    is_prefix = word.endswith("*") and has_letters(word[-2:-1])
    quoted = word.rstrip("*").replace('"', '""').replace("\0", " ")
    return f'"{quoted}"*' if is_prefix else f'"{quoted}"'

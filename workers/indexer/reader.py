"""Searches of an index, by any number of processes beside the one that writes it; its lag behind the log.

A query is words, and conditions as `by:NAME`; one parser serves the command line, HTTP and the inbox. Nothing of it is
read as SQL or as the syntax of the full-text table: each word becomes a quoted phrase. The lag is what the feeds tell:
nothing is read that grows with the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, get_args

import msgspec

from ledger.client.why import PastRequest, PastRequests
from ledger.core.errors import InputError
from ledger.core.ids import cursor_number
from ledger.core.times import format_time, format_time_or_none, parse_duration, parse_moment, parse_time
from ledger.session.state import SessionState
from ledger.stores.secrets import deployment_secret
from ledger.stores.store import Store
from projections.asked_before import MaySee
from projections.search_rows import RequestStatus
from workers.indexer.file import DEPLOYMENT, REQUEST_COLUMNS, SCRUB, WHOLE, IndexedRequest, row_of
from workers.indexer.schema import TEXT_COLUMNS, TIME_BITS, FactKind, OpenIndex, fact_word, has_letters, open_to_read

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
        before=None if cursor is None else min(cursor_number(cursor, cursor, ID_DIGITS), _NUMBER_MAX),
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


def _phrase(word: str) -> str:
    """Return a word as a phrase; a `*` at its end matches words that begin so."""
    is_prefix = word.endswith("*") and has_letters(word[-2:-1])
    quoted = word.rstrip("*").replace('"', '""').replace("\0", " ")
    return f'"{quoted}"*' if is_prefix else f'"{quoted}"'


EXAMINED_COUNT: Final = 1000
"""Matches examined for one answer where the caller may not see all; the cursor continues after them."""

AT_ONCE_COUNT: Final = 200


class FoundRequest(NamedTuple):
    """A request that matches, with the facts of its session that decide who may see it."""

    request: IndexedRequest
    project: str | None
    token_id: str | None

    def as_json(self) -> dict[str, Any]:
        """Return CONTRACT-like members; `session` and `version` are the moment of the decision, or of the ask."""
        one = self.request
        return {
            "request_id": one.request_id,
            "session": one.session,
            "version": one.ended_version or one.version,
            "project": self.project,
            "agent": one.agent or one.asker,
            "permission": one.permission,
            "call": one.call,
            "outcome": one.outcome,
            "reason": one.reason,
            "by": one.answered_by,
            "reply": one.reply,
            "asked_at": format_time(one.asked_ms),
            "asked_version": one.version,
            "ended_at": format_time_or_none(one.ended_ms),
            "grants": list(one.grants),
            "redacted": one.redacted,
        }


class FoundPage(NamedTuple):
    """Requests, the newest first; `cursor` continues after them, None at the end."""

    found: list[FoundRequest]
    cursor: str | None


class IndexReader(OpenIndex):
    """An open index. Not for several threads at once."""

    def __init__(self, path: Path) -> None:
        """Raise SetupError where there is no index that can be read, InputError for a file that is none."""
        super().__init__(path, open_to_read(path), "read")

    @property
    def deployment(self) -> str:
        return self.noted(DEPLOYMENT)

    @property
    def is_whole(self) -> bool:
        """Return whether all streams were walked over since the index was begun, or had fallen behind the feeds."""
        return bool(self.noted(WHOLE))

    @property
    def must_remove(self) -> bool:
        """Return whether the file may have bytes of text that left the log; no search finds it."""
        return bool(self.noted(SCRUB))

    def versions(self, sessions: Sequence[str]) -> dict[str, int]:
        """Return the versions that sessions are indexed up to."""
        found: dict[str, int] = {}
        with self._errors():
            for session in sessions:
                row = self._connection.execute("SELECT version FROM heads WHERE session = ?", (session,)).fetchone()
                found[session] = 0 if row is None else row[0]
        return found

    def search(
        self,
        query: SearchQuery,
        limit: int,
        *,
        may_see: Callable[[FoundRequest], bool] = lambda _: True,
        scope: tuple[tuple[FactKind, str], ...] = (),
    ) -> FoundPage:
        """Return one page of what the caller may see; one of `scope` holds for all of it.

        A page may be short, or empty, with a cursor, where the caller may see few of the matches.
        """
        page: list[FoundRequest] = []
        examined, last = 0, query.before
        least, below = query.numbers()
        while examined < EXAMINED_COUNT:
            count = max(limit + 1 - len(page), AT_ONCE_COUNT if examined else 0)
            rows = self._rows(query.match(scope), least, below, count)
            for row in rows:
                if may_see(row):
                    if len(page) == limit:
                        return FoundPage(page, str(last))
                    page.append(row)
                below = last = row.request.id or 0
            if len(rows) < count:
                return FoundPage(page, None)
            examined += len(rows)
        return FoundPage(page, str(last))

    def _rows(self, match: str | None, least: int, below: int, count: int) -> list[FoundRequest]:
        if match is None:
            sql, values = _NEWEST, (least, below, count)
        else:
            sql, values = _MATCHING, (match, least, below, count)  # type: ignore[assignment]
        with self._errors():
            rows = self._connection.execute(sql, values).fetchall()
        return [FoundRequest(row_of(row[:-2], None), *row[-2:]) for row in rows]


_COLUMNS: Final = ", ".join(f"requests.{name}" for name in REQUEST_COLUMNS)
_NEWEST: Final = (
    f"SELECT {_COLUMNS}, heads.project, heads.token_id FROM requests JOIN heads USING (session)"  # noqa: S608 - ours
    " WHERE requests.id >= ? AND requests.id < ? ORDER BY requests.id DESC LIMIT ?"
)
_MATCHING: Final = (
    f"SELECT {_COLUMNS}, heads.project, heads.token_id"  # noqa: S608 - the names are ours
    " FROM (SELECT rowid AS number FROM texts WHERE texts MATCH ? AND rowid >= ? AND rowid < ?"
    " ORDER BY rowid DESC LIMIT ?)"
    " CROSS JOIN requests ON requests.id = number CROSS JOIN heads USING (session) ORDER BY number DESC"
)


NO_GROUP: Final = "indexer: no group"
"""A consumer group that never exists: the feeds are read from a place of one's own."""

LINES_AT_ONCE_COUNT: Final = 200
"""Lines of each partition's feed that are read together."""

ROUNDS_COUNT: Final = 6
"""Readings of the feeds for one answer; a feed is not longer than they read, or was trimmed."""


class IndexLag(NamedTuple):
    """Sessions and events that the index does not have; `whole` False: there may be more, the index is being built."""

    sessions: int
    events: int
    whole: bool


async def deployment_of(store: Store) -> str:
    """Return a name of the deployment that says nothing of its keys."""
    return sha256(b"search index\n" + await deployment_secret(store)).hexdigest()[:32]


async def lag_of(store: Store, index: IndexReader) -> IndexLag:
    """Return how far an index is behind. Raises StoreError."""
    since, whole = index.feeds(), index.is_whole
    versions: dict[str, int] = {}
    for _ in range(ROUNDS_COUNT):
        lines = await store.unacknowledged(NO_GROUP, since, LINES_AT_ONCE_COUNT)
        whole = whole and not any(one.trimmed for one in lines)
        for one in lines:
            since[one.partition] = one.after
            for item in one.items:
                if item.key.kind == "session":
                    versions[item.key.id] = max(item.version, versions.get(item.key.id, 0))
        if all(one.complete for one in lines):
            break
    else:
        whole = False
    known = index.versions(list(versions))
    behind = [version - known.get(session, 0) for session, version in versions.items()]
    behind = [one for one in behind if one > 0]
    return IndexLag(len(behind), sum(behind), whole)


SEARCHES_COUNT: Final = 10
"""Reads of the index for one answer; each examines a bounded number of rows."""


def asked_in_index(
    index: IndexReader, state: SessionState, *, since_ms: int, count: int, may_see: MaySee
) -> PastRequests:
    """Return at most `count` requests of a session's project since a server time (ms) that waited for a person.

    Of a session without a project, its own. Raises SetupError.
    """
    fact: tuple[FactKind, str] = ("session", state.session_id) if state.project is None else ("project", state.project)
    query, found = SearchQuery(since_ms=since_ms, facts=(fact,)), list[FoundRequest]()
    is_cut = False
    for _ in range(SEARCHES_COUNT):
        page = index.search(query, count - len(found), may_see=lambda one: _is_wanted(one, state, may_see))
        found += page.found
        is_cut = page.cursor is not None
        if page.cursor is None or len(found) == count:
            break
        query = msgspec.structs.replace(query, before=int(page.cursor))
    return PastRequests(
        found=tuple(map(_past, found)),
        source="index",
        since_ms=since_ms,
        is_cut=is_cut,
    )


def _is_wanted(one: FoundRequest, state: SessionState, may_see: MaySee) -> bool:
    """Return whether a request of exactly this project waited for a person: it is pending, or ended after its ask.

    The words of the index do not tell upper case from lower case.
    """
    is_here = one.request.session == state.session_id if state.project is None else one.project == state.project
    waited = one.request.ended_version != one.request.version
    return is_here and waited and may_see(one.request.session, one.project, one.token_id)


def _past(one: FoundRequest) -> PastRequest:
    row = one.request
    return PastRequest(
        session=row.session,
        request_id=row.request_id,
        version=row.version,
        asked_ms=row.asked_ms,
        outcome=None if row.outcome == "pending" else row.outcome,
        by=row.answered_by if row.reply is not None else None,
    )

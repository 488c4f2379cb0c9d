"""The places of rows in lists: names in sorted views, which sort as the rows do, and cursors for readers.

A name begins with a list (`scope_of`) and goes on with the place's order. `projections` writes these views.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from ledger.core.ids import CURSOR_DIGITS, check_id, cursor_number, strange_cursor
from ledger.session.state import Request

APPROVED_VIEW: Final = "approved"
"""The grants that have not ended, one row each."""

STANDING_VIEW: Final = "standing"
"""The same grants in each list, oldest first."""

WAITING_VIEW: Final = "waiting"
"""The pending requests in each list, nearest deadline first."""

_SEPARATOR: Final = "\n"
"""The separator of the parts of a name; no id contains white space."""

_LAST: Final = chr(0x10FFFF)
"""A part of a name that comes after every other."""

_NEVER_MS: Final = 10**CURSOR_DIGITS - 1
"""The deadline (ms) in the order of what never expires."""

_NEVER: Final = "never"


def field_of(*parts: str) -> str:
    """Return the name of a field that is made of several ids."""
    return _SEPARATOR.join(parts)


def parts_of(field: str) -> tuple[str, ...]:
    return tuple(field.split(_SEPARATOR))


ALL: Final = field_of("all", "")
"""The beginning of the names of the list of everything."""

ASKED: Final = field_of("asked", "")
"""The beginning of the names of the pending requests in order of asking."""

NAMED: Final = field_of("named", "")
"""The beginning of the names of the list by ids, which finds what is pending or in force by a part of its id."""


def named_of(one: str, of: str) -> str:
    """Return the field of a request or grant in the list by ids."""
    return f"{NAMED}{field_of(one, of)}"


def scope_of(kind: Literal["project", "parent", "token"], of: str) -> str:
    """Return the beginning of the names of one list."""
    return field_of(kind, of, "")


class GrantPlace(NamedTuple):
    """The place of a grant in a list: oldest first, those of one millisecond by their ids."""

    at_ms: int
    grant_id: str
    stream: str = _LAST

    @property
    def order(self) -> str:
        """Return the end of its field, which sorts as the places do."""
        return field_of(_digits(self.at_ms), self.grant_id, self.stream)

    @property
    def cursor(self) -> str:
        """Return the place as a cursor of what follows it."""
        return f"{self.at_ms}-{self.grant_id}"

    @classmethod
    def of_field(cls, field: str) -> GrantPlace:
        at_ms, grant_id, stream = parts_of(field)[-3:]
        return cls(int(at_ms), grant_id, stream)

    @classmethod
    def of_cursor(cls, cursor: str) -> GrantPlace:
        """Return the place of a cursor. Raises InputError."""
        ms, _, grant_id = cursor.partition("-")
        if not grant_id:
            raise strange_cursor(cursor)
        return cls(cursor_number(ms, cursor), check_id(grant_id, "grant id of the cursor"))


class WaitingPlace(NamedTuple):
    """The place of a pending request in a list: nearest deadline first, those that never expire last.

    Of equal deadlines the one that was asked first comes first.
    """

    deadline_ms: int | None
    asked_ms: int
    session: str
    version: int
    request_id: str = _LAST

    @property
    def order(self) -> str:
        """Return the end of its field, which sorts as the places do."""
        due_ms = _NEVER_MS if self.deadline_ms is None else min(self.deadline_ms, _NEVER_MS - 1)
        return field_of(_digits(due_ms), _digits(self.asked_ms), self.session, _digits(self.version), self.request_id)

    @property
    def cursor(self) -> str:
        """Return the place as a cursor of what follows it."""
        due = _NEVER if self.deadline_ms is None else self.deadline_ms
        return f"{due}-{self.asked_ms}-{self.version}-{self.session}"

    @property
    def asked(self) -> str:
        """Return its field in the list in order of asking."""
        return field_of(f"{ASKED}{_digits(self.asked_ms)}", self.session, _digits(self.version), self.request_id)

    @property
    def named(self) -> str:
        """Return its field in the list by ids."""
        return named_of(self.request_id, self.session)

    @classmethod
    def of_request(cls, session: str, request: Request) -> WaitingPlace:
        return cls(request.deadline_ms, request.asked_ms, session, request.version, request.request_id)

    @classmethod
    def of_field(cls, field: str) -> WaitingPlace:
        due, asked_ms, session, version, request_id = parts_of(field)[-5:]
        due_ms = None if int(due) == _NEVER_MS else int(due)
        return cls(due_ms, int(asked_ms), session, int(version), request_id)

    @classmethod
    def of_cursor(cls, cursor: str) -> WaitingPlace:
        """Return the place of a cursor. Raises InputError."""
        parts = cursor.split("-", 3)
        if len(parts) != 4:
            raise strange_cursor(cursor)
        due, asked_ms, version, session = parts
        return cls(
            None if due == _NEVER else cursor_number(due, cursor),
            cursor_number(asked_ms, cursor),
            check_id(session, "session id of the cursor"),
            cursor_number(version, cursor),
        )


def asked_ms_of(field: str) -> int:
    """Return the time (server ms) of a field of the list in order of asking."""
    return int(parts_of(field)[1])


def _digits(number: int) -> str:
    return f"{number:0{CURSOR_DIGITS}d}"

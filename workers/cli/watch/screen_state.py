"""The state of a watching terminal: the list, the open card, the words being typed. Pure but for its own members.

An answer goes to the request of the open card, as it was drawn: a yes needs the whole card to have been on the screen,
and half a second since the card was opened, so that no key typed before can be one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ledger.core.times import format_time
from ledger.session.rounds import shown_digest
from workers.cli.description import card_lines

if TYPE_CHECKING:
    from ledger import Pending

SETTLING_S: Final = 0.5
"""Keys that answer are ignored for so long after a card was opened."""

REPLIES: Final = {"o": "once", "s": "session", "a": "always"}
EXTEND_KEY: Final = "+"
NO_KEY: Final = ""
"""Stands among the keys for "draw it again"."""

WORDS_MAX: Final = 2000

RequestKey = tuple[str, str]


class TypedAnswer(NamedTuple):
    """An answer to the open card."""

    session: str
    request_id: str
    digest: str
    reply: str
    message: str | None


class TypedExtension(NamedTuple):
    """Five minutes more for the open card; `seen` is the deadline that it was drawn with."""

    session: str
    request_id: str
    seen: str


class WatchedScreen:
    """The list of what waits, and at most one open card."""

    def __init__(self) -> None:
        self.waiting: list[Pending] = []
        self.open: Pending | None = None
        self.words: str | None = None
        """The feedback being typed; None while none is."""
        self.notice = ""
        self.why: list[str] | None = None
        """The reason for the open request, shown in place of its card; None while the card is."""
        self.wants_why = False
        """Set when the reason is to be read."""
        self.is_over = False
        self.chosen = 0
        self.offset = 0
        self._why_offset = 0
        self._seen = 0
        self._size = (80, 20)
        self._opened_s = 0.0

    def show(self, waiting: Sequence[Pending]) -> None:
        """Take the requests that wait now; the chosen one stays chosen, and an open card stays open."""
        before = id_of(self.waiting[self.chosen]) if self.waiting else None
        self.waiting = list(waiting)
        ids = [id_of(one) for one in self.waiting]
        self.chosen = ids.index(before) if before in ids else min(self.chosen, max(len(ids) - 1, 0))

    @property
    def is_waiting(self) -> bool:
        """Return whether the open request still waits, as it was drawn."""
        if self.open is None:
            return False
        shown = shown_digest(self.open.request)
        return any(id_of(one) == id_of(self.open) and shown_digest(one.request) == shown for one in self.waiting)

    @property
    def is_read(self) -> bool:
        """Return whether the whole card has been on the screen."""
        return self._seen >= len(self.lines())

    def lines(self) -> list[str]:
        """Return the lines of the open card, wrapped to the screen."""
        if self.open is None:
            return []
        return [part for line in card_lines(self.open) for part in wrapped(line, self._size[0])]

    def explain(self, lines: Sequence[str]) -> None:
        """Show the reason for the open request."""
        self.why, self._why_offset = list(lines), 0

    def drawn(self, width: int, height: int) -> list[str]:
        """Return the part of the card for a screen of this size, and count it as seen; or that of the reason."""
        if self.why is not None:
            lines = [part for line in self.why for part in wrapped(line, width)]
            self._why_offset = max(0, min(self._why_offset, len(lines) - height))
            return lines[self._why_offset : self._why_offset + height]
        if (width, height) != self._size:
            self._size, self._seen = (width, height), 0
        lines = self.lines()
        self.offset = max(0, min(self.offset, len(lines) - height))
        if self.offset <= self._seen:
            self._seen = max(self._seen, self.offset + height)
        return lines[self.offset : self.offset + height]

    def press(self, key: str, now_s: float) -> TypedAnswer | TypedExtension | None:
        """Take a key; return the answer or the extension that it gives, if it gives one."""
        if key == NO_KEY:
            return None
        if self.words is not None:
            return self._type(key)
        self.notice = ""
        if self.open is not None:
            return self._on_card(key, now_s)
        self._on_list(key, now_s)
        return None

    def close(self) -> None:
        """Go back to the list."""
        self.open, self.words, self.why = None, None, None

    def _on_list(self, key: str, now_s: float) -> None:
        if key in ("j", "down"):
            self.chosen = min(self.chosen + 1, max(len(self.waiting) - 1, 0))
        elif key in ("k", "up"):
            self.chosen = max(self.chosen - 1, 0)
        elif key in ("enter", "right") and self.waiting:
            self.open, self.offset, self._seen, self._opened_s = self.waiting[self.chosen], 0, 0, now_s
        elif key in ("q", "escape"):
            self.is_over = True

    def _on_card(self, key: str, now_s: float) -> TypedAnswer | TypedExtension | None:
        page = self._size[1]
        moves = {"j": 1, "down": 1, "k": -1, "up": -1, " ": page, "page down": page, "page up": -page}
        if self.why is not None:
            self._on_why(key, moves)
        elif key in moves:
            # Never further than what comes after the lines seen: no line is jumped over.
            self.offset = min(max(0, self.offset + moves[key]), self._seen)
        elif key in ("escape", "left", "q"):
            self.close()
        elif key == EXTEND_KEY:
            return self._extension()
        elif key == "w":
            self.wants_why = True
        elif key in REPLIES or key == "r":
            return self._answer(key, now_s)
        return None

    def _on_why(self, key: str, moves: Mapping[str, int]) -> None:
        """Take a key while the reason is shown: none of them answers."""
        if key in moves:
            self._why_offset += moves[key]
        elif key in ("escape", "left", "q", "w"):
            self.why = None

    def _answer(self, key: str, now_s: float) -> TypedAnswer | None:
        if not self.is_waiting:
            self.notice = "this request does not wait any more"
        elif now_s - self._opened_s < SETTLING_S:
            self.notice = "too soon after the card was opened; press it again"
        elif key == "r":
            self.words = ""
        elif not self.is_read:
            self.notice = "read the whole card first: space shows more"
        else:
            return self._answered(REPLIES[key], None)
        return None

    def _extension(self) -> TypedExtension | None:
        """Return the extension of the open card by its present deadline, which the title shows."""
        now = self.as_it_waits
        if now is None or now.request.deadline_ms is None:
            self.notice = "this request does not wait any more" if now is None else "this request has no deadline"
            return None
        return TypedExtension(now.session, now.request.request_id, format_time(now.request.deadline_ms))

    @property
    def as_it_waits(self) -> Pending | None:
        """Return the open request with its present deadline; None if it does not wait any more."""
        return next((one for one in self.waiting if self.open is not None and id_of(one) == id_of(self.open)), None)

    def _type(self, key: str) -> TypedAnswer | None:
        assert self.words is not None
        if key == "escape":
            self.words = None
        elif key == "backspace":
            self.words = self.words[:-1]
        elif key == "enter":
            if self.is_waiting:
                return self._answered("reject", self.words.strip() or None)
            self.words, self.notice = None, "this request does not wait any more"
        elif len(key) == 1 and key.isprintable():
            self.words = (self.words + key)[:WORDS_MAX]
        return None

    def _answered(self, reply: str, message: str | None) -> TypedAnswer:
        assert self.open is not None
        request = self.open.request
        return TypedAnswer(self.open.session, request.request_id, shown_digest(request), reply, message)


def id_of(one: Pending) -> RequestKey:
    return one.session, one.request.request_id


def wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit; every character is on one of them.

    A character that is not ASCII counts as two columns, the most that a terminal takes, so that none is cut off.
    """
    parts, room = [""], width
    for character in line:
        columns = 1 if character.isascii() else 2
        if columns > room and parts[-1]:
            parts.append("")
            room = width
        parts[-1] += character
        room -= columns
    return parts

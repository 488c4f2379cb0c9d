"""The screen of `watch`: the list of what waits, one open card, and the answers that its keys give. No I/O.

An answer goes to a request as it was drawn: a yes needs the whole card to have been on the screen, and half a second since
the card was opened, so that no key typed before can be one. A yes is held back for some seconds, in which `u` undoes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.console import Group
from rich.text import Text

from ledger.core.policy import counted_effect
from ledger.core.times import SECOND_MS, format_time
from ledger.session.approvals import approvals_of, offered
from ledger.session.decision import shown_digest
from ledger.session.would_run.description import describe_request
from workers.cli.choices import searched
from workers.cli.description import call_in_line, card_lines, who_asks
from workers.presentation.labels import ONLY_ONCE, SHORT_EFFECTS, danger_kinds
from workers.presentation.text import visible
from workers.presentation.words import time_left

if TYPE_CHECKING:
    from ledger import Pending
    from ledger.core.policy import ReplyKind

SETTLING_S: Final = 0.5
"""Keys that answer are ignored for so long after a card was opened."""

HOLD_S: Final = 3.0
"""A yes is held back for so long, as the inbox does."""

NEAR_MS: Final = 5 * SECOND_MS
"""A yes this near to the deadline is not held back: it would be late."""

REPLIES: Final[dict[str, ReplyKind]] = {"o": "once", "s": "session", "a": "always"}
EXTEND_KEY: Final = "+"
NO_KEY: Final = ""
"""Stands among the keys for "draw it again"."""

WORDS_MAX: Final = 2000
NOT_WAITING: Final = "this request does not wait any more"

RequestKey = tuple[str, str]


class TypedAnswer(NamedTuple):
    """An answer to a request as it was shown; `patterns` are what it remembers instead of the agent's suggestion."""

    session: str
    request_id: str
    digest: str
    reply: ReplyKind
    message: str | None = None
    patterns: tuple[str, ...] | None = None


class TypedExtension(NamedTuple):
    """Five minutes more for the open card; `seen` is the deadline that it was drawn with."""

    session: str
    request_id: str
    seen: str


class HeldAnswers(NamedTuple):
    """Answers that are sent at `until_s`, unless they are taken back."""

    answers: list[TypedAnswer]
    until_s: float


class WatchedScreen:
    """The list of what waits, and at most one open card."""

    def __init__(self) -> None:
        self.all_waiting: list[Pending] = []
        self.open: Pending | None = None
        self.words: str | None = None
        """The feedback being typed; None while none is."""
        self.filter = ""
        self.is_filtering = False
        self.shows_keys = False
        self.notice = ""
        self.why: list[str] | None = None
        """The reason for the open request, shown in place of its card; None while the card is."""
        self.wants_why = False
        """Set when the reason is to be read."""
        self.is_over = False
        self.chosen = 0
        self.offset = 0
        self.selected: set[RequestKey] = set()
        self.held: list[HeldAnswers] = []
        self._read: dict[RequestKey, str] = {}
        """The digests under which requests were read whole."""
        self._why_offset = 0
        self._seen = 0
        self._size = (80, 20)
        self._opened_s = 0.0

    def show(self, waiting: Sequence[Pending]) -> None:
        """Take the requests that wait now; the chosen one stays chosen, and an open card stays open."""
        self._rearrange(list(waiting), self.filter)
        self.selected &= {id_of(one) for one in self.all_waiting}

    @property
    def waiting(self) -> list[Pending]:
        """Return the requests that the filter leaves."""
        words = self.filter.casefold().split()
        if not words:
            return self.all_waiting
        texts = ((one, searched(one)) for one in self.all_waiting)
        return [one for one, text in texts if all(word in text for word in words)]

    def _rearrange(self, waiting: list[Pending], words: str) -> None:
        shown = self.waiting
        before = id_of(shown[self.chosen]) if shown else None
        self.all_waiting, self.filter = waiting, words
        ids = [id_of(one) for one in self.waiting]
        self.chosen = ids.index(before) if before in ids else min(self.chosen, max(len(ids) - 1, 0))

    @property
    def is_waiting(self) -> bool:
        """Return whether the open request still waits, as it was drawn."""
        now = self.as_it_waits
        return now is not None and self.open is not None and digest_of(now) == digest_of(self.open)

    @property
    def as_it_waits(self) -> Pending | None:
        """Return the open request with its present deadline; None if it does not wait any more."""
        if self.open is None:
            return None
        return next((one for one in self.all_waiting if id_of(one) == id_of(self.open)), None)

    @property
    def is_read(self) -> bool:
        """Return whether the whole card has been on the screen."""
        return self._seen >= len(self.lines())

    @property
    def held_ids(self) -> dict[RequestKey, ReplyKind]:
        """Return the answers that are held back."""
        return {(one.session, one.request_id): one.reply for held in self.held for one in held.answers}

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
        if self.open is not None and self.is_read:
            self._read[id_of(self.open)] = digest_of(self.open)
        return lines[self.offset : self.offset + height]

    def keys_now(self) -> list[tuple[str, str]]:
        """Return the keys that do something now, each with what it does: the foot, the list of keys and `press` agree."""
        if self.is_filtering:
            return [("enter", "keep the filter"), ("esc", "show all")]
        if self.words is not None:
            return [("enter", "reject (empty: the agent stops)"), ("esc", "back")]
        if self.why is not None:
            return [("space", "more"), ("esc", "back to the card")]
        undo = [("u", "undo")] if self.held else []
        if self.open is None:
            return [*self._list_keys(), *undo, ("?", "keys"), ("q", "quit")]
        return [*self._card_keys(self.open), *undo, ("?", "keys"), ("esc", "back")]

    def _list_keys(self) -> Iterator[tuple[str, str]]:
        if self.selected:
            yield "o", f"allow {len(self.selected)} once"
            yield "r", f"reject {len(self.selected)}"
        if self.waiting:
            yield from (("j k", "choose"), ("enter", "open"), ("space", "select"))
        if self.all_waiting:
            yield "/", "filter"

    def _card_keys(self, one: Pending) -> Iterator[tuple[str, str]]:
        yield "o", "allow once" if approvals_of(one.request) is None else "approve"
        if offered(one.request) is not None:
            yield from (("s", "this session"), ("a", "always allow"))
        yield "r", "reject"
        if one.request.deadline_ms is not None:
            yield EXTEND_KEY, "5 min"
        yield "w", "why"
        if len(self.lines()) > self._size[1]:
            yield "space", "more"

    def press(self, key: str, now_s: float, now_ms: int = 0) -> TypedExtension | list[TypedAnswer] | None:
        """Take a key; return what leaves at once: an extension, or rejections. A yes is held back (`due`)."""
        if key == NO_KEY:
            return None
        if self.shows_keys:
            self.shows_keys = False
            return None
        if self.is_filtering:
            self._type_filter(key)
            return None
        if self.words is not None:
            return self._type(key)
        self.notice = ""
        if key == "?":
            self.shows_keys = True
        elif key == "u":
            self._undo()
        elif self.open is not None:
            return self._on_card(key, now_s, now_ms)
        else:
            self._on_list(key, now_s, now_ms)
        return None

    def due(self, now_s: float) -> list[TypedAnswer]:
        """Return the held answers whose time has come; they are not held any more."""
        found = [one for held in self.held if held.until_s <= now_s for one in held.answers]
        self.held = [held for held in self.held if held.until_s > now_s]
        return found

    def close(self) -> None:
        """Go back to the list."""
        self.open, self.words, self.why = None, None, None

    def _undo(self) -> None:
        if not self.held:
            self.notice = "nothing to undo: an answer that was sent counts"
            return
        back = self.held.pop().answers
        self.notice = f"taken back: {_named(back)}; nothing was sent"

    def _on_list(self, key: str, now_s: float, now_ms: int) -> None:
        shown = self.waiting
        if key in ("j", "down"):
            self.chosen = min(self.chosen + 1, max(len(shown) - 1, 0))
        elif key in ("k", "up"):
            self.chosen = max(self.chosen - 1, 0)
        elif key in ("enter", "right") and shown:
            self.open, self.offset, self._seen, self._opened_s = shown[self.chosen], 0, 0, now_s
        elif key == " " and shown:
            self.selected ^= {id_of(shown[self.chosen])}
            self.chosen = min(self.chosen + 1, len(shown) - 1)
        elif key == "/":
            self.is_filtering = True
        elif key == "o" and self.selected:
            self._allow_selected(now_s, now_ms)
        elif key == "r" and self.selected:
            self.words = ""
        elif key == "escape" and (self.selected or self.filter):
            self.selected.clear()
            self._rearrange(self.all_waiting, "")
        elif key in ("q", "escape"):
            self.is_over = True

    def _chosen_ones(self) -> list[Pending]:
        return [one for one in self.all_waiting if id_of(one) in self.selected and id_of(one) not in self.held_ids]

    def _allow_selected(self, now_s: float, now_ms: int) -> None:
        ones = self._chosen_ones()
        unread = [one for one in ones if self._read.get(id_of(one)) != digest_of(one)]
        if unread:
            first = unread[0].request.request_id
            self.notice = f"{len(unread)} of {len(ones)} were not read yet, such as {first}: enter opens one"
            return
        self._hold([_answer_to(one, "once") for one in ones], ones, now_s, now_ms)
        self.selected.clear()

    def _hold(self, answers: list[TypedAnswer], ones: Sequence[Pending], now_s: float, now_ms: int) -> None:
        ends = [one.request.deadline_ms for one in ones if one.request.deadline_ms is not None]
        hold_s = 0.0 if ends and min(ends) - now_ms < NEAR_MS else HOLD_S
        self.held.append(HeldAnswers(answers, now_s + hold_s))
        if hold_s:
            self.notice = f"{_named(answers)}: {answers[0].reply}, sent in {HOLD_S:g} s; u undoes it"

    def _on_card(self, key: str, now_s: float, now_ms: int) -> TypedExtension | None:
        page = self._size[1]
        moves = {"j": 1, "down": 1, "k": -1, "up": -1, " ": page, "page down": page, "page up": -page}
        if self.why is not None:
            # None of the keys answers while the reason is shown.
            self._why_offset += moves.get(key, 0)
            if key in ("escape", "left", "q", "w"):
                self.why = None
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
            self._on_answer(key, now_s, now_ms)
        return None

    def _on_answer(self, key: str, now_s: float, now_ms: int) -> None:
        assert self.open is not None, "the keys are those of a card"
        found = offered(self.open.request)
        if not self.is_waiting:
            self.notice = NOT_WAITING
        elif now_s - self._opened_s < SETTLING_S:
            self.notice = "too soon after the card was opened; press it again"
        elif id_of(self.open) in self.held_ids:
            self.notice = "it is answered already; u undoes that"
        elif key == "r":
            self.words = ""
        elif key != "o" and found is None:
            self.notice = ONLY_ONCE
        elif not self.is_read:
            self.notice = "read the whole card first: space shows more"
        else:
            one, reply = self.open, REPLIES[key]
            differs = key != "o" and found is not None and set(found.entries) != set(one.request.always)
            patterns = found.entries if differs and found is not None else None
            self._hold([_answer_to(one, reply, patterns=patterns)], [one], now_s, now_ms)
            self.close()

    def _extension(self) -> TypedExtension | None:
        """Return the extension of the open card by its present deadline, which the title shows."""
        now = self.as_it_waits
        if now is None or now.request.deadline_ms is None:
            self.notice = NOT_WAITING if now is None else "this request has no deadline"
            return None
        return TypedExtension(now.session, now.request.request_id, format_time(now.request.deadline_ms))

    def _type_filter(self, key: str) -> None:
        if key in ("enter", "escape"):
            self.is_filtering = False
        if key != "enter":
            self._rearrange(self.all_waiting, "" if key == "escape" else _typed(self.filter, key))

    def _type(self, key: str) -> list[TypedAnswer] | None:
        assert self.words is not None
        if key == "escape":
            self.words = None
        elif key == "enter":
            return self._rejections(self.words.strip() or None)
        else:
            self.words = _typed(self.words, key)
        return None

    def _rejections(self, message: str | None) -> list[TypedAnswer] | None:
        self.words = None
        if self.open is None:
            ones = self._chosen_ones()
            self.selected.clear()
            return [_answer_to(one, "reject", message) for one in ones]
        if self.is_waiting:
            return [_answer_to(self.open, "reject", message)]
        self.notice = NOT_WAITING
        return None


def _typed(text: str, key: str) -> str:
    if key == "backspace":
        return text[:-1]
    return (text + key)[:WORDS_MAX] if len(key) == 1 and key.isprintable() else text


def _answer_to(
    one: Pending, reply: ReplyKind, message: str | None = None, patterns: tuple[str, ...] | None = None
) -> TypedAnswer:
    return TypedAnswer(one.session, one.request.request_id, digest_of(one), reply, message, patterns)


def _named(answers: Sequence[TypedAnswer]) -> str:
    return answers[0].request_id if len(answers) == 1 else f"{len(answers)} requests"


def id_of(one: Pending) -> RequestKey:
    return one.session, one.request.request_id


def digest_of(one: Pending) -> str:
    return shown_digest(one.request)


def wrapped(line: str, width: int) -> list[str]:
    """Return a line in parts that fit, broken behind a blank where there is one; every character is on one of them.

    A character that is not ASCII counts as two columns, the most that a terminal takes, so that none is cut off.
    """
    parts = []
    while len(line) > (cut := _fitting(line, width)):
        blank = line.rfind(" ", 0, cut) + 1
        # Not behind the blanks that a line begins with.
        end = blank if line[:blank].strip() else cut
        parts.append(line[:end])
        line = line[end:]
    return [*parts, line]


def _fitting(line: str, width: int) -> int:
    """Return how many characters fit, at least one."""
    room = width
    for number, character in enumerate(line):
        room -= 1 if character.isascii() else 2
        if room < 0:
            return max(number, 1)
    return len(line)


FRAME_LINES: Final = 4
"""Lines around the list or the card: title, rule, notice, keys."""

CALL_CHARS_MIN: Final = 41
"""Columns for the call in a row, a cut one with its `…`; who asks and the dangers get what is left."""

EFFECT_CHARS: Final = max(len(word) for word, _ in SHORT_EFFECTS.values()) + 2

ALL_KEYS: Final = (
    ("j k", "down and up (arrows too)"),
    ("enter", "open a request"),
    ("space", "select a request; on a card: the next screen"),
    ("/", "filter by words of the request, its folder, session and asker"),
    ("o", "allow once: the card, or what is selected and was read"),
    ("s", "allow in this session, where something can be remembered"),
    ("a", "always allow, where something can be remembered"),
    ("r", "reject, with or without instructions: the card, or what is selected"),
    ("+", "five minutes more for a card that has a deadline"),
    ("w", "why it asks, and the smallest grant"),
    ("u", f"undo an allow, within {HOLD_S:g} s"),
    ("esc", "back; on the list: no filter and no selection, then quit"),
    ("q", "quit; what is held back then is not sent"),
)


def screen(state: WatchedScreen, width: int, height: int, now_ms: int) -> Group:
    """Return what to draw on a screen of this size."""
    room = max(height - FRAME_LINES, 0)
    if state.shows_keys:
        body = [Text(f"  {key.ljust(7)}{what}") for key, what in ALL_KEYS][:room]
    else:
        body = _list(state, width, room, now_ms) if state.open is None else _card(state, width, room)
    blank = [Text("")] * (room - len(body))
    keys = "any key: back" if state.shows_keys else _foot(state.keys_now(), width)
    return Group(
        Text(_title(state, now_ms), style="bold", no_wrap=True),
        Text("─" * width),
        *body,
        *blank,
        Text(_notice(state), style="yellow", no_wrap=True),
        Text(keys, style="dim", no_wrap=True),
    )


def _foot(keys: Sequence[tuple[str, str]], width: int) -> str:
    """Return the line of keys; where it is too long, those go that `?` has and a person can do without."""
    shown = dict(keys)
    for spare in ("w", EXTEND_KEY, "j k", "esc", "space"):
        if len("  ".join(map(" ".join, shown.items()))) > width:
            shown.pop(spare, None)
    return "  ".join(map(" ".join, shown.items()))


def _title(state: WatchedScreen, now_ms: int) -> str:
    if state.shows_keys:
        return "keys"
    if state.open is not None:
        now = state.as_it_waits
        if now is None or not state.is_waiting:
            return "does not wait any more"
        return time_left(now.request.deadline_ms, now_ms, " left")
    shown, count = len(state.waiting), len(state.all_waiting)
    found = f"{shown} of {count} waiting, with `{visible(state.filter)}`" if state.filter else f"{count} waiting"
    return f"{found}, {len(state.selected)} selected" if state.selected else found


def _notice(state: WatchedScreen) -> str:
    if state.is_filtering:
        return f"filter: {visible(state.filter)}▏"
    if state.words is not None:
        return f"instructions for the agent: {visible(state.words)}▏"
    if state.open is not None and not state.notice and not state.is_read and state.why is None:
        return "more of the card below: space"
    return state.notice


def _list(state: WatchedScreen, width: int, room: int, now_ms: int) -> list[Text]:
    waiting, held = state.waiting, state.held_ids
    first = max(0, min(state.chosen - room // 2, len(waiting) - room))
    return [
        _row(
            one,
            width,
            now_ms,
            mark=f"{'>' if number == state.chosen else ' '}{'*' if id_of(one) in state.selected else ' '}",
            held=held.get(id_of(one)),
            style="reverse" if number == state.chosen else "",
        )
        for number, one in enumerate(waiting[first : first + room], first)
    ]


def _row(one: Pending, width: int, now_ms: int, *, mark: str, held: ReplyKind | None, style: str) -> Text:
    """Return one line: time left, what would run (at least 40 characters of it), its dangers, and who asks."""
    request = one.request
    left = f"({held})" if held else time_left(request.deadline_ms, now_ms)
    effect, colour = SHORT_EFFECTS[counted_effect(request.evaluation)]
    head = f"{mark} {left.rjust(5)}  "
    dangers = danger_kinds(describe_request(request))
    tail = "  ".join((*([f"! {dangers}"] if dangers else []), visible(f"({who_asks(request)}, {one.session})")))
    line = visible(call_in_line(request))
    room = width - len(head) - EFFECT_CHARS
    shown = _cut(line, max(room - len(tail) - 2, room * 2 // 3, min(CALL_CHARS_MIN, room)))
    row = Text(head, style=style, no_wrap=True)
    row.append(effect.ljust(EFFECT_CHARS), style=colour)
    return row.append(f"{shown}  {_cut(tail, max(room - len(shown) - 2, 0))}"[:room])


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else f"{text[: max(chars - 1, 0)]}…"[:chars]


def _card(state: WatchedScreen, width: int, room: int) -> list[Text]:
    if room == 0:
        return []  # what is not drawn does not count as seen
    return [Text(visible(line), no_wrap=True) for line in state.drawn(width, room)]

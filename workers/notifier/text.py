"""The text of a message: the call, its place, who asks, the time left, and at the end a link to answer. Pure.

Nearly every word in it is an agent's. So each of its texts is one quoted line, neutral and bounded, and no line of ours
holds any of it; the links stand at the end, with nothing of an agent's below them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ledger.client.results import result_of
from ledger.session.approvals import approvals_of
from ledger.session.state import Request, SessionState
from ledger.session.would_run.description import Description, Section, describe_request
from ledger.session.would_run.members import one_line, tool_in_words
from workers.notifier.formats import MessageLine, OutgoingMessage
from workers.notifier.neutral import has_broken_addresses, neutral
from workers.notifier.plan import Correction, Reminder
from workers.presentation.dangers import danger_kinds
from workers.presentation.hidden_characters import named_characters
from workers.presentation.labels import (
    APPROVED,
    ASKED_BY,
    CALLS_ITSELF,
    DANGER,
    FOLDER,
    WAITS_FOR,
    sentence,
)
from workers.presentation.outcomes import outcome_words
from workers.presentation.words import about, time_left

BODY_CHARS_MAX: Final = 3500
"""The length that the smallest of the usual services shows whole, with room for its own words."""

WHAT_CHARS_MAX: Final = 1500
"""The characters of one request in a message."""

LINE_CHARS_MAX: Final = 700
NAME_CHARS_MAX: Final = 80
FOLDER_CHARS_MAX: Final = 300

BROKEN: Final = "Addresses above are broken up with [ ]: none of them is a link of ours."
LOOK: Final = "look at all of it before you answer"

_TOLD_BESIDE: Final = frozenset({"folder", "asker", "agent", "tool", "permission", "offered"})
_PLAIN: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,30}(?:: [A-Za-z][A-Za-z0-9_-]{0,30})?")
_BLANK: Final = MessageLine("blank")

LinkOf = Callable[[Reminder], str | None]


def reminder_message(reminders: Sequence[Reminder], link_of: LinkOf, inbox: str | None, now_ms: int) -> OutgoingMessage:
    """Return one message for all of them, the links last; requests that do not fit are counted."""
    still = "still " if all(one.step for one in reminders) else ""
    parts = [(_asked(one, now_ms), link_of(one)) for one in reminders]
    kept = _that_fit([sum(len(line.text) + 3 for line in lines) + len(link or "") for lines, link in parts])
    several = len(parts) > 1
    lines: list[MessageLine] = []
    for number, (told, _) in enumerate(parts[:kept], 1):
        lines += [*([MessageLine("ours", f"Request {number}:")] if several else []), *told, _BLANK]
    if any(line.kind == "quoted" and has_broken_addresses(line.text) for line in lines):
        lines.append(MessageLine("ours", BROKEN))
    for number, (_, link) in enumerate(parts[:kept], 1):
        if link is not None:
            lines += [
                MessageLine("ours", f"Answer request {number}:" if several else "Answer:"),
                MessageLine("link", link),
            ]
    if kept < len(parts):
        lines.append(MessageLine("ours", f"… and {len(parts) - kept} more" + (":" if inbox else "")))
        lines += [MessageLine("link", inbox)] if inbox else []
    title = f"{len(parts)} requests {still}wait for your answer" if several else _title(reminders[0].request, still)
    return OutgoingMessage(title, _without_blank_end(lines))


def correction_message(corrections: Sequence[Correction], person: str) -> OutgoingMessage:
    """Return the message that requests need no answer any more, and why."""
    parts = [_ended(one, person) for one in corrections]
    kept = _that_fit([sum(len(line.text) + 3 for line in lines) for lines in parts])
    lines = [line for part in parts[:kept] for line in (*part, _BLANK)]
    if kept < len(parts):
        lines.append(MessageLine("ours", f"… and {len(parts) - kept} more"))
    title = parts[0][0].text if len(parts) == 1 else f"{len(parts)} requests were settled"
    return OutgoingMessage(title, _without_blank_end(lines))


def _title(request: Request, still: str) -> str:
    """Return a title, with the tool only if it is plain words: some services render titles like bodies."""
    name = tool_in_words(request.tool_name or request.permission)
    return f"{name if _PLAIN.fullmatch(name) else 'A request'} {still}waits for your answer"


def _asked(reminder: Reminder, now_ms: int) -> list[MessageLine]:
    state, request = reminder.state, reminder.request
    found = describe_request(request)
    left = time_left(request.deadline_ms, now_ms, " left")
    ago = about(max(now_ms - request.asked_ms, 0))
    return [
        *_what(found, request),
        *_where(state, request),
        *_warnings(found),
        *_approvals(request),
        MessageLine(
            "ours", f"{sentence(ASKED_BY)} the token `{neutral(request.asker.name, NAME_CHARS_MAX)}` {ago} ago, {left}"
        ),
    ]


def _ended(correction: Correction, person: str) -> list[MessageLine]:
    state, request = correction.state, correction.settled.request
    said = neutral(outcome_words(result_of(state, request.request_id), person), LINE_CHARS_MAX)
    return [MessageLine("ours", said), *_what(describe_request(request), request)]


def _what(found: Description, request: Request) -> Iterator[MessageLine]:
    """Yield the tool and each part of its input, in order, until the room is used up."""
    yield MessageLine("quoted", neutral(tool_in_words(request.tool_name or request.permission), NAME_CHARS_MAX))
    parts = [one for one in found.sections if not one.repeats and _is_told(one)]
    room_chars = WHAT_CHARS_MAX
    for index, part in enumerate(parts):
        if room_chars <= 0:
            left = parts[index:]
            chars = sum(one.chars for one in left)
            yield MessageLine("ours", f"… {len(left)} more parts, {chars} more characters: {LOOK}")
            return
        line = neutral(one_line(f"{part.label}: {part.text}"), min(LINE_CHARS_MAX, room_chars))
        room_chars -= len(line)
        yield MessageLine("quoted", line)


def _is_told(part: Section) -> bool:
    return part.kind not in _TOLD_BESIDE and (part.origin != "metadata" or part.kind != "rest")


def _where(state: SessionState, request: Request) -> Iterator[MessageLine]:
    if request.cwd:
        yield MessageLine("quoted", f"{FOLDER}: {neutral(one_line(request.cwd), FOLDER_CHARS_MAX)}")
    place = " / ".join(one for one in (state.project, state.session_id) if one)
    yield MessageLine("quoted", f"in {neutral(place, 2 * NAME_CHARS_MAX)}")
    agent = request.agent or state.agent
    if agent:
        yield MessageLine("quoted", f"{CALLS_ITSELF}: {neutral(agent, NAME_CHARS_MAX)}")


def _approvals(request: Request) -> Iterator[MessageLine]:
    approvals = approvals_of(request)
    if approvals is None:
        return
    yield MessageLine("ours", f"{approvals.needed} people must approve it; {WAITS_FOR} {approvals.more_people}")
    for one in approvals.given:
        yield MessageLine("quoted", f"{APPROVED} by {neutral(one.by.name, NAME_CHARS_MAX)}")


def _warnings(found: Description) -> Iterator[MessageLine]:
    dangers = danger_kinds(found)
    if dangers:
        yield MessageLine("ours", f"{sentence(DANGER)}: {dangers}")
    if found.odd:
        named = named_characters(found)
        yield MessageLine("ours", f"Look closely, characters are invisible or look like others: {named}")


def _that_fit(sizes: Sequence[int]) -> int:
    """Return the number of parts that fit; at least one."""
    used = 0
    for index, size in enumerate(sizes):
        used += size
        if index and used > BODY_CHARS_MAX:
            return index
    return len(sizes)


def _without_blank_end(lines: Sequence[MessageLine]) -> tuple[MessageLine, ...]:
    return tuple(lines[:-1] if lines and lines[-1] == _BLANK else lines)

"""What a message says: what would run, where, who asks, how long is left, and a link to answer. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ledger.results import result_of
from ledger.session.state import Request
from ledger.would_run import would_run
from workers.cli.text import visible
from workers.cli.wording import about
from workers.gateway.answers.page import headline
from workers.notifier.delivering import Message
from workers.notifier.planning import Correction, Reminder

BODY_CHARS_MAX: Final = 3500
"""What the smallest of the usual services shows whole, with room for its own words."""

WHAT_CHARS_MAX: Final = 1500
FOLDER_CHARS_MAX: Final = 300

LinkOf = Callable[[Reminder], str | None]


def reminder_message(reminders: Sequence[Reminder], link_of: LinkOf, inbox: str | None, now_ms: int) -> Message:
    """One message for all of them; those for which there is no room are counted."""
    still = "still " if all(one.step for one in reminders) else ""
    first = reminders[0]
    title = (
        f"{visible(first.request.tool_name or first.request.permission)} {still}waits for your answer"
        if len(reminders) == 1
        else f"{len(reminders)} requests {still}wait for your answer"
    )
    return Message(title, _joined([_asked(one, link_of(one), now_ms) for one in reminders], inbox))


def correction_message(corrections: Sequence[Correction], person: str) -> Message:
    """That nothing has to be answered any more, and why."""
    bodies = [_ended(one, person) for one in corrections]
    title = bodies[0].partition("\n")[0] if len(bodies) == 1 else f"{len(bodies)} requests were settled"
    return Message(title, _joined(bodies, None))


def _asked(reminder: Reminder, link: str | None, now_ms: int) -> str:
    state, request = reminder.state, reminder.request
    agent = request.agent or state.agent
    who = visible(request.asker.name) + (f" ({visible(agent)})" if agent else "")
    where = " / ".join(visible(one) for one in (state.project, state.session_id) if one)
    folder = f", folder {_cut(visible(request.cwd))}" if request.cwd else ""
    left = "no deadline" if request.deadline_ms is None else f"{about(max(request.deadline_ms - now_ms, 0))} left"
    lines = [
        _what(request),
        f"in {where}{folder}, asked by {who} {about(max(now_ms - request.asked_ms, 0))} ago, {left}",
    ]
    return "\n".join([*lines, *([link] if link else [])])


def _ended(correction: Correction, person: str) -> str:
    state, request = correction.state, correction.settled.request
    return f"{headline(result_of(state, request.request_id), person)}\n{_what(request)}"


def _cut(folder: str) -> str:
    return folder if len(folder) <= FOLDER_CHARS_MAX else f"{folder[:FOLDER_CHARS_MAX]}…"


def _what(request: Request) -> str:
    what = would_run(request)
    judged = ["judged as:", *what.judged_as] if what.judged_as else []
    text = f"{visible(request.permission)}: " + "\n".join(visible(one) for one in (*what.texts, *judged))
    if len(text) <= WHAT_CHARS_MAX:
        return text
    return (
        f"{text[:WHAT_CHARS_MAX]}\n… {len(text) - WHAT_CHARS_MAX} more characters: look at all of it before you answer"
    )


def _joined(parts: Sequence[str], inbox: str | None) -> str:
    """As many as there is room for; the first one always."""
    kept = [parts[0]]
    for part in parts[1:]:
        if sum(len(one) + 2 for one in kept) + len(part) > BODY_CHARS_MAX:
            break
        kept.append(part)
    left = len(parts) - len(kept)
    more = [f"… and {left} more" + (f": {inbox}" if inbox else "")] if left else []
    return "\n\n".join([*kept, *more])

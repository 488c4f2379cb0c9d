"""The result of the demo, from the log: the timeline as a table, and differences from the script."""

from __future__ import annotations

from collections import Counter
from typing import Final

from ledger.core.times import format_time
from ledger.session.state import SessionState, Settled
from ledger.session.texts import answerer
from ledger.session.would_run import would_run
from workers.demo.script import ENDINGS, ExpectedOutcome
from workers.presentation.text import fitted, revealed

COLUMNS: Final = ("versions", "call", "outcome", "decided by", "asked", "after")

BESIDES_CHARS: Final = 83
"""The width of the columns besides the call; a narrow screen omits the last two of them."""

LAST_TWO_CHARS: Final = 29
NARROW_CHARS: Final = 120
CALL_CHARS_MAX: Final = 60


def timeline(state: SessionState, width: int) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the columns and a row for each request, in order of asking, for a screen of `width` characters."""
    narrow = width < NARROW_CHARS
    call_chars = min(width - BESIDES_CHARS + (LAST_TWO_CHARS if narrow else 0), CALL_CHARS_MAX)
    rows = [_row(settled, call_chars) for settled in _in_order(state)]
    return (COLUMNS[:-2], [row[:-2] for row in rows]) if narrow else (COLUMNS, rows)


def _in_order(state: SessionState) -> list[Settled]:
    return sorted(state.settled.values(), key=lambda settled: settled.request.version)


def _row(settled: Settled, call_chars: int) -> tuple[str, ...]:
    request = settled.request
    at_once = settled.version == request.version
    call = would_run(request).as_call(request.permission, None)
    return (
        str(request.version) if at_once else f"{request.version} → {settled.version}",
        fitted(revealed(call), call_chars),
        settled.outcome,
        _decided_by(settled),
        format_time(request.asked_ms)[11:-1],
        "at once" if at_once else f"{(settled.at_ms - request.asked_ms) / 1000:.2f} s",
    )


def summary(state: SessionState) -> str:
    """Return the number of requests, and their outcomes."""
    outcomes = Counter(settled.outcome for settled in _in_order(state))
    ended = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    return f"{sum(outcomes.values())} requests: {ended}"


def _decided_by(settled: Settled) -> str:
    if settled.outcome == "expired":
        return "time"
    if settled.reply is None:
        return "a grant" if settled.request.grants else "a rule"
    cascade = ", cascade" if settled.cause is not None else ""
    return f"{answerer(settled.by.name, settled.told)} ({settled.reply}{cascade})"


def not_as_told(state: SessionState) -> list[str]:
    """Return every difference from the script; empty if there is none."""
    happened = {request_id: _ending(settled) for request_id, settled in state.settled.items()}
    different = [
        f"{request_id}: {_say(happened.get(request_id))} instead of {_say(ending)}"
        for request_id, ending in ENDINGS.items()
        if happened.get(request_id) != ending
    ]
    unexpected = [
        f"{request_id}: asked, which was not to happen" for request_id in happened if request_id not in ENDINGS
    ]
    waiting = [f"{request_id}: still pending" for request_id in state.pending]
    still_open = [] if state.closed_ms is not None else ["the session was not closed"]
    return [*different, *unexpected, *waiting, *still_open]


def _ending(settled: Settled) -> ExpectedOutcome:
    return ExpectedOutcome(settled.outcome, settled.reply, settled.cause.kind if settled.cause else None)


def _say(ending: ExpectedOutcome | None) -> str:
    return " ".join(filter(None, ending)) if ending else "not asked"

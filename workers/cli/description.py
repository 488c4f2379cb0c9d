"""The whole description of a request in lines, for a person at a terminal or a telephone. Pure.

Every misleading character is written as its escape, and named below; no line of the agent's can pass for one of ours,
since its own lines are indented under their labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ledger.core.operands import named_in
from ledger.core.times import format_time
from ledger.policy import RuleRef
from ledger.session.approvals import approvals_of, demanded, offered
from ledger.session.state import Request
from ledger.session.would_run import quoted, would_run
from workers.cli.output import CommandOutput
from workers.presentation.labels import (
    APPROVED,
    ASKED_BECAUSE,
    CALLS_ITSELF,
    DANGERS,
    DEMANDED,
    NO_DEADLINE,
    ONLY_ONCE,
    PENDING_AGAIN,
    STILL_ASKS,
    SUGGESTED,
    TIME_LEFT,
    WAITS_FOR,
    WOULD_ALLOW,
    effect_words,
    sentence,
)
from workers.presentation.text import revealed, visible
from workers.presentation.words import listed, result_lines, rule_text

if TYPE_CHECKING:
    from ledger import Pending, Result
    from ledger.session.would_run.description import Description, Section
    from ledger.session.would_run.odd_characters import OddCharacter

CELL_CHARS: Final = 2_000
"""The length of a description in a table; `show` has all of it."""

NAMED_COUNT: Final = 8
"""The number of odd characters named below a description; the others are counted."""

_INDENT: Final = "    "
_OF: Final = {"metadata": "metadata "}


def description_lines(request: Request) -> list[str]:
    """Return the whole description: dangers, then each section under its label, then the odd characters."""
    from ledger.session.would_run.description import describe_request  # noqa: PLC0415 - it reads shell lines

    description = describe_request(request)
    dangers = [
        f"! {DANGERS[one.kind]}: {revealed(one.says)}" + (f", in `{revealed(one.part)}`" if one.part else "")
        for one in description.dangers
    ]
    return [*dangers, *_section_lines(description), *_remembered_lines(request), *odd_lines(description)]


def _remembered_lines(request: Request) -> Iterator[str]:
    """Yield what can be remembered, as `reply` and `watch` remember it, and a suggestion that would change nothing."""
    found = offered(request)
    if found is None and approvals_of(request) is None:
        yield ONLY_ONCE
    if found is not None:
        much = " (much more than this call)" if found.wide else ""
        yield f"{WOULD_ALLOW}{much}: {revealed(listed(found.entries))}"
    entries = () if found is None else found.entries
    if set(entries) != set(request.always):
        yield f"{SUGGESTED}: {revealed(listed(request.always))}"
    still = found.still_asked if found is not None and entries != request.always else request.still_asked
    if still:
        yield f"{STILL_ASKS}: {revealed('; '.join(still))}"


def odd_lines(description: Description) -> list[str]:
    """Return the meaning of the escapes in the lines above."""
    if not description.odd:
        return []
    more = len(description.odd) - NAMED_COUNT + description.odd_left
    named = [f"  {visible(_named(one))}" for one in description.odd[:NAMED_COUNT]]
    return [
        "look closely: characters that are not what they seem",
        *named,
        *([f"  and {more} more"] if more > 0 else []),
    ]


def call_in_line(request: Request) -> str:
    """Return the permission and the description for a row; a longer one is cut, with its length and the way to all of it."""
    return _cut(revealed(would_run(request).as_call(request.permission, None)) + _files(request))


def _cut(text: str) -> str:
    if len(text) <= CELL_CHARS:
        return text
    return f"{text[:CELL_CHARS]}… ({len(text) - CELL_CHARS} more characters: `permission-ledger show` has them)"


def _files(request: Request) -> str:
    names = [named_in(one.path, request.cwd) for one in request.operands or ()]
    return f" (runs {quoted(map(revealed, names))})" if names else ""


def who_asks(request: Request) -> str:
    """Return the asking token's name, and separately the name that the agent claims."""
    return request.asker.name + (f" ({CALLS_ITSELF} `{revealed(request.agent)}`)" if request.agent else "")


def _named(one: OddCharacter) -> str:
    like = f", looks like `{one.like}`" if one.like else ""
    return f"{one.code} {one.name} ({one.kind}{like})"


def _section_lines(description: Description) -> Iterator[str]:
    for section in description.sections:
        if not section.repeats and section.kind != "offered":
            lines = section.rows or tuple(section.text.split("\n"))
            label = f"{_OF.get(section.origin, '')}{revealed(section.label)}"
            if len(lines) == 1:
                yield f"{label}: {revealed(lines[0])}"
            else:
                yield f"{label}: {_size(section)}"
                for row in lines:
                    # The line break at the end of a command's row is shown by the next row; others stay lines.
                    yield from (f"{_INDENT}{revealed(line)}" for line in row.removesuffix("\n").split("\n"))


def _size(section: Section) -> str:
    return f"{section.lines} lines, {section.chars} characters" if section.lines > 1 else f"{section.chars} characters"


def card_lines(one: Pending) -> list[str]:
    """Return the whole card; every misleading character of the agent's is written as its escape."""
    request = one.request
    lines = [f"request {request.request_id} of session {one.session}: {revealed(request.permission)}"]
    effect = sentence(effect_words(request.evaluation))
    return [*lines, *(f"  {line}" for line in (effect, *description_lines(request), *_facts(request)))]


def _facts(request: Request) -> Iterator[str]:
    yield from (f"{ASKED_BECAUSE} {reason}" for reason in _reasons(request))
    yield from (f"{DEMANDED}: {revealed(one)}" for one in demanded(request))
    approvals = approvals_of(request)
    if approvals is not None and approvals.given:
        given = ", ".join(f"{revealed(one.by.name)} at {format_time(one.at_ms)}" for one in approvals.given)
        yield f"{APPROVED}: by {given}; {WAITS_FOR} {revealed(approvals.waits_for)}"
    deadline = request.deadline_ms
    until = NO_DEADLINE if deadline is None else f"until {format_time(deadline)} ({request.tier})"
    yield f"asked at: {format_time(request.asked_ms)}"
    yield f"{TIME_LEFT}: {until}"
    if request.round > 1:
        yield f"{PENDING_AGAIN}: {revealed(request.reopened_reason or '-')} (round {request.round})"


def _reasons(request: Request) -> list[str]:
    evaluation = request.evaluation
    if evaluation is None:
        return []
    rules: tuple[RuleRef, ...] = tuple(evaluation.rules)
    return [*map(rule_text, rules), *([evaluation.reason] if evaluation.reason else [])]


def print_result(output: CommandOutput, result: Result) -> None:
    """Print CONTRACT's object of a result, or its lines for a person."""
    output.result(result.as_json(), *result_lines(result))

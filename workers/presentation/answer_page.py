"""The page behind an answer link: the whole request, and buttons. No script, no external resources."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import unified_diff
from hashlib import sha256
from html import escape
from importlib.resources import files
from typing import Any, Final

import msgspec

from ledger.client.results import Result
from ledger.core.characters import code_of, name_of, person_key
from ledger.core.policy import Evaluation, ReplyKind, Verdict
from ledger.core.times import SECOND_MS
from ledger.policy.demands import asks_passkey
from ledger.policy.shell.facts import DangerKind
from ledger.session.approvals import agreement_of, approvals_of, demanded, listed
from ledger.session.state import Request, SessionState
from ledger.session.would_run.description import LONG_CHARS, LONG_LINES, Description, Section, describe_request
from ledger.session.would_run.odd_characters import Mark, marks_of
from workers.presentation.labels import (
    ANSWERS,
    APPROVED,
    ASKED_BY,
    CALLS_ITSELF,
    DANGERS,
    DEMANDED,
    FOLDER,
    PENDING_AGAIN,
    STILL_ASKS,
    TIME_LEFT,
    WAITS_FOR,
    WHY,
    approve_label,
    effect_words,
    sentence,
)
from workers.presentation.text import visible
from workers.presentation.words import about, outcome_words, time_left

NAMED_COUNT: Final = 4
"""Characters that a warning names; the others are counted."""


def text(value: str, marks: Iterable[Mark] | None = None) -> str:
    """Return a text as HTML, on one line, with deceptive characters in `<mark>`."""
    return _made_visible(value, marks, kept="")


def lines(value: str, marks: Iterable[Mark] | None = None) -> str:
    """Return a text as HTML that keeps line breaks and tabs."""
    return _made_visible(value, marks, kept="\n\t")


def named_characters(description: Description) -> str:
    """Return the deceptive characters of a request by number and name, or an empty text."""
    named = ", ".join(
        f"{one.code} {one.name}" + (f" (not {one.like})" if one.like else "") for one in description.odd[:NAMED_COUNT]
    )
    left = len(description.odd) - NAMED_COUNT + description.odd_left
    return named + (f" and {left} more" if left > 0 else "")


def warning(description: Description) -> str:
    """Return a paragraph on the deceptive characters of a request, or an empty text."""
    if not description.odd:
        return ""
    return (
        '<p class="odd"><b>Look closely.</b> It contains characters that are invisible or look like others: '
        f"{escape(named_characters(description))}.</p>"
    )


def _made_visible(value: str, marks: Iterable[Mark] | None, kept: str) -> str:
    if value.isascii() and value.isprintable():
        return escape(value)
    kinds = {at: one.kind for one in (marks_of(value) if marks is None else marks) for at in range(one.start, one.end)}
    return "".join(one if one in kept else _character(one, kinds.get(index)) for index, one in enumerate(value))


def _character(one: str, kind: str | None) -> str:
    shown = visible(one)
    is_numbered = kind in ("combining", "crowded") and not one.isascii()
    if shown != one or is_numbered or (kind is not None and not one.isascii()):
        written = f"⟨{code_of(one)}⟩" if is_numbered and shown == one else shown
        return f'<mark title="{escape(f"{code_of(one)} {name_of(one)}")}">{escape(written)}</mark>'
    return escape(one)


OPEN_LINES: Final = 60
"""Lines of a request before the fold; further lines stand behind it."""

OPEN_CHARS: Final = 6_000

DIFF_LINES_MAX: Final = 2000
"""Limit of a comparison in lines; longer texts are shown before and after, because comparing takes time."""

BRIEF_CHARS: Final = 60

_ELSEWHERE: Final = frozenset({"tool", "permission", "asker", "agent", "folder", "offered"})
"""Sections that are shown in the heading, the facts and the buttons."""

_CHANGES: Final = {"before": "-", "after": "+", "content": "+"}


class Shown(msgspec.Struct, frozen=True):
    """The open part and the folded part of a page; `folded_lines` counts the lines of the folded part."""

    at_once: str
    folded: str = ""
    folded_lines: int = 0


def what_runs(request: Request) -> Shown:
    """Return all of a request as HTML: its dangers, its deceptive characters, and every section."""
    description = describe_request(request)
    sections = [one for one in description.sections if not _is_elsewhere(one, request)]
    count = _fitting(sections)
    head = _effect(request.evaluation) + _dangers(description) + warning(description)
    at_once, rest = sections[:count], sections[count:]
    if not rest:
        return Shown(head + _drawn(at_once))
    preview = _preview(rest[0])
    return Shown(head + _drawn(at_once) + preview, _drawn(rest), sum(one.lines for one in rest))


def block(value: str, marks: Iterable[Mark] | None = None) -> str:
    """Return a text as HTML that keeps line breaks."""
    return f"<pre>{lines(value, marks)}</pre>"


def is_question(request: Request) -> bool:
    """Return whether a person is to choose an option, instead of approving a call."""
    asked = request.input.get("questions") if isinstance(request.input, Mapping) else None
    return request.tool_name is not None and isinstance(asked, list) and bool(asked)


def is_plan(request: Request) -> bool:
    """Return whether it is a plan to start, which is never approved beyond this once."""
    return isinstance(request.input, Mapping) and isinstance(request.input.get("plan"), str)


def _is_elsewhere(section: Section, request: Request) -> bool:
    is_name = section.kind == "pattern" and section.text in (request.permission, request.tool_name)
    return section.repeats or section.kind in _ELSEWHERE or is_name


def _fitting(sections: list[Section]) -> int:
    """Return the number of sections before the fold; the two texts of one change stay together."""
    line_count = char_count = 0
    for index, one in enumerate(sections):
        line_count += max(one.lines, len(one.rows))
        char_count += one.chars
        if line_count > OPEN_LINES or char_count > OPEN_CHARS:
            return index - 1 if _is_pair(sections, index - 1) else index
    return len(sections)


def _preview(section: Section) -> str:
    beginning = "\n".join(section.text.split("\n")[:LONG_LINES])[:LONG_CHARS]
    cut = lines(beginning, section.marks)
    return f'<p><b>{text(section.label, section.label_marks)}</b> begins with</p><pre class="begins">{cut} …</pre>'


def _drawn(sections: list[Section]) -> str:
    return "".join(_pieces(sections))


def _pieces(sections: list[Section]) -> Iterator[str]:
    index = 0
    while index < len(sections):
        if _is_pair(sections, index):
            yield _change(sections[index], sections[index + 1])
            index += 2
        else:
            yield _section(sections[index])
            index += 1


def _is_pair(sections: list[Section], index: int) -> bool:
    """Return whether this text is removed and the next one replaces it."""
    if index < 0 or index + 1 >= len(sections):
        return False
    before, after = sections[index], sections[index + 1]
    stems = {one.label.rpartition(".")[0] for one in (before, after)}
    return (before.kind, after.kind) == ("before", "after") and len(stems) == 1


def _section(section: Section) -> str:
    match section.kind:
        case "remark":
            return f"<p><i>“{lines(section.text, section.marks)}”</i></p>"
        case "command":
            return _label(section, unless="command") + _rows(section)
        case "pattern" if section.origin == "patterns":
            return block(section.text, section.marks)
        case "question" | "plan":
            return f'<div class="prose">{lines(section.text, section.marks)}</div>'
        case "option":
            return f'<p class="option">{_name(section)} {lines(section.text, section.marks)}</p>'
        case "before" | "after" | "content":
            sign = _CHANGES[section.kind]
            return _label(section) + _difference([f"{sign}{line}" for line in section.text.split("\n")], section)
        case "patch":
            return _label(section) + _difference(section.text.split("\n"), section)
        case _:
            return _member(section)


def _rows(section: Section) -> str:
    """Return a command as HTML, one of its parts a line."""
    if len(section.rows) < 2:
        return block(section.text, section.marks)
    start, drawn = 0, []
    for row in section.rows:
        inside = [
            Mark(one.start - start, one.end - start, one.kind)
            for one in section.marks
            if one.start < start + len(row) and one.end > start
        ]
        drawn.append(f'<span class="row">{lines(row, inside)}</span>')
        start += len(row)
    return f"<pre>{''.join(drawn)}</pre>"


def _member(section: Section) -> str:
    if len(section.text) <= BRIEF_CHARS and "\n" not in section.text:
        return f"<p>{_name(section)} <code>{text(section.text, section.marks)}</code></p>"
    return _label(section) + block(section.text, section.marks)


def _label(section: Section, *, unless: str | None = None) -> str:
    return "" if section.label == unless else f"<p>{_name(section)}</p>"


def _name(section: Section) -> str:
    of = "<small>metadata</small> " if section.origin == "metadata" else ""
    return f"{of}<b>{text(section.label, section.label_marks)}</b>"


def _change(before: Section, after: Section) -> str:
    old, new = before.text.split("\n"), after.text.split("\n")
    label = f"<p>{_name(before)} → {_name(after)}</p>"
    if len(old) + len(new) > DIFF_LINES_MAX:
        return label + block(before.text, before.marks) + block(after.text, after.marks)
    # Include all lines of both texts: unchanged lines are as much a part of the request as changed ones.
    changed = list(unified_diff(old, new, lineterm="", n=len(old) + len(new)))[3:]
    return label + _difference(changed or [f" {line}" for line in old], before, after)


def _difference(changed: list[str], *sections: Section) -> str:
    kinds = {"+": "came", "-": "gone"}
    odd = {letter: mark.kind for one in sections for mark in one.marks for letter in one.text[mark.start : mark.end]}
    rows = (
        f'<span class="{kinds.get(line[:1], "same")}">{lines(line, _marks_of(line, odd))}</span>' for line in changed
    )
    return f'<pre class="diff">{"".join(rows)}</pre>'


def _marks_of(line: str, odd: Mapping[str, Any]) -> list[Mark]:
    """Return the marks of one line, from those of the whole text."""
    return [Mark(at, at + 1, odd[letter]) for at, letter in enumerate(line) if letter in odd] if odd else []


def _effect(evaluation: Evaluation | None) -> str:
    """Return how far the call can be taken back; nothing for one that rules decided, of which it is not recorded."""
    is_asked = evaluation is not None and evaluation.verdict is Verdict.ASK
    return f"<p><b>{sentence(effect_words(evaluation))}</b></p>" if is_asked else ""


def _dangers(description: Description) -> str:
    found: dict[DangerKind, list[str]] = {}
    for one in description.dangers:
        found.setdefault(one.kind, []).append(text(one.says))
    rows = "".join(f"<li><b>{DANGERS[kind]}</b> {'; '.join(says)}</li>" for kind, says in found.items())
    return f'<ul class="dangers">{rows}</ul>' if rows else ""


STYLE: Final = files(__package__).joinpath("answer_page.css").read_text("utf-8")

INBOX_LINK: Final = '<p><a href="/">Open the inbox</a></p>'

NEXT_LINK: Final = '<p><a href="/next">Next waiting request</a></p>'
"""A link into the inbox, where the person's own sign-in counts; the answer link gives no right to see another request."""

_STYLE_HASH: Final = b64encode(sha256(STYLE.encode()).digest()).decode()

HEADERS: Final = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    ),
    # The address is the right to answer: keep it out of caches, frames and other sites' logs.
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "X-Robots-Tag": "noindex, nofollow",
}


REFUSING: Final = (
    '<form method="post" class="refusing">'
    '<label for="message">To reject: what should the agent do instead? (optional)</label>'
    '<textarea id="message" name="message" maxlength="4000"></textarea>'
    '<button class="stop" name="reply" value="reject">'
    f"{ANSWERS['reject']}</button></form>"
)


def question_page(state: SessionState, request: Request, name: str, now_ms: int, replies: Collection[ReplyKind]) -> str:
    """Return the page of a pending request, with the rules' demands on its answer, and buttons for these replies."""
    left = time_left(request.deadline_ms, now_ms)
    facts = [(ASKED_BY, request.asker.name), (CALLS_ITSELF, request.agent or state.agent)]
    facts += [
        ("permission", request.permission),
        (PENDING_AGAIN, request.reopened_reason),
        (WHY, _because(request)),
        (DEMANDED, "; ".join(demanded(request))),
        (APPROVED, _approved(request, name)),
        (FOLDER, request.cwd),
        ("project", state.project),
    ]
    facts += [("session", state.session_id), (TIME_LEFT, left), ("you are", name)]
    shown, told = what_runs(request), _list(facts)
    allowing = _allowing(state, request, replies)
    title = f"May {request.asker.name} run {request.tool_name or request.permission}?"
    refusing = REFUSING if "reject" in replies else ""
    elsewhere = "" if {"once", "reject"} <= set(replies) else _elsewhere(request, name, replies)
    if not shown.folded:
        return _page(title, shown.at_once, told, elsewhere, allowing, refusing)
    then = ", then answer" if allowing else ""
    return _page(title, told, shown.at_once, elsewhere, _folded(shown, allowing, then), refusing)


def outcome_page(result: Result, name: str | None, now_ms: int) -> str:
    """Return the page of the outcome; if somebody else answered first, with their name."""
    ago = f"{about(max(now_ms - result.at_ms, 0))} ago" if now_ms - result.at_ms >= SECOND_MS else "now"
    shown = what_runs(result.request)
    folded = _folded(shown, "", "") if shown.folded else ""
    return _page(outcome_words(result, name), f"<p>{text(ago)}</p>", _said(result), shown.at_once, folded, NEXT_LINK)


def problem_page(title: str, why: str) -> str:
    """Return a page with the reason why no answer is possible here, and a link to continue."""
    return _page(title, f"<p>{text(why[:1].upper() + why[1:])}.</p>", INBOX_LINK)


def _said(result: Result) -> str:
    settled = result.settled
    message = settled.message if settled is not None else None
    return "" if not message else f"<p>Instructions:</p>{block(message)}"


def _folded(shown: Shown, allowing: str, then: str) -> str:
    """Return the folded sections together with the buttons that allow: they cannot be used without opening the fold."""
    count = "1 line" if shown.folded_lines == 1 else f"{shown.folded_lines} lines"
    return f'<details class="fold"><summary>Show the rest: {count}{then}</summary>{shown.folded}{allowing}</details>'


def _elsewhere(request: Request, name: str, replies: Collection[ReplyKind]) -> str:
    """Return the reason why an allow or a rejection has no button here, and the place for it."""
    if agreement_of(request, name) is not None:
        return f'<p class="good">You approved this, {text(name)}. It is allowed when enough people have.</p>'
    if not any(asks_passkey(request.demands, one) for one in ("once", "reject") if one not in replies):
        return f'<p class="odd">You are {text(name)}: a rule requires the answer of somebody else.</p>'
    which = "Allow it" if "reject" in replies else "Reject it" if "once" in replies else "Answer it"
    return f'<p class="odd">{which} in the inbox: a passkey must sign that, and a link cannot.</p>{INBOX_LINK}'


def _allowing(state: SessionState, request: Request, replies: Collection[ReplyKind]) -> str:
    lasting = ", ".join(f"<code>{text(one)}</code>" for one in request.always)
    where = f"in project {text(state.project)}" if state.project else "in this session"
    lasting_ones = {
        "session": _button("session", ANSWERS["session"], f"also allows {lasting} in this session"),
        "always": _button("always", ANSWERS["always"], f"also allows {lasting} {where} from now on"),
    }
    offers = request.always and not is_plan(request)
    remember = "".join(button for reply, button in lasting_ones.items() if offers and reply in replies)
    if remember and request.still_asked:
        remember += f"<p>{sentence(STILL_ASKS)}: {text('; '.join(request.still_asked))}.</p>"
    allowing = (_button("once", _once(request), "", "go") if "once" in replies else "") + remember
    if not allowing:
        return ""
    if is_question(request):
        # An allow without a choice would not answer the question.
        return '<p><a href="/">Choose in the inbox</a></p>'
    return f'<form method="post">{allowing}</form>'


def _once(request: Request) -> str:
    approvals = approvals_of(request)
    return ANSWERS["once"] if approvals is None else approve_label(len(approvals.given), approvals.needed)


def _button(reply: str, label: str, small: str, look: str = "") -> str:
    note = f"<small>{small}</small>" if small else ""
    return f'<button class="{look}" name="reply" value="{reply}">{label}{note}</button>'


def _approved(request: Request, name: str) -> str:
    """Return who has approved a request that several people must approve, and what is missing."""
    approvals = approvals_of(request)
    if approvals is None or not approvals.given:
        return ""
    given = listed("you" if person_key(one.by.name) == person_key(name) else one.by.name for one in approvals.given)
    return f"by {given}; {WAITS_FOR} {approvals.waits_for}"


def _because(request: Request) -> str | None:
    evaluation = request.evaluation
    if evaluation is None:
        return None
    rules = [
        one.text + (f" ({one.file}{f':{one.line}' if one.line else ''})" if one.file else "")
        for one in evaluation.rules
    ]
    return "; ".join([*([evaluation.reason] if evaluation.reason else []), *rules]) or None


def _list(facts: Iterable[tuple[str, str | None]]) -> str:
    rows = "".join(f"<dt>{name}</dt><dd>{text(value)}</dd>" for name, value in facts if value)
    return f"<dl>{rows}</dl>"


def _page(title: str, *parts: str) -> str:
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{text(title)}</title><style>{STYLE}</style></head>"
        f"<body><main><h1>{text(title)}</h1>{''.join(parts)}</main></body></html>"
    )

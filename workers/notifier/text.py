"""The text of a message: the call, its place, who asks, the time left, and at the end a link to answer. Pure.

Nearly every word in it is an agent's. So each of its texts is one quoted line, neutral and bounded, and no line of ours
holds any of it; the links stand at the end, with nothing of an agent's below them.

Chats, mail programs and phones turn anything like an address into a link. So addresses are broken up visibly:
`https[:]//evil[.]example`, `ann[@]example`. Services want text, Markdown or HTML; quoted text has no special meaning
in any of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from html import escape
from typing import Final, Literal, NamedTuple

from ledger.client.results import result_of
from ledger.session.approvals import approvals_of
from ledger.session.state import Request, SessionState
from ledger.session.would_run.description import Description, Section, describe_request
from ledger.session.would_run.members import one_line, tool_in_words
from workers.notifier.plan import Correction, Reminder
from workers.presentation.answer_page import named_characters
from workers.presentation.labels import (
    APPROVED,
    ASKED_BY,
    CALLS_ITSELF,
    DANGER,
    FOLDER,
    WAITS_FOR,
    danger_kinds,
    effect_words,
    sentence,
)
from workers.presentation.text import revealed
from workers.presentation.words import about, outcome_words, time_left

Format = Literal["text", "markdown", "html"]

_PUNCTUATION: Final = re.compile(r"([!-/:-@\[-`{-~])")
"""The characters that a backslash escapes in CommonMark."""


class MessageLine(NamedTuple):
    """One line. `quoted` is an agent's text, already on one line and neutral; `link` is an address of our own."""

    kind: Literal["ours", "quoted", "link", "blank"]
    text: str = ""


class OutgoingMessage(NamedTuple):
    """A message to a person; `body` is its form for plain-text services."""

    title: str
    lines: tuple[MessageLine, ...]

    @property
    def body(self) -> str:
        return rendered(self.lines, "text")


def rendered(lines: tuple[MessageLine, ...], form: Format) -> str:
    """Return the body of a message in this format."""
    write, between = _WRITERS[form]
    return between.join(write(line) for line in lines)


def titled(title: str, form: Format) -> str:
    """Return a title that a service puts into the body, in this format."""
    return _WRITERS[form][0](MessageLine("ours", title))


def _as_text(line: MessageLine) -> str:
    return f"> {line.text}" if line.kind == "quoted" else line.text


def _as_markdown(line: MessageLine) -> str:
    if line.kind == "link":
        return f"<{line.text}>"
    text = _PUNCTUATION.sub(r"\\\1", line.text)
    return f"> {text}" if line.kind == "quoted" else text


def _as_html(line: MessageLine) -> str:
    text = escape(line.text)
    if line.kind == "link":
        return f'<a href="{text}">{text}</a>'
    return f"&gt; <code>{text}</code>" if line.kind == "quoted" else text


# Markdown joins consecutive lines: a blank line keeps them apart.
_WRITERS: Final = {"text": (_as_text, "\n"), "markdown": (_as_markdown, "\n\n"), "html": (_as_html, "<br>\n")}


RAW_CHARS_MAX: Final = 8000
"""The characters of a text that are read, half of them from its end; a line of a message shows fewer."""

_SCHEME: Final = re.compile(r"(?<=\w):(?=//|\\\\)|(?<=mailto):|(?<=tel):", re.IGNORECASE)
_AT: Final = re.compile(r"@(?=\w)")
# The last three are full stops that browsers take for a dot.
_DOT: Final = re.compile("[.\u3002\uff0e\uff61]")
_DOTTED: Final = re.compile(rf"(?<![\w-])[\w-]+(?:{_DOT.pattern}[\w-]+)+")
_NUMBER: Final = re.compile(r"\d+")
_LETTER: Final = re.compile("[A-Za-z]")
_IP_PARTS: Final = 4

# File endings that are no top-level domains: no client makes a link of `package.json`.
_NO_DOMAINS: Final = frozenset(
    {
        "cfg", "cpp", "css", "csv", "env", "exe", "gz", "html", "ini", "js", "json", "jsx", "lock", "log", "pdf",
        "png", "sql", "svg", "toml", "ts", "tsx", "txt", "xml", "yaml", "yml",
    }
)  # fmt: skip


def neutral(text: str, limit_chars: int) -> str:
    """Return the text on one line of at most about `limit_chars`, a longer one without its middle."""
    left_out = max(0, len(text) - RAW_CHARS_MAX)
    if left_out:
        half = RAW_CHARS_MAX // 2
        head, tail = _shown(text[:half]), _shown(text[-half:])
    else:
        head, tail = _shown(text), ""
    return _cut(head, tail, left_out, limit_chars)


def has_broken_addresses(text: str) -> bool:
    """Return whether a neutral text holds an address that was broken up."""
    return any(mark in text for mark in ("[.]", "[:]", "[@]"))


def _shown(text: str) -> str:
    return _AT.sub("[@]", _DOTTED.sub(_broken, _SCHEME.sub("[:]", revealed(text))))


def _broken(found: re.Match[str]) -> str:
    labels = _DOT.split(found[0])
    numbers = [_NUMBER.fullmatch(one) is not None for one in labels]
    is_version = all(numbers[1:]) and not (numbers[0] and len(labels) == _IP_PARTS)
    # Some clients would make a link of the beginning of `evil.com.json`.
    is_file = len(labels) == 2 and (_LETTER.fullmatch(labels[1]) is not None or labels[1].lower() in _NO_DOMAINS)
    return found[0] if is_version or is_file else _DOT.sub("[.]", found[0])


def _cut(head: str, tail: str, left_out: int, limit_chars: int) -> str:
    if not left_out and len(head) <= limit_chars:
        return head
    shown = head + tail
    first, last = limit_chars * 2 // 3, limit_chars // 3
    more = left_out + len(shown) - first - last
    return f"{shown[:first]} … {more} more characters … {shown[-last:]}"


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
    for number, (lines_of_one, _) in enumerate(parts[:kept], 1):
        lines += [*([MessageLine("ours", f"Request {number}:")] if several else []), *lines_of_one, _BLANK]
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
        MessageLine("ours", sentence(effect_words(request.evaluation))),
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
    parts = [one for one in found.sections if not one.repeats and _is_sent(one)]
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


def _is_sent(part: Section) -> bool:
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

"""A message in a service's format: text, Markdown or HTML. Quoted text has no special meaning in any of them."""

from __future__ import annotations

import re
from html import escape
from typing import Final, Literal, NamedTuple

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

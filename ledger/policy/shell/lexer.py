"""The plain subset of the shell. Only a plain line may be allowed; any other line has a reason to ask.

Plain: simple commands joined by `&& || ; | |&` or newlines, comments, blank lines; words of literal characters,
backslash escapes, `'…'`, or `"…"` without backticks and expansions; globs in arguments; redirections of the form
`n>&m` or to `/dev/null`. The lexer never guesses: a character without a defined meaning makes the line not plain.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching import whole_glob
from ledger.policy.shell.model import Analysis, Redirect, ShellCommand, Word
from ledger.policy.shell.words import LITERAL_DOLLAR, decode, join_lines, shorten, strange_character, too_long

TOO_LONG_REASON: Final = "the line is longer than 64 KiB and was not analysed"

_QUOTES = rf"""'[^']*+'|"(?:[^"\\$`]|\\[^\n]|{LITERAL_DOLLAR})*+"|\\[^\n]"""
_TOKEN = late_pattern(
    rf"""(?P<blank>[ \t]++)
    |(?P<simple>[A-Za-z0-9_@%+:,./^-]++(?=[ \t\n;|]|\Z))
    |(?P<comment>\#[^\n]*+)
    |(?P<redirect>&>>|&>|[0-9]*+(?:>>|>\||>&|<<<|<<-|<<|<&|<>|>|<))
    |(?P<operator>&&|\|\||\|&|;|\||\n)
    |(?P<word>(?:[^\s'"\\$`&|;<>()]++|{_QUOTES})++)""",
    re.DOTALL | re.VERBOSE,
)
_ASSIGNMENT = late_pattern(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
_NAME = late_pattern(r"[!-~]+")

RESERVED: Final = frozenset(
    "! { } [[ ]] if then elif else fi for while until do done case esac select function coproc time in".split()  # noqa: SIM905
)
_LINE_JOINS: Final = frozenset({"&&", "||", "|", "|&"})

_UNREADABLE: Final = {
    "$": "`$` expands to a value that is known only when the line runs",
    "`": "a backtick runs another command inside this one",
    "&": "`&` runs a command in the background",
    "(": "parentheses run commands of their own or define a function",
    ")": "a closing parenthesis has no opening one",
    "'": "a single quote is not closed",
    '"': "a double quote is not closed, or something in it is known only when the line runs",
    "\\": "the line ends with a backslash",
}


class NotPlain(Exception):  # noqa: N818 - it never leaves the readers: a way out of nested functions, not an error
    """The signal that a line is not plain; the message is the reason."""


@lru_cache(maxsize=2)  # the dialect and the hardened profile read the same line one after the other
def lex(source: str) -> Analysis:
    """Read a line of the plain subset. Linear in the length of `source`; never raises.

    For a line that is not plain, `commands` is empty unless `redirects_only` is true.
    """
    if too_long(source):
        return Analysis(plain=False, reason=TOO_LONG_REASON, commands=())
    reason = strange_character(source)
    if reason is not None:
        return Analysis(plain=False, reason=reason, commands=())
    reader = _Reader(join_lines(source))
    try:
        reader.read()
    except NotPlain as found:
        return Analysis(plain=False, reason=shorten(str(found)), commands=())
    redirect = None if reader.redirect_reason is None else shorten(reader.redirect_reason)
    return Analysis(
        plain=redirect is None,
        reason=redirect,
        commands=tuple(reader.commands),
        operators=tuple(reader.operators),
        redirects_only=redirect is not None,
    )


class _Reader:
    """One pass over the tokens; `commands` and `operators` are in source order."""

    __slots__ = (
        "begin", "commands", "end", "operators", "pending", "pieces", "redirect_reason", "redirects", "source", "words",
    )  # fmt: skip

    def __init__(self, source: str) -> None:
        self.source = source
        self.commands: list[ShellCommand] = []
        self.operators: list[str] = []
        self.redirect_reason: str | None = None
        self.pending: str | None = None  # an operator that still lacks its right side
        self.words: list[Word] = []
        self.redirects: list[Redirect] = []
        self.pieces: list[str] = []
        self.begin = self.end = 0

    def read(self) -> None:
        source, match, at, length = self.source, _TOKEN.match, 0, len(self.source)
        while at < length:
            token = match(source, at)
            if token is None:
                raise NotPlain(_UNREADABLE.get(source[at], f"unexpected `{source[at]}`"))
            kind, text, start, at = token.lastgroup, token.group(), at, token.end()
            if kind == "simple":
                self._add(start, at, Word(text, text))
            elif kind == "word":
                self._add(start, at, plain_word(text))
            elif kind == "operator":
                self._operate(text)
            elif kind == "redirect":
                at = self._redirect(start, text, at)
        self._finish()
        if self.pending in _LINE_JOINS:
            raise NotPlain(f"nothing follows `{self.pending}`")

    def _add(self, start: int, end: int, word: Word) -> None:
        if not self.words:
            check_name(word)
        elif self.words[0].raw == "time":  # the reserved word: what follows it stands in a command's place too
            check_reserved(word.raw)
        if not self.words and not self.redirects:
            self.begin = start
        self.words.append(word)
        self.pieces.append(self.source[start:end])
        self.end = end

    def _operate(self, operator: str) -> None:
        if self.words or self.redirects:
            self._finish()
            self.pending = operator
        elif operator == "\n":
            return  # blank lines, and newlines after an operator
        else:
            raise NotPlain(f"`{operator}` has no command in front of it")

    def _finish(self) -> None:
        if not self.words:
            if self.redirects:
                raise NotPlain("a redirection has no command")
            return
        if self.words[0].raw == "time" and all(word.raw in ("time", "-p") for word in self.words):
            raise NotPlain("`time` has no command after it")
        if self.commands:
            self.operators.append(self.pending or "\n")
        self.pending = None
        statement = self.source[self.begin : self.end]
        text = " ".join(self.pieces) if self.redirects else statement
        self.commands.append(ShellCommand(text, tuple(self.words), (), tuple(self.redirects), statement))
        self.words, self.redirects, self.pieces = [], [], []

    def _redirect(self, start: int, operator: str, at: int) -> int:
        if self.words and self.end == start and self.words[-1].raw.endswith("}"):
            raise NotPlain("a redirection stores its descriptor in a variable")
        while at < len(self.source) and self.source[at] in " \t":
            at += 1
        token = _TOKEN.match(self.source, at)
        if token is None or token.lastgroup not in ("simple", "word"):
            raise NotPlain(f"`{operator}` has no literal target")
        target = plain_word(token.group())
        redirect = Redirect(operator, target, self.source[start : token.end()])
        reason = file_reason(redirect)
        self.redirect_reason = self.redirect_reason or reason
        if not self.words and not self.redirects:
            self.begin = start
        self.redirects.append(redirect)
        self.end = token.end()
        return self.end


def file_reason(redirect: Redirect) -> str | None:
    """Return a redirection's effect on a file in words; None without one. Raises NotPlain for unusual redirections."""
    kind, target = redirect.operator.lstrip("0123456789"), redirect.target
    if kind.startswith("<<"):
        raise NotPlain(f"`{kind}` feeds a text to the command")
    if target.resolved is None or target.glob or target.tilde:
        raise NotPlain(f"the target of `{redirect.operator}` is known only when the line runs")
    if kind == ">&" and target.raw.isdigit() and target.raw.isascii():
        return None
    if target.resolved == "/dev/null" and kind not in ("<&", "<>"):
        return None
    if kind == "<&" or (kind == ">&" and target.raw[:1] in "-0123456789"):
        raise NotPlain(f"`{redirect.text}` changes a descriptor")
    return f"`{redirect.text}` {'reads from' if kind == '<' else 'writes to'} a file"


def plain_word(raw: str) -> Word:
    """Decode a word of the plain subset. Raises NotPlain for a brace expansion and for a tilde other than `~/`."""
    word, bare = decode(raw)
    if word.resolved is None:
        raise NotPlain(f"`{raw}` may expand to several words")
    if word.tilde and bare != "~" and not bare.startswith("~/"):
        raise NotPlain(f"`{raw}` names somebody's home directory")
    if "~" in bare[1:] and _ASSIGNMENT.match(raw):  # `of=~/x`: expanded as if it were an assignment
        raise NotPlain(f"`{raw}` names a home directory in the middle of a word")
    return word


def check_name(word: Word) -> None:
    """Raise NotPlain unless a command's name is literal, and neither reserved nor an assignment."""
    raw = word.raw
    if raw != "time":
        check_reserved(raw)
    if word.glob or word.tilde or "{" in raw or "}" in raw:
        raise NotPlain(f"the name `{raw}` is known only when the line runs")
    if word.resolved is None or not _NAME.fullmatch(word.resolved):
        raise NotPlain(f"the name `{raw}` is empty or holds blanks or letters beyond ASCII")


def check_reserved(raw: str) -> None:
    if raw in RESERVED:
        raise NotPlain(f"`{raw}` is part of a compound command")
    if "=" in raw and _ASSIGNMENT.match(raw):
        raise NotPlain(f"`{raw}` sets a variable")


def spells(pattern: str, analysis: Analysis) -> bool:
    """Return whether a full-text glob matches a line, with all operators and redirections spelled out.

    `*` matches any string, `?` any character. The pattern is parsed as a line itself: it must have the same operators
    and redirections in the same places, and match each command's text and each redirection's target. False for a line
    or pattern that is not plain for a reason other than its redirections.
    """
    if not (analysis.plain or analysis.redirects_only) or analysis.flow is not None:
        return False
    template = lex(pattern.replace("*", "\\*").replace("?", "\\?"))
    if not (template.plain or template.redirects_only) or template.operators != analysis.operators:
        return False
    commands = analysis.top
    return len(template.commands) == len(commands) and all(map(_covers, template.commands, commands))


def _covers(template: ShellCommand, command: ShellCommand) -> bool:
    if [one.operator for one in template.redirects] != [one.operator for one in command.redirects]:
        return False
    pairs = zip(template.redirects, command.redirects, strict=True)
    targets = all(whole_glob(_bare(one.target.raw))(other.target.raw) for one, other in pairs)
    return targets and whole_glob(_bare(template.text))(_collapse(command.text))


def _bare(template: str) -> str:
    return _collapse(template.replace("\\*", "*").replace("\\?", "?"))


def _collapse(text: str) -> str:
    return " ".join(text.split())

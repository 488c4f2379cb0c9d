"""Explanations of a verdict: deciding and nearly deciding rules, words of unknown value, and ways to change it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Call, Evaluation, Layer, Part, Policy, Verdict
from ledger.policy.check_questions import JudgedCall
from ledger.policy.dialect import ListedRule
from ledger.policy.dialects import dialect_of, listed_rules
from ledger.policy.errors import PolicyError
from ledger.policy.inputs import command_of
from ledger.policy.matching import compile_normalised
from ledger.policy.offers import Compile, Fix, advise
from ledger.policy.shell.analyse import analyse
from ledger.policy.shell.forms.nodes import NormalForm
from ledger.policy.shell.forms.reduction import form_of
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.names import basename
from ledger.policy.shell.parse import source_commands

PARTS_COUNT: Final = 8
"""Maximum reported parts of one word."""

_NAME = late_pattern(r"\$(?:\w+|\{[^}]*\}|[@*#?$!-])")
_BRACES = late_pattern(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_GLOB = late_pattern(r"[*?]|\[[^\]\s]+\]")
_TILDE = late_pattern(r"~[\w.-]*")
_OPENING: Final = {"$(": ")", "<(": ")", ">(": ")", "`": "`"}


class UnknownPart(msgspec.Struct, frozen=True):
    """A part of a word as written. `why` is a sentence without a full stop."""

    word: str
    text: str
    why: str


def unknown_parts(command: ShellCommand) -> tuple[UnknownPart, ...]:
    """Return the unknown parts of a command's words, values of assignments, and targets of redirections."""
    words = (*command.words, *(one.value for one in command.assignments), *(one.target for one in command.redirects))
    return tuple(dict.fromkeys(part for word in words for part in _of_word(word)))


def _of_word(word: Word) -> tuple[UnknownPart, ...]:
    if word.resolved is not None and not word.glob and not word.tilde:
        return ()
    found = tuple(UnknownPart(word.raw, text, why) for text, why in _scan(word.raw))[:PARTS_COUNT]
    return found or (UnknownPart(word.raw, word.raw, "the shell computes it when the line runs"),)


def _scan(raw: str) -> Iterator[tuple[str, str]]:
    at, quoted = 0, False
    while at < len(raw):
        if raw[at] == "\\":
            at += 2
            continue
        if raw[at] == "'" and not quoted:
            at = raw.find("'", at + 1) % (len(raw) + 1) + 1
            continue
        if raw[at] == '"':
            quoted = not quoted
            at += 1
            continue
        text, why = _part(raw, at, is_quoted=quoted)
        if why:
            yield text, why
        at += max(len(text), 1)


def _part(raw: str, at: int, *, is_quoted: bool) -> tuple[str, str]:
    """Return the part that begins at an index, and why its value is unknown; an empty reason for a plain character."""
    for opening, closing in _OPENING.items():
        if raw.startswith(opening, at) and not (is_quoted and opening in ("<(", ">(")):
            return _enclosed(raw, at, opening, closing), "it is the output of a command"
    name = _NAME.match(raw, at)
    if name is not None:
        return name[0], "the value of a variable is known only when the line runs"
    if is_quoted:
        return raw[at], ""
    for pattern, why in (
        (_BRACES, "braces expand to several words"),
        (_GLOB, "it matches the files that exist when the line runs"),
    ):
        found = pattern.match(raw, at)
        if found is not None:
            return found[0], why
    tilde = _TILDE.match(raw, at) if at == 0 else None
    return (tilde[0], "it is a home directory") if tilde is not None else (raw[at], "")


def _enclosed(raw: str, at: int, opening: str, closing: str) -> str:
    """Return the text up to the end of a substitution, or to the end of the word if it is not closed."""
    depth, place = 1, at + len(opening)
    while place < len(raw) and depth:
        if raw[place] == "(" and closing == ")":
            depth += 1
        elif raw[place] == closing:
            depth -= 1
        place += 1
    return raw[at:place]


CLOSE_COUNT: Final = 3
"""Rules that do not match, at most, that are listed for each call."""


COMMANDS_COUNT: Final = 64
"""Commands of one line, at most, that are listed as they were parsed."""


class Near(msgspec.Struct, frozen=True):
    """A rule that did not decide. `matches`: it matches the call; `why`: the reason why it did not decide."""

    rule: ListedRule
    matches: bool
    why: str


class ReadCommand(msgspec.Struct, frozen=True):
    """One parsed command of a line, with its normal form; None for a program without a table."""

    text: str
    form: NormalForm | None


class Explanation(msgspec.Struct, frozen=True):
    """A judged call, the rules that nearly decided it, and the ways to change its verdict.

    `commands` are those of a shell line at any depth, each once. `unknown` are the parts of its words that are known
    only when it runs.
    """

    call: Call
    judged: Any
    near: tuple[Near, ...]
    fixes: tuple[Fix, ...]
    commands: tuple[ReadCommand, ...] = ()
    unknown: tuple[UnknownPart, ...] = ()


def explain(policy: Policy, call: Call, compile_again: Compile) -> Explanation:
    """Judge a call and explain the verdict. Every fix with a configuration was tried and leads to its verdict."""
    judged = JudgedCall(policy, call)
    near = tuple(_Neighbours(policy, call, judged, compile_again).near())
    fixes = tuple(advise(policy, call, judged, compile_again))
    line = command_of(call.input)
    if call.permission != dialect_of(policy.source).language.shell or line is None:
        return Explanation(call, judged, near, fixes)
    commands = list({one.statement: one for one in analyse(line).commands}.values())[:COMMANDS_COUNT]
    # As they are written: the analysis may have resolved some of the words.
    written = (source_commands(line) or ())[:COMMANDS_COUNT]
    unknown = dict.fromkeys(part for one in written for part in unknown_parts(one))
    return Explanation(
        call, judged, near, fixes, tuple(ReadCommand(one.text, form_of(one)) for one in commands), tuple(unknown)
    )


class _Neighbours:
    """The rules that did not decide one call, each judged as if it were the only one."""

    def __init__(self, policy: Policy, call: Call, judged: JudgedCall, compile_again: Compile) -> None:
        self.source, self.call, self.judged, self.compile_again = policy.source, call, judged, compile_again
        self.dialect = dialect_of(policy.source)
        self.rules = listed_rules(policy)
        self.parts = [part for found in judged.all for part in found.parts]
        self.deciding = set(judged.rules) | {ref for part in self.parts for ref in part.rules}
        self.shell = call.permission == self.dialect.language.shell

    def near(self) -> Iterator[Near]:
        close: list[Near] = []
        for rule in self.rules:
            if rule.ref in self.deciding:
                continue
            why = self._overruled(rule) or self._not_accepted(rule)
            if why is not None:
                yield Near(rule, True, f"it matches, but {why}")
            elif self.shell and self._same_program(rule):
                close.append(Near(rule, False, "it is for the same program and does not match"))
        yield from close[:CLOSE_COUNT]

    def _alone(self, rule: ListedRule, call: Call, profile: str | None = None) -> JudgedCall | None:
        layer = Layer(rule.ref.layer or "rule", config=self.dialect.notation.rule_config(rule))
        options = self.source.options if profile is None else {**self.source.options, "profile": profile}
        try:
            alone = self.compile_again(msgspec.structs.replace(self.source, layers=(layer,), options=options))
        except PolicyError:
            return None
        return JudgedCall(alone, call)

    def _overruled(self, rule: ListedRule) -> str | None:
        """Return what decides instead of a rule that would decide alone; None for a rule that would not."""
        texts = _matched(self._alone(rule, self.call), rule)
        if not texts:
            return None
        found = [part for part in self.parts if part.text in texts]
        deciding = next((part.rules[0] for part in found if part.rules), None)
        if deciding is not None:
            return f"`{deciding.text}` decides"
        if any(part.grants for part in found):
            return "a grant decides"
        if self.judged.verdict is not Verdict.ALLOW and self.judged.rules:
            return f"`{self.judged.rules[0].text}` decides"
        return self._as_a_whole() if rule.action is Verdict.ALLOW else "it does not decide"

    def _not_accepted(self, rule: ListedRule) -> str | None:
        """Return the reason why the hardened profile passes over a matching rule; None for one that does not match."""
        texts = _matched(self._alone(rule, self.call, "faithful"), rule)
        if not texts:
            return self._unread(rule) if self.shell else None
        denying = [part for part in self.parts if part.text in texts and part.verdict is Verdict.DENY and part.rules]
        if denying:
            return f"`{denying[0].rules[0].text}` decides"
        one = self._alone(rule, self._part_call(min(texts)))
        if one is None or one.verdict is Verdict.ALLOW or one.reason is None:
            return self._as_a_whole()
        return f"the hardened profile does not honour it: {one.reason}"

    def _unread(self, rule: ListedRule) -> str | None:
        """Return the reason why a rule does not apply to a command that its words match; None if they match none."""
        text = self._named(rule)
        return None if text is None else f"{self.source.dialect} does not judge `{text}` by itself in this line"

    def _as_a_whole(self) -> str:
        reason = self.judged.reason
        return f"it is not honoured in this line: {reason}" if reason else "it does not decide"

    def _part_call(self, text: str) -> Call:
        if isinstance(self.call.input, Mapping) and self.shell:
            return msgspec.structs.replace(self.call, patterns=(), input={**self.call.input, "command": text})
        return self.call if not self.shell else msgspec.structs.replace(self.call, patterns=(text,))

    # --- by the words alone
    def _commands(self) -> Iterator[tuple[str, str]]:
        line = command_of(self.call.input)
        for text in self.call.patterns if line is None else (line,):
            for command in analyse(text).commands:
                if command.words:
                    yield basename(command.words[0].raw), command.text

    def _named(self, rule: ListedRule) -> str | None:
        """Return the first command of the line that a rule matches by its words."""
        if rule.permission != self.call.permission:
            return None
        matches = compile_normalised(self.dialect.notation.as_wildcard(rule))
        return next((text for _, text in self._commands() if matches(text)), None)

    def _same_program(self, rule: ListedRule) -> bool:
        program = rule.pattern.split(" ", 1)[0].rstrip(":*")
        same = rule.permission == self.call.permission and program
        return bool(same) and any(program == name for name, _ in self._commands())


def _matched(judged: JudgedCall | None, rule: ListedRule) -> set[str]:
    """Return the texts of the parts that a rule decided when judged alone; the built-in rules apply in any case."""
    if judged is None:
        return set()
    found = {part.text for one in judged.all for part in one.parts if _names(part, rule)}
    whole = any(ref.text == rule.ref.text for one in judged.all for ref in one.rules)
    return found or ({"*"} if whole else set())


def _names(found: Part | Evaluation, rule: ListedRule) -> bool:
    return any(ref.text == rule.ref.text for ref in found.rules)

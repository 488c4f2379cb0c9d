"""The strict reader of the larger plain grammar: loops, conditions, groups, variables, substitutions, here-documents.

`read` decides if a line belongs to the grammar, and returns every command that would run: loops over known words are
unrolled, and variables are replaced by their values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, Final

import msgspec
from msgspec.structs import replace

from ledger.policy.shell.danger import is_known_test
from ledger.policy.shell.grammar.nodes import Compound, PieceKind, Redirection, Shape, Simple, SyntaxNode, WrittenWord
from ledger.policy.shell.grammar.outputs import (
    UNKNOWN,
    WordValue,
    as_value,
    common,
    document_in,
    either,
    lines_of,
    value_of,
    word_of,
    words_of,
)
from ledger.policy.shell.grammar.reader import read_line
from ledger.policy.shell.lexer import NotPlain, check_name, check_reserved, file_reason
from ledger.policy.shell.model import Construct, Flow, Redirect, ShellCommand, Step, Word, accesses
from ledger.policy.shell.names import HARMLESS, may_be_set
from ledger.policy.shell.words import may_be_option, shorten

VariableScope = dict[str, WordValue]

STDIN: Final = "<"
"""The key for the value of each line of standard input; no variable has this name."""


def without(scope: VariableScope, name: str) -> VariableScope:
    return {key: value for key, value in scope.items() if key != name} if name in scope else scope


def merged(one: VariableScope, other: VariableScope) -> VariableScope:
    """Return the values that hold after either branch; a variable that only one branch sets is unknown."""
    if one is other:
        return one
    return {
        name: either(one[name], other[name]) if name in one and name in other else UNKNOWN for name in {*one, *other}
    }


def assigned(node: SyntaxNode) -> frozenset[str]:
    """Return the names that a part of the tree may set."""
    found, stack = set[str](), [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Simple):
            found.update(name for name, _ in one.assignments)
            found.update(_builtin(one.words))
        else:
            found.update({one.name} - {""})
            stack += one.parts
    return frozenset(found)


def _builtin(words: tuple[WrittenWord, ...]) -> list[str]:
    texts = [_text(word) for word in words]
    return [text.partition("=")[0] for text in texts] if {"read", "export"}.intersection(texts) else []


def _text(word: WrittenWord) -> str:
    return "".join(piece.text for piece in word.pieces)


def breaks(node: SyntaxNode) -> bool:
    """Return whether a `break` or `continue` may leave a loop early."""
    stack = [node]
    while stack:
        one = stack.pop()
        if isinstance(one, Simple):
            if any(_text(word) in ("break", "continue") for word in one.words):
                return True
        else:
            stack += one.parts
    return False


STEPS_MAX: Final = 2_000
"""Maximum commands to which a line with loops, variables or substitutions is unrolled."""

CHARS_MAX: Final = 64 * 1024
"""Maximum length of all words, with the values of variables."""

ROUNDS_MAX: Final = 64
"""Maximum words of a loop that are unrolled one by one."""

_HERE: Final = ("<<", "<<-", "<<<")


class Walk:
    """One walk over a tree. `commands` are in the order of the walk; `stdin` holds their here-documents."""

    def __init__(self) -> None:
        self.commands: list[ShellCommand] = []
        self.stdin: list[str | None] = []
        self.reason: str | None = None  # the first redirection to or from a file
        self.steps = 0
        self.chars = 0

    def step(self, node: SyntaxNode, scope: VariableScope) -> tuple[int | Step, VariableScope]:
        """Emit the commands of a node. Return their flow, and the variables after the node."""
        self.steps += 1
        if self.steps > STEPS_MAX:
            raise NotPlain("the line holds too many commands to analyse one by one")
        if isinstance(node, Simple):
            return self._simple(node, scope)
        around = [self._redirects(node.redirections, scope)] if node.redirections else []
        if any(one.operator.lstrip("0").startswith("<") for one in node.redirections):
            scope = without(scope, STDIN)
        found, after = self._compound(node, scope)
        if not around or around[0] is None:
            return found, after
        return Step(Flow.LIST, (around[0], found), ("\n",)), after

    def _compound(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        own = self._SHAPES.get(node.shape)
        if own is not None:
            return own(self, node, scope)
        inner, after = self.step(node.parts[0], scope)
        if node.shape is Shape.SUBSHELL:
            return Step(Flow.ALONE, (inner,)), scope
        return Step(Flow.NOT if node.shape is Shape.NOT else Flow.LIST, (inner,)), after

    def _list(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        """Emit the parts of a list. Return their flow and the variables after it.

        `surely` holds if all parts since the last `;` ran, `maybe` if some of them did.
        """
        parts = list[int | Step]()
        surely = maybe = scope
        before = ";"
        for part, operator in zip(node.parts, node.operators, strict=True):
            found, after = self.step(part, surely if before == "&&" else maybe)
            if operator == "&":
                found, after = Step(Flow.ALONE, (found,)), maybe
            parts.append(found)
            surely, maybe = after, after if before not in ("&&", "||") else merged(maybe, after)
            if before == "||":
                surely = maybe
            before = operator
        operators = tuple(";" if operator == "&" else operator for operator in node.operators[:-1])
        return Step(Flow.LIST, tuple(parts), operators), maybe

    def _pipe(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        after, steps = scope, list[int | Step]()
        lines: WordValue | None = scope.get(STDIN)
        for part in node.parts:
            step, one = self.step(part, scope if lines is None else {**scope, STDIN: lines})
            steps.append(step)
            after = merged(after, one)
            lines = lines_of(part, lines)
        return Step(Flow.PIPE, tuple(steps)), without(after, STDIN) if STDIN not in scope else after

    def _if(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        parts, after = list[int | Step](), None
        for index, part in enumerate(node.parts):
            found, ended = self.step(part, scope)
            parts.append(found)
            is_body = index % 2 == 1 or index == len(node.parts) - 1
            if is_body:
                after = ended if after is None else merged(after, ended)
            else:
                scope = ended
        if len(node.parts) % 2 == 0:
            after = scope if after is None else merged(after, scope)
        return Step(Flow.CHOICE, tuple(parts)), after or scope

    def _test(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        """Emit the substitutions in `[[ … ]]`; the test itself runs nothing. Raises NotPlain for an unknown form."""
        words = [word for written in node.words for word in words_of(written, scope)]
        if len(words) != len(node.words) or not is_known_test([replace(word, several=False) for word in words]):
            raise NotPlain("`[[` holds an unsupported test")
        parts = [step for written in node.words for step in self._substituted(written, scope)]
        return Step(Flow.LIST, tuple(parts), ("\n",) * max(0, len(parts) - 1)), scope

    def _while(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        scope = {**scope, **dict.fromkeys(assigned(node), UNKNOWN)}
        condition, inside = self.step(node.parts[0], scope)
        body, after = self.step(node.parts[1], inside)
        return Step(Flow.LOOP, (condition, body)), merged(scope, merged(inside, after))

    def _for(self, node: Compound, scope: VariableScope) -> tuple[Step, VariableScope]:
        self._may_set(node.name)
        rounds = [self._substituted(word, scope) for word in node.words]
        parts: list[int | Step] = [step for steps in rounds for step in steps]
        values = [as_value(word) for written in node.words for word in words_of(written, scope)]
        forgotten: VariableScope = {}
        if len(values) > ROUNDS_MAX or breaks(node.parts[0]):
            forgotten = dict.fromkeys(assigned(node.parts[0]), UNKNOWN)
        if len(values) > ROUNDS_MAX:
            values = [_either(values)]
        scope = after = {**scope, **forgotten}
        for value in values:
            found, after = self.step(node.parts[0], {**after, **forgotten, node.name: value})
            parts.append(found)
        return Step(Flow.LOOP, tuple(parts)), merged(scope, after)

    _SHAPES: ClassVar[dict[Shape, Callable[[Walk, Compound, VariableScope], tuple[Step, VariableScope]]]] = {
        Shape.LIST: _list, Shape.PIPE: _pipe, Shape.FOR: _for, Shape.WHILE: _while, Shape.IF: _if, Shape.TEST: _test,
    }  # fmt: skip

    def _simple(self, node: Simple, scope: VariableScope) -> tuple[int | Step, VariableScope]:
        if not node.words:
            before = [step for _, value in node.assignments for step in self._substituted(value, scope)]
            return _behind(before, None), self._set(node, scope)
        words = [word for one in node.words for word in self._words(one, scope)]
        _check_words(words, node.words[0])
        self._check_environment(node, words)
        redirects, stdin = self._targets(node.redirections, scope)
        fed = None if node.redirections else scope.get(STDIN)
        index = self._emit(_command(node, words, redirects, fed), stdin)
        before = [step for one in node.words for step in self._substituted(one, scope)]
        return _behind(before, index), _changed(words, scope)

    def _words(self, written: WrittenWord, scope: VariableScope) -> list[Word]:
        words = words_of(written, scope)
        self.chars += sum(len(word.raw) for word in words)
        if self.chars > CHARS_MAX:
            raise NotPlain("the values of the line's variables are too long to analyse")
        return words

    def _emit(self, command: ShellCommand, stdin: str | None = None) -> int:
        self.commands.append(command)
        self.stdin.append(stdin)
        return len(self.commands) - 1

    def _substituted(self, written: WrittenWord, scope: VariableScope) -> list[Step]:
        """Emit the commands of the substitutions in a word, except for those that only produce a literal text."""
        steps = list[Step]()
        for piece in written.pieces:
            if piece.script is not None and piece.script.parts and document_in(piece.script) is None:
                found, _ = self.step(piece.script, without(scope, STDIN))
                steps.append(Step(Flow.ALONE, (found,)))
        return steps

    def _set(self, node: Simple, scope: VariableScope) -> VariableScope:
        for name, value in node.assignments:
            self._may_set(name)
            scope = {**scope, name: value_of(value, scope)}
        return scope

    def _may_set(self, name: str) -> None:
        if not may_be_set(name):
            raise NotPlain(f"`{name}=` sets a variable that programs or the shell may read")

    def _check_environment(self, node: Simple, words: list[Word]) -> None:
        """Raise NotPlain unless the assignments of a command are harmless: `CI=1 npm test`.

        The variables must be in the table and the values literal. `IFS=` is accepted for `read` only.
        """
        for name, value in node.assignments:
            literal = all(piece.kind is PieceKind.TEXT for piece in value.pieces) and "~" not in value.raw
            if name == "IFS" and words[0].resolved == "read" and literal:
                continue
            if name not in HARMLESS or not literal:
                raise NotPlain(f"`{name}=` in front of a command may change what it does")

    def _targets(
        self, redirections: tuple[Redirection, ...], scope: VariableScope
    ) -> tuple[list[Redirect], str | None]:
        redirects, stdin = list[Redirect](), None
        for one in redirections:
            if one.here is not None:
                stdin = one.here.body
                redirects.append(Redirect(one.operator, Word(one.target.raw, one.here.delimiter), one.text))
                continue
            words = words_of(one.target, scope)
            if len(words) != 1 or self._substituted(one.target, scope):
                raise NotPlain(f"the target of `{one.operator}` is known only when the line runs")
            redirect = Redirect(one.operator, words[0], one.text)
            if one.operator in _HERE:
                stdin = words[0].resolved
                if stdin is None:
                    raise NotPlain("`<<<` feeds a text that is known only when the line runs")
            else:
                reason = file_reason(redirect)
                self.reason = self.reason or (shorten(reason) if reason else None)
            redirects.append(redirect)
        return redirects, stdin

    def _redirects(self, redirections: tuple[Redirection, ...], scope: VariableScope) -> int | None:
        """Emit the redirections of a compound as a command without words.

        Return its index; None without file accesses.
        """
        redirects, _ = self._targets(redirections, scope)
        if not any(map(accesses, redirects)):
            return None
        statement = " ".join(one.text for one in redirections)
        return self._emit(ShellCommand("", (), (), tuple(redirects), statement))


def _command(node: Simple, words: list[Word], redirects: list[Redirect], lines: WordValue | None) -> ShellCommand:
    """Return the command as written, or with the values of its variables."""
    text, statement = node.text, node.statement
    if [word.raw for word in words] != [word.raw for word in node.words]:
        text = " ".join(word.raw for word in words)
        statement = " ".join((text, *(one.text for one in redirects)))
    fed = None if lines is None or words[0].resolved != "xargs" else word_of(lines, "{}", several=False, tilde=False)
    return ShellCommand(text, tuple(words), (), tuple(redirects), statement, fed=fed)


def _behind(before: list[Step], command: int | None) -> int | Step:
    parts: list[int | Step] = [*before, *([] if command is None else [command])]
    return parts[0] if len(parts) == 1 else Step(Flow.LIST, tuple(parts), ("\n",) * max(0, len(parts) - 1))


def _either(values: list[WordValue]) -> WordValue:
    found = values[0]
    for value in values[1:]:
        found = either(found, value)
    return found


def _check_words(words: list[Word], name: WrittenWord) -> None:
    if not words or words[0].raw != name.raw:
        raise NotPlain(f"the name `{name.raw}` is known only when the line runs")
    check_name(words[0])
    if words[0].raw == "time":
        for word in words[1:]:
            check_reserved(word.raw)
        if all(word.raw in ("time", "-p") for word in words):
            raise NotPlain("`time` has no command after it")


def _names(words: list[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


def _changed(words: list[Word], scope: VariableScope) -> VariableScope:
    """Return the variables after a builtin that sets some.

    No rule ever allows the other builtins that set variables.
    """
    while words and words[0].raw in ("time", "-p"):
        words = words[1:]
    name, rest = words[0].resolved, words[1:]
    looked_at = {"printf": rest[:1], "print": rest[:1], "wait": rest}.get(name or "", [])
    if any(map(may_be_option, looked_at)):
        raise NotPlain(f"`{name}` may set a variable")
    if name in ("read", "export"):
        names = [(word.resolved or "").partition("=")[0] for word in rest]
        lines = scope.get(STDIN, UNKNOWN) if name == "read" and len(_names(names)) == 1 else UNKNOWN
        return {**scope, **dict.fromkeys(names, lines)}
    return scope


_TEXT_CHARS_MIN: Final = 2
"""Characters of text that a word must have beside what is known only when the line runs."""

_SHAPED: Final = {Shape.SUBSHELL: Construct.SUBSHELL, Shape.GROUP: Construct.GROUP, Shape.FOR: Construct.LOOP}


def constructs_of(root: SyntaxNode) -> Iterator[Construct]:
    """Yield the constructs of a tree, with repeats; those inside a substitution are part of it."""
    stack = [root]
    while stack:
        node = stack.pop()
        words = [*(node.words), *(one.target for one in node.redirections)]
        if isinstance(node, Simple):
            if node.assignments:
                yield Construct.ENVIRONMENT if node.words else Construct.ASSIGNMENT
            words += [value for _, value in node.assignments]
            if node.words and node.words[0].raw in ("[", "test") and not all(map(_is_literal, node.words)):
                yield Construct.VARIABLE
        else:
            if node.shape in _SHAPED:
                yield _SHAPED[node.shape]
            if "&" in node.operators:
                yield Construct.BACKGROUND
            stack += node.parts
            if node.shape is Shape.TEST and not all(map(_is_literal, node.words)):
                yield Construct.VARIABLE
        if any(one.here is not None for one in node.redirections):
            yield Construct.DOCUMENT
        for word in words:
            yield from _of_word(word)


def _is_literal(word: WrittenWord) -> bool:
    return all(piece.kind is PieceKind.TEXT for piece in word.pieces)


def _of_word(word: WrittenWord) -> Iterator[Construct]:
    shown = sum(len(piece.text) for piece in word.pieces if piece.kind is PieceKind.TEXT and piece.quoted)
    is_text = shown >= _TEXT_CHARS_MIN and not word.raw.lstrip("\"'").startswith("-")
    for piece in word.pieces:
        if piece.kind is PieceKind.TEXT:
            if "{" in piece.text and not piece.quoted:
                yield Construct.BRACES
        elif piece.script is not None:
            if piece.quoted and _is_message(piece.script):
                continue
            yield Construct.QUOTED if piece.quoted and is_text and _is_single(piece.script) else Construct.SUBSTITUTION
        elif piece.kind is PieceKind.NUMBER and piece.quoted and piece.text in "?#!$" and is_text:
            yield Construct.QUOTED
        elif piece.kind is not PieceKind.VARIABLE or "${" in word.raw or piece.text not in ("HOME", "PWD"):
            yield Construct.VARIABLE
        elif piece.text == "PWD":
            first = next(one for one in word.pieces if one.text) is piece
            yield Construct.QUOTED if piece.quoted and is_text and not first else Construct.VARIABLE


def _is_single(script: Compound | None) -> bool:
    if script is None or len(script.parts) != 1 or not isinstance(script.parts[0], Simple):
        return False
    return all(one is Construct.QUOTED for one in constructs_of(script))


def _is_message(script: Compound | None) -> bool:
    """Return whether a substitution is `cat` of a literal here-document, the usual way to write a message."""
    only = script.parts[0] if script is not None and document_in(script) is not None else None
    if not isinstance(only, Simple) or only.redirections[0].here is None:
        return False
    return only.redirections[0].operator == "<<" and only.redirections[0].here.literal


def evened(commands: Sequence[ShellCommand]) -> tuple[ShellCommand, ...]:
    """Return the commands with equal words for equal text, reduced to what is true of all of them.

    A command is judged once for its text.
    """
    words: dict[str, tuple[Word, ...]] = {}
    fed: dict[str, Word | None] = {}
    for command in commands:
        text, before = command.text, words.get(command.text)
        words[text] = command.words if before is None else tuple(map(_both, before, command.words))
        fed[text] = command.fed if fed.get(text, command.fed) == command.fed else None
    return tuple(
        command
        if words[command.text] == command.words and fed[command.text] == command.fed
        else replace(command, words=words[command.text], fed=fed[command.text])
        for command in commands
    )


def _both(one: Word, other: Word) -> Word:
    if one == other:
        return one
    prefix, inside = common((one.prefix or "", other.prefix or ""), inside=one.inside and other.inside)
    several = one.several or other.several
    return Word(one.raw, None, prefix=prefix, several=several, inside=inside, operand=one.operand and other.operand)


__all__ = ["Reading", "read"]


class Reading(msgspec.Struct, frozen=True):
    """A line of the grammar: its commands, the texts of their here-documents, and the order in which they may run.

    `reason` is set when the line is not in the grammar, `redirects` when only redirections to or from files keep it
    from being plain.
    """

    commands: tuple[ShellCommand, ...] = ()
    stdin: tuple[str | None, ...] = ()
    flow: Step | None = None
    reason: str | None = None
    redirects: str | None = None
    constructs: frozenset[Construct] = frozenset()


@lru_cache(maxsize=2)
def read(source: str) -> Reading:
    """Read a line that is not too long and has no strange characters. Never raises; bounded in depth and steps."""
    walk = Walk()
    try:
        tree = read_line(source)
        step, _ = walk.step(tree, {})
    except NotPlain as found:
        return Reading(reason=shorten(str(found)))
    flow = step if isinstance(step, Step) else Step(Flow.LIST, (step,))
    return Reading(evened(walk.commands), tuple(walk.stdin), flow, None, walk.reason, frozenset(constructs_of(tree)))

"""A Bash line as Claude Code reads it: the sub-commands that it judges, and why it would not judge the line at all.

Unlike `ledger.policy.shell`, this copies what the program does, blind spots included: commands in sub-shells, groups,
functions and substitutions are not looked at, the line is asked as a whole instead. Pure and bounded.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from ledger.policy.shell.budget import NODES_MAX, Budget
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Analysis, Command, Word
from ledger.policy.shell.text import join_lines, strange_character, too_long
from ledger.policy.shell.words import decode

_LANGUAGE: Final = Language(tree_sitter_bash.language())

_LISTS: Final = frozenset({"program", "list", "pipeline", "negated_command"})
_FLOW: Final = frozenset({"if_statement", "elif_clause", "else_clause", "while_statement", "do_group", "for_statement"})
_OPAQUE: Final = {
    "command_substitution": "a substitution runs another command",
    "process_substitution": "a process substitution runs another command",
    "expansion": "`${…}` is known only when the line runs",
    "subshell": "a sub-shell is not looked into",
    "compound_statement": "a group is not looked into",
    "function_definition": "a function is not looked into",
    "case_statement": "`case` is not looked into",
    "c_style_for_statement": "an arithmetic loop is not looked into",
    "ansi_c_string": "`$'…'` is not read",
    "translated_string": '`$"…"` is not read',
    "brace_expression": "braces expand to several words",
}
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_HOME: Final = "$HOME"
_BLANK_ESCAPE = re.compile(r"\\[ \t]|(?<=[^\s\\])\\\n")
_QUOTED_COMMENT = re.compile(r"'[^']*\n\s*#[^']*'|\"[^\"]*\n\s*#[^\"]*\"")
_BROKEN_OFF = re.compile(rb"(?:&&|\|\|?)\s*\Z")
_BRACES = re.compile(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")


class Output(msgspec.Struct, frozen=True):
    """A redirection that writes to a file, or reads from one."""

    operator: str
    target: Word


class Stage(msgspec.Struct, frozen=True):
    """One sub-command. `text` has neither assignments nor redirections, `statement` has both, `shown` what stands in a message.

    `starts` says where each word begins in `text`.
    """

    text: str
    statement: str
    shown: str
    words: tuple[Word, ...]
    starts: tuple[int, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    outputs: tuple[Output, ...] = ()
    looped: bool = False
    redirected_first: bool = False


class Line(msgspec.Struct, frozen=True):
    """`opaque` says in a sentence why the program asks about the line as a whole; None when it judges the stages.

    `background` marks `&`, which is asked whatever rules say, and `stages` may be empty.
    """

    text: str
    stages: tuple[Stage, ...]
    opaque: str | None = None
    background: bool = False


def read_line(source: str) -> Line:
    """Read a line. Linear but for the parser; what is too long or too complicated is opaque."""
    text = source.strip()
    if too_long(source):
        return Line(text, (), "the line is longer than 64 KiB and was not read")
    budget = Budget()
    joined = join_lines(source)
    tame = budget.take_script(joined)
    if tame is None:
        plain = lex(source)
        return _plain_line(text, plain) if plain.plain else Line(text, (), plain.reason or budget.spent)
    return _Reader(joined, tame, source).read(text)


def _plain_line(text: str, analysis: Analysis) -> Line:
    """A line that is too long for the parser and has nothing in it but simple commands."""
    joints = ("", *analysis.operators, "")
    stages = []
    for command, before, behind in zip(analysis.commands, joints, joints[1:], strict=False):
        piped = (before.startswith("|") and before != "||") or (behind.startswith("|") and behind != "||")
        shown = command.statement if piped else ""
        stages.append(plain_stage(command, shown))
    return Line(text, tuple(stages))


def plain_stage(command: Command, shown: str = "") -> Stage:
    """A simple command as a sub-command, single blanks between its words."""
    text, starts = [], []
    at = 0
    for word in command.words:
        starts.append(at)
        text.append(word.raw)
        at += len(word.raw) + 1
    outputs = tuple(Output(one.operator, one.target) for one in command.redirects)
    assignments = tuple((one.name, one.value) for one in command.assignments)
    statement = command.statement or command.text
    return Stage(" ".join(text), statement, shown, command.words, tuple(starts), assignments, outputs)


class _Reader:
    """One walk over the tree."""

    def __init__(self, joined: str, tame: bytes, source: str) -> None:
        self.data = joined.encode("utf-8", "surrogatepass")
        self.tame = tame  # the same bytes, for the parser
        self.source = source
        self.opaque: str | None = strange_character(source)
        self.background = False
        self.stages: list[Stage] = []
        self.nodes = 0

    def read(self, text: str) -> Line:
        root = self._parse()
        if _BLANK_ESCAPE.search(self.source):
            self._refuse("a backslash hides a blank")
        if _QUOTED_COMMENT.search(self.source):
            self._refuse("a quoted newline with `#` behind it hides arguments")
        self._scan(root)
        self._walk(root)
        return Line(text, tuple(self.stages), self.opaque, self.background)

    def _parse(self) -> Node:
        """The tree. What only breaks off, in a quote or behind an operator, is read as if it ended well."""
        parser = Parser(_LANGUAGE)
        root = parser.parse(self.tame).root_node
        if not root.has_error:
            return root
        for ending in (b"'", b'"'):
            other = parser.parse(self.tame + ending).root_node
            if not other.has_error:
                self.data += ending
                return other
        other = parser.parse(_BROKEN_OFF.sub(b"", self.tame)).root_node
        if not other.has_error:
            return other
        self._refuse("the line cannot be parsed")
        return root

    def _refuse(self, reason: str) -> None:
        self.opaque = self.opaque or reason

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    def _scan(self, root: Node) -> None:
        """Everything anywhere that makes the line opaque. A substitution that is assigned is judged, not opaque."""
        stack = [(root, False)]
        while stack:
            node, assigned = stack.pop()
            self.nodes += 1
            if self.nodes > NODES_MAX:
                self._refuse("the line is too complicated to look into")
                return
            kind = node.type
            if kind in _OPAQUE and not (assigned and kind == "command_substitution"):
                self._refuse(_OPAQUE[kind])
            elif kind == "simple_expansion" and self._text(node) != _HOME:
                self._refuse(f"`{self._text(node)}` is known only when the line runs")
            elif _is_select(node):
                self._refuse("`select` is not looked into")
            elif kind == "heredoc_redirect":
                self._heredoc(node)
            elif kind in ("word", "concatenation") and _BRACES.search(self._text(node)):
                self._refuse("braces expand to several words")
            elif kind == "file_redirect":
                self._file_redirect(node)
            elif kind == "variable_assignments":
                self._refuse("several variables are set at once")
            elif kind == "word" and re.match(r"=[A-Za-z]", self._text(node)):
                self._refuse("`=name` is a path in another shell")
            elif kind == "variable_assignment" and self._text(node).startswith("IFS="):
                self._refuse("`IFS` changes what a word is")
            inside = kind == "variable_assignment" or (assigned and kind != "command_substitution")
            stack += [(child, inside) for child in node.children]

    def _heredoc(self, node: Node) -> None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if start is None or self._text(start)[:1] not in "'\"\\":
            self._refuse("a here-document is expanded when the line runs")

    def _file_redirect(self, node: Node) -> None:
        text = self._text(node)
        if "<>" in text:
            self._refuse("`<>` reads and writes")
        elif "$" in text:
            self._refuse("the target of a redirection is known only when the line runs")

    # --- sub-commands

    def _walk(self, root: Node) -> None:
        stack: list[tuple[Node, tuple[Node, ...], bool, Node | None]] = [(root, (), False, None)]
        while stack:
            node, redirects, looped, pipeline = stack.pop()
            kind = node.type
            if kind in _COMMANDS:
                self._command(node, redirects, looped, pipeline)
            elif kind in ("variable_assignment", "variable_assignments"):
                self._assigned(node, looped)
            elif kind in _REDIRECTS:
                self._bare(node, (node,), looped=looped)
            elif kind == "redirected_statement":
                stack += reversed(self._redirected(node, redirects, looped, pipeline))
            elif (kind in _LISTS or kind in _FLOW) and not _is_select(node):
                if any(child.type == "&" for child in node.children):
                    self.background = True
                inner = node if kind == "pipeline" else pipeline
                parts = [child for child in node.named_children if child.type not in ("comment", "variable_name")]
                if kind == "for_statement":
                    parts = [child for child in parts if child.type == "do_group"]
                last = parts[-1] if parts else None
                stack += [
                    (child, redirects if child == last else (), looped or kind == "for_statement", inner)
                    for child in reversed(parts)
                ]

    def _redirected(
        self, node: Node, redirects: tuple[Node, ...], looped: bool, pipeline: Node | None
    ) -> list[tuple[Node, tuple[Node, ...], bool, Node | None]]:
        own = tuple(child for child in node.named_children if child.type in _REDIRECTS)
        body = node.child_by_field_name("body")
        if body is None:
            self._bare(node, own, looped=looped)
            return []
        return [(body, (*own, *redirects), looped, pipeline)]

    def _bare(self, node: Node, redirects: tuple[Node, ...], *, looped: bool) -> None:
        """A redirection without a command."""
        text, outputs = self._text(node).strip(), self._outputs(redirects)
        self.stages.append(Stage("", text, "", (), outputs=outputs, looped=looped, redirected_first=True))

    def _assigned(self, node: Node, looped: bool) -> None:
        """`A=1` alone sets a variable; what is substituted in it is a sub-command."""
        text = self._text(node).strip()
        self._substituted(node, looped)
        self.stages.append(Stage("", text, text, (), assignments=self._assignments([node]), looped=looped))

    def _substituted(self, node: Node, looped: bool) -> None:
        stack = [node]
        while stack:
            one = stack.pop()
            if one.type == "command_substitution":
                for child in one.named_children:
                    if child.type in _COMMANDS:
                        self._command(child, (), looped, None)
            else:
                stack += one.children

    def _assignments(self, nodes: list[Node]) -> tuple[tuple[str, Word], ...]:
        found = []
        for node in nodes:
            name, _, value = self._text(node).partition("=")
            found.append((name, decode(value)[0]))
        return tuple(found)

    def _command(self, node: Node, redirects: tuple[Node, ...], looped: bool, pipeline: Node | None) -> None:
        assigned = [child for child in node.children if child.type == "variable_assignment" and node.type == "command"]
        for child in assigned:
            self._substituted(child, looped)
        own = tuple(child for child in node.children if child.type in _REDIRECTS)
        parts = [
            child
            for child in node.children
            if child.type not in _REDIRECTS
            and (child.type != "variable_assignment" or node.type != "command")
            and child.end_byte > child.start_byte
        ]
        words = tuple(_word(self._text(part)) for part in parts)
        text, starts = self._joined(parts)
        around = node
        while around.parent is not None and around.parent.type in ("redirected_statement", "negated_command"):
            around = around.parent
        negated = around.type == "negated_command"
        # In `a && b > c` the grammar hangs the redirection on the list, the shell on `b`.
        outer = [self._text(one) for one in redirects if one.start_byte >= around.end_byte]
        stage = Stage(
            text,
            " ".join([self._text(node if negated else around).strip(), *outer]),
            self._text(around).strip() if pipeline is not None else "",
            words,
            starts,
            self._assignments(assigned),
            self._outputs((*own, *redirects)),
            looped,
            any(one.start_byte < parts[0].start_byte for one in (*own, *redirects)) if parts else False,
        )
        self.stages.append(stage)

    def _joined(self, parts: list[Node]) -> tuple[str, tuple[int, ...]]:
        """The source from the first word to the last, blanks as written; redirections between words are left out."""
        text, starts, end = "", [], None
        for part in parts:
            if end is not None:
                gap = self.data[end : part.start_byte].decode("utf-8", "replace")
                text += gap if not gap.strip() else " "
            starts.append(len(text))
            text += self._text(part)
            end = part.end_byte
        return text, tuple(starts)

    def _outputs(self, nodes: tuple[Node, ...]) -> tuple[Output, ...]:
        found = []
        for node in nodes:
            if node.type != "file_redirect":
                continue
            operator = "".join(self._text(child) for child in node.children if not child.is_named)
            targets = [child for child in node.named_children if child.type != "file_descriptor"]
            if targets:
                found.append(Output(operator, _word(self._text(targets[0]))))
        return tuple(found)


def _is_select(node: Node) -> bool:
    return node.type == "for_statement" and node.children[0].type == "select"


def _word(raw: str) -> Word:
    """A word; `$HOME`, which the program knows, stays as it is written and counts as known."""
    word, _ = decode(raw)
    if word.resolved is None and _HOME in raw:
        bare, _ = decode(raw.replace(_HOME, "\1"))
        if bare.resolved is not None:
            return Word(raw, bare.resolved.replace("\1", _HOME), bare.quoted, bare.glob, bare.tilde)
    return word

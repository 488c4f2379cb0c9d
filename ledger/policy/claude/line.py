"""A Bash line as Claude Code parses it: the sub-commands that it judges, or the reason why the line is opaque to it.

Unlike `ledger.policy.shell`, this copies the program, blind spots included: commands in sub-shells, groups, functions
and substitutions are not judged; the line is asked about as a whole instead. Pure and bounded.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from ledger.core.late_patterns import late_pattern
from ledger.policy.claude.strings import (
    TEXT_MIN,
    UNKNOWN,
    Span,
    is_known_later,
    is_single,
    message_of,
    replaced,
)
from ledger.policy.shell.budget import NODES_MAX, Budget
from ledger.policy.shell.lexer import lex
from ledger.policy.shell.model import Analysis, ShellCommand, Word
from ledger.policy.shell.text import join_lines, strange_character, too_long
from ledger.policy.shell.words import decode

_LANGUAGE: Final = Language(tree_sitter_bash.language())

_LISTS: Final = frozenset({"program", "list", "pipeline", "negated_command"})
_FLOW: Final = frozenset({"if_statement", "elif_clause", "else_clause", "while_statement", "do_group", "for_statement"})
_OPAQUE: Final = {
    "command_substitution": "a substitution runs another command",
    "process_substitution": "a process substitution runs another command",
    "expansion": "`${…}` is known only when the line runs",
    "subshell": "a sub-shell is not analysed",
    "compound_statement": "a group is not analysed",
    "function_definition": "a function is not analysed",
    "case_statement": "`case` is not analysed",
    "c_style_for_statement": "an arithmetic loop is not analysed",
    "ansi_c_string": "`$'…'` is not analysed",
    "translated_string": '`$"…"` is not analysed',
    "brace_expression": "braces expand to several words",
    "array": "an array is not analysed",
    "subscript": "a subscript may run a command",
}
_PIECES: Final = frozenset({"command_substitution", "simple_expansion", "arithmetic_expansion"})
_LITERAL_DOLLAR = late_pattern(r"\$\s+[A-Za-z_]\w*", re.ASCII)
"""The literal `$` of `"a$ b"`, which the grammar takes for the variable `b`."""

_SUM = late_pattern(r"\$\(\([0-9+\-*/%<>&|^() \t]*\)\)")
_DECIDES = late_pattern(r"(?:PATH|HOME|BASH_ENV|ENV|LD_\w+|DYLD_\w+)\+?=")
_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_HERE_DOCUMENT: Final = frozenset({"heredoc_start", "heredoc_body", "heredoc_end"})
_COMMANDS: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_HOME: Final = "$HOME"
_BLANK_ESCAPE = late_pattern(r"\\[ \t]|(?<=[^\s\\])\\\n")
_QUOTED_COMMENT = late_pattern(r"'[^']*\n\s*#[^']*'|\"[^\"]*\n\s*#[^\"]*\"")
_BROKEN_OFF = late_pattern(rb"(?:&&|\|\|?)\s*\Z")
_BRACES = late_pattern(r"\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")


class FileRedirection(msgspec.Struct, frozen=True):
    """A redirection that writes to a file, or reads from one."""

    operator: str
    target: Word


class ClaudeStage(msgspec.Struct, frozen=True):
    """One sub-command. `text` has neither assignments nor redirections, `statement` has both, `shown` is for messages.

    `starts` are the offsets of the words in `text`. `substituted`: the sub-command is inside a substitution.
    """

    text: str
    statement: str
    shown: str
    words: tuple[Word, ...]
    starts: tuple[int, ...] = ()
    assignments: tuple[tuple[str, Word], ...] = ()
    outputs: tuple[FileRedirection, ...] = ()
    looped: bool = False
    redirected_first: bool = False
    substituted: bool = False


class ClaudeLine(msgspec.Struct, frozen=True):
    """A parsed line. `opaque` is the reason why the program asks about the whole line; None if it judges the stages.

    `background` marks `&`, which is asked about whatever the rules are. `stages` may be empty. `assigns`: a variable is
    set by itself, so that no command runs without a rule.
    """

    text: str
    stages: tuple[ClaudeStage, ...]
    opaque: str | None = None
    background: bool = False
    assigns: bool = False


def read_line(source: str) -> ClaudeLine:
    """Parse a line. Linear except for the parser; a line that is too long or too complicated is opaque."""
    text = source.strip()
    if too_long(source):
        return ClaudeLine(text, (), "the line is longer than 64 KiB and was not analysed")
    budget = Budget()
    joined = join_lines(source)
    tame = budget.take_script(joined)
    if tame is None:
        plain = lex(source)
        return _plain_line(text, plain) if plain.plain else ClaudeLine(text, (), plain.reason or budget.spent)
    return _Reader(joined, tame, source).read(text)


def _plain_line(text: str, analysis: Analysis) -> ClaudeLine:
    """Return a line that is too long for the parser and has only simple commands."""
    joints = ("", *analysis.operators, "")
    stages = []
    for command, before, behind in zip(analysis.commands, joints, joints[1:], strict=False):
        piped = (before.startswith("|") and before != "||") or (behind.startswith("|") and behind != "||")
        shown = command.statement if piped else ""
        stages.append(plain_stage(command, shown))
    return ClaudeLine(text, tuple(stages))


def plain_stage(command: ShellCommand, shown: str = "") -> ClaudeStage:
    """Return a simple command as a sub-command, with single blanks between its words."""
    text, starts = [], []
    at = 0
    for word in command.words:
        starts.append(at)
        text.append(word.raw)
        at += len(word.raw) + 1
    outputs = tuple(FileRedirection(one.operator, one.target) for one in command.redirects)
    assignments = tuple((one.name, one.value) for one in command.assignments)
    statement = command.statement or command.text
    return ClaudeStage(" ".join(text), statement, shown, command.words, tuple(starts), assignments, outputs)


class _Reader:
    """One walk over the syntax tree."""

    def __init__(self, joined: str, tame: bytes, source: str) -> None:
        self.data = joined.encode("utf-8", "surrogatepass")
        self.tame = tame  # the same bytes, for the parser
        self.source = source
        self.opaque: str | None = strange_character(source)
        self.background = False
        self.stages: list[ClaudeStage] = []
        self.nodes = 0
        self.assigns = False
        self.pieces: dict[Span, str] = {}  # the known text of pieces of strings
        self.opened: set[int] = set()
        self.todo: list[tuple[Node, tuple[Node, ...], bool, Node | None]] = []

    def read(self, text: str) -> ClaudeLine:
        root = self._parse()
        if _BLANK_ESCAPE.search(self.source):
            self._refuse("a backslash hides a blank")
        self._scan(root)
        if _QUOTED_COMMENT.search(self._without_messages()):
            self._refuse("a quoted newline with `#` after it hides arguments")
        self._walk(root)
        return ClaudeLine(text, tuple(self.stages), self.opaque, self.background, self.assigns)

    def _without_messages(self) -> str:
        messages = {span: "" for span, value in self.pieces.items() if value != UNKNOWN}
        return replaced(self.data, 0, messages) if messages else self.source

    def _parse(self) -> Node:
        """Return the tree. A line that ends in a quote or behind an operator is parsed as if it were complete."""
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
        """Find everything that makes the line opaque. A substitution in an assignment is judged, not opaque."""
        stack = [(root, False)]
        while stack:
            node, assigned = stack.pop()
            self.nodes += 1
            if self.nodes > NODES_MAX:
                self._refuse("the line is too complex to analyse")
                return
            kind = node.type
            if kind == "string":
                stack += [(child, False) for piece in self._string(node) for child in piece.children]
                continue
            if kind in _OPAQUE and not (assigned and kind == "command_substitution" and is_single(node)):
                self._refuse(_OPAQUE[kind])
            else:
                self._look(node, kind)
            inside = kind == "variable_assignment" or (assigned and kind != "command_substitution")
            stack += [(child, inside) for child in node.children]

    def _look(self, node: Node, kind: str) -> None:
        """Check one node whose kind alone does not make it opaque."""
        if kind == "simple_expansion" and self._text(node) != _HOME:
            self._refuse(f"`{self._text(node)}` is known only when the line runs")
        elif kind == "arithmetic_expansion" and not _SUM.fullmatch(self._text(node)):
            self._refuse("a sum of variables is known only when the line runs")
        elif _is_select(node):
            self._refuse("`select` is not analysed")
        elif kind == "heredoc_redirect":
            self._heredoc(node)
        elif kind == "concatenation" and any(child.type == "$" for child in node.children):
            self._refuse("a variable in a word is known only when the line runs")
        elif kind in ("word", "concatenation") and _BRACES.search(self._text(node)):
            self._refuse("braces expand to several words")
        elif kind == "file_redirect":
            self._file_redirect(node)
        elif kind == "variable_assignments":
            self._refuse("several variables are set at once")
        elif kind == "word" and re.match(r"=[A-Za-z]|=\Z", self._text(node)):
            self._refuse("`=name` is a path in another shell")
        elif kind == "word" and re.search(r"(?<!\\)\$", self._text(node)):
            self._refuse("a variable in a word is known only when the line runs")
        elif kind == "variable_assignment" and self._text(node).startswith("IFS="):
            self._refuse("`IFS` changes what a word is")

    def _string(self, node: Node) -> list[Node]:
        """Record the pieces of a double-quoted string, and return those that need further checks."""
        unknown, inner = [], []
        for piece in node.children:
            text = self._text(piece).strip()
            if piece.type not in _PIECES or text == _HOME or _LITERAL_DOLLAR.fullmatch(text):
                if piece.type in _OPAQUE:
                    self._refuse(_OPAQUE[piece.type])
                inner += [piece]
                continue
            span = (piece.start_byte + _blanks_before(self._text(piece)), piece.end_byte)
            message = message_of(piece, self._text) if piece.type == "command_substitution" else None
            if message is not None:
                self.pieces[span] = message
                continue
            unknown.append(span)
            self.pieces[span] = UNKNOWN
            if not is_known_later(piece, self._text):
                self._refuse(f"`{self._text(piece)}` is known only when the line runs")
            inner += [piece] if piece.type == "command_substitution" else []
        if unknown:
            text = replaced(self.data[node.start_byte : node.end_byte], node.start_byte, self.pieces)
            if len(text) - len(unknown) - 2 < TEXT_MIN:
                self._refuse("a string made almost only of expansions is known only when the line runs")
            elif _begins_option(self._text(_word_around(node))) or _decides(node):
                self._refuse("an option, a name or a test is known only when the line runs")
        return inner

    def _heredoc(self, node: Node) -> None:
        start = next((child for child in node.children if child.type == "heredoc_start"), None)
        if start is None or self._text(start)[:1] not in "'\"\\":
            self._refuse("a here-document is expanded when the line runs")
        elif not {child.type for child in node.named_children} <= _HERE_DOCUMENT:
            self._refuse("something follows the start of a here-document")

    def _file_redirect(self, node: Node) -> None:
        text = self._text(node)
        if "<>" in text:
            self._refuse("`<>` reads and writes")
        elif text.endswith("&-"):
            self._refuse("a closed descriptor is not analysed")
        elif "$" in text or "`" in text:
            self._refuse("the target of a redirection is known only when the line runs")

    # --- sub-commands

    def _walk(self, root: Node) -> None:
        stack = self.todo
        stack.append((root, (), False, None))
        while stack:
            node, redirects, looped, pipeline = stack.pop()
            kind = node.type
            if self._sets_first(node):
                stack.append((node, redirects, looped, pipeline))
                self._substituted([child for child in node.children if child.type == "variable_assignment"], looped)
            elif kind in _COMMANDS:
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

    def _sets_first(self, node: Node) -> bool:
        """Return whether the assignments of a command have to be walked before the command; once for each command."""
        if node.type != "command" or node.id in self.opened:
            return False
        self.opened.add(node.id)
        return any(child.type == "variable_assignment" for child in node.children)

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
        """Add a redirection without a command."""
        text, outputs = self._text(node).strip(), self._outputs(redirects)
        self.stages.append(ClaudeStage("", text, "", (), outputs=outputs, looped=looped, redirected_first=True))

    def _assigned(self, node: Node, looped: bool) -> None:
        """Add an assignment without a command, such as `A=1`; a substitution in it is a sub-command."""
        text = self._text(node).strip()
        self.assigns = True
        if _DECIDES.match(text):
            self._refuse(f"`{text}` changes what later commands are")
        self._substituted([node], looped)
        self.stages.append(ClaudeStage("", text, text, (), assignments=self._assignments([node]), looped=looped))

    def _substituted(self, nodes: list[Node], looped: bool) -> None:
        """Walk the commands of substitutions next; they are sub-commands of their own."""
        stack = list(nodes)
        while stack:
            one = stack.pop()
            if one.type != "command_substitution":
                stack += one.children
            elif self._is_judged(one):
                self.todo += [(child, (), looped, None) for child in reversed(one.named_children)]

    def _is_judged(self, substitution: Node) -> bool:
        """Return whether a substitution is judged: in a line asked about as a whole, only what comes before it."""
        span = (substitution.start_byte, substitution.end_byte)
        assigned = substitution.parent is not None and substitution.parent.type == "variable_assignment"
        return assigned or (self.opaque is None and self.pieces.get(span) == UNKNOWN)

    def _assignments(self, nodes: list[Node]) -> tuple[tuple[str, Word], ...]:
        found = []
        for node in nodes:
            name, _, value = self._text(node).partition("=")
            found.append((name, decode(value)[0]))
        return tuple(found)

    def _command(self, node: Node, redirects: tuple[Node, ...], looped: bool, pipeline: Node | None) -> None:
        assigned = [child for child in node.children if child.type == "variable_assignment" and node.type == "command"]
        own = tuple(child for child in node.children if child.type in _REDIRECTS)
        parts = [
            child
            for child in node.children
            if child.type not in _REDIRECTS
            and (child.type != "variable_assignment" or node.type != "command")
            and child.end_byte > child.start_byte
        ]
        self._substituted([*parts, *own, *redirects], looped)
        words = tuple(self._word(part) for part in parts)
        text, starts = self._joined(parts)
        around = node
        while around.parent is not None and around.parent.type in ("redirected_statement", "negated_command"):
            around = around.parent
        negated = around.type == "negated_command"
        # In `a && b > c` the grammar attaches the redirection to the list, the shell to `b`.
        outer = [self._text(one) for one in redirects if one.start_byte >= around.end_byte]
        stage = ClaudeStage(
            text,
            " ".join([self._text(node if negated else around).strip(), *outer]),
            self._text(around).strip() if pipeline is not None else "",
            words,
            starts,
            self._assignments(assigned),
            self._outputs((*own, *redirects)),
            looped,
            any(one.start_byte < parts[0].start_byte for one in (*own, *redirects)) if parts else False,
            _is_substituted(node),
        )
        self.stages.append(stage)

    def _word(self, node: Node) -> Word:
        raw = self._text(node)
        word = _word(raw)
        if word.resolved is None and self.pieces:
            known = replaced(self.data[node.start_byte : node.end_byte], node.start_byte, self.pieces)
            inner = _word(known)
            return Word(raw, inner.resolved, inner.quoted, inner.glob, inner.tilde)
        return word

    def _joined(self, parts: list[Node]) -> tuple[str, tuple[int, ...]]:
        """Return the source from the first word to the last, blanks as written, without redirections between words."""
        text, starts, end = "", [], None
        for part in parts:
            if end is not None:
                gap = self.data[end : part.start_byte].decode("utf-8", "replace")
                text += gap if not gap.strip() else " "
            starts.append(len(text))
            text += self._text(part)
            end = part.end_byte
        return text, tuple(starts)

    def _outputs(self, nodes: tuple[Node, ...]) -> tuple[FileRedirection, ...]:
        found = []
        for node in nodes:
            if node.type != "file_redirect":
                continue
            operator = "".join(self._text(child) for child in node.children if not child.is_named)
            targets = [child for child in node.named_children if child.type != "file_descriptor"]
            if targets:
                found.append(FileRedirection(operator, _word(self._text(targets[0]))))
        return tuple(found)


def _is_select(node: Node) -> bool:
    return node.type == "for_statement" and node.children[0].type == "select"


def _blanks_before(text: str) -> int:
    """Return the number of leading blanks, which the grammar includes in a variable."""
    return len(text) - len(text.lstrip())


def _is_substituted(node: Node) -> bool:
    around: Node | None = node
    while around is not None and around.type not in ("command_substitution", "program"):
        around = around.parent
    return around is not None and around.type == "command_substitution"


def _word_around(node: Node) -> Node:
    parent = node.parent
    return parent if parent is not None and parent.type == "concatenation" else node


def _begins_option(raw: str) -> bool:
    return raw.lstrip("\"'").startswith("-")


def _decides(node: Node) -> bool:
    """Return whether a string is the name of a command, or part of a test."""
    while node.parent is not None and node.parent.type not in ("command", "program", "command_substitution"):
        node = node.parent
        if node.type in ("command_name", "test_command"):
            return True
    return False


def _word(raw: str) -> Word:
    """Return a word; `$HOME`, which the program expands, stays as written and counts as known."""
    word, _ = decode(raw)
    if word.resolved is None and _HOME in raw:
        bare, _ = decode(raw.replace(_HOME, "\1"))
        if bare.resolved is not None:
            return Word(raw, bare.resolved.replace("\1", _HOME), bare.quoted, bare.glob, bare.tilde)
    return word

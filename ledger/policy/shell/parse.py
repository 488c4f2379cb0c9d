"""All commands of a line at any depth, found with tree-sitter-bash, and the budget of one analysis. Pure.

For deny and ask rules and for OpenCode's patterns only. Commands that the parser does not understand are missing, so a
line that is not plain always asks. Work is bounded by counted steps, never by a clock.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.model import Assignment, Redirect, ShellCommand, Word
from ledger.policy.shell.words import decode, loosen

COMMANDS_MAX: Final = 2_000
NODES_MAX: Final = 40_000
# The parser needs quadratic time to give up on some texts (`>&` repeated: 6 s for 64 kB). Its input is therefore
# bounded over all scripts of a line: in bytes outside here-document texts, and in openings.
LIVE_BYTES_MAX: Final = 4 * 1024
OPENINGS_MAX: Final = 1_000
HERE_DOCUMENTS_MAX: Final = 50
_OPENINGS: Final = ("$", "`", "<<", "(", "{", "[[", "case", "|")

# A here-document's text in which nothing runs: its delimiter is quoted, or the text has neither `$` nor a backtick.
_HERE_TEXT = late_pattern(
    r"""<<-?[ \t]*+(?:(?P<quote>['"])(?P<quoted>\w++)(?P=quote)|\\(?P<escaped>\w++)|(?P<word>\w++))[^\n]*+\n
    (?P<text>(?:(?![ \t]*+(?:(?P=quoted)|(?P=escaped)|(?P=word))(?:\n|\Z))[^\n]*+\n)*+)""",
    re.VERBOSE,
)
_BLANK: Final = "\x1a"
_LETTERS = late_pattern(r"[^\n]")

_ASCII_ONLY: Final = bytes(range(128)) + b"x" * 128
_NAME_HASH = late_pattern(rb"((?:\A|[\n;&|(])[ \t]*+[A-Za-z0-9_./-]++)#")
_LEADING_ESCAPE = late_pattern(rb"(\n[ \t]*+)\\(?=[A-Za-z0-9_./-])")


def _blank(found: re.Match[str]) -> str:
    text, body = found.group(), found["text"]
    if found["word"] is not None and ("$" in body or "`" in body):
        return text
    head = text[: len(text) - len(body)]
    return head + _LETTERS.sub(lambda letter: _BLANK * len(letter[0].encode("utf-8", "surrogatepass")), body)


def _safe(source: str) -> bytes:
    """Return the source in bytes, with letters for everything that crashes or misleads the grammar's scanner.

    For parsing only: the length stays the same, and no command's text is sliced from it. The scanner asks the C library
    whether a character is a letter, which reads beyond its table for most of Unicode and has crashed. It also takes a
    backslash at the start of a line for the end of the previous line, and `#` in a name for a comment.
    """
    data = source.encode("utf-8", "surrogatepass").translate(_ASCII_ONLY)
    if b"#" in data:
        data = _NAME_HASH.sub(rb"\1x", data)
    return _LEADING_ESCAPE.sub(rb"\1x", data) if b"\n" in data else data


class Budget:
    """The remaining work of one analysis. `spent` is the reason, a sentence, once a limit is reached; None before."""

    __slots__ = ("bytes", "commands", "nodes", "openings", "spent")

    def __init__(self) -> None:
        self.commands = COMMANDS_MAX
        self.nodes = NODES_MAX
        self.bytes = LIVE_BYTES_MAX
        self.openings = OPENINGS_MAX
        self.spent: str | None = None

    def take_script(self, source: str) -> bytes | None:
        """Return the parser's input for `source`; None when the budget is spent.

        It has the same length; texts of here-documents are blanked.
        """
        if source.count("<<") > HERE_DOCUMENTS_MAX:
            self.spent = "the line holds too many here-documents to analyse"
            return None
        tame = _HERE_TEXT.sub(_blank, source) if "<<" in source and _BLANK not in source else source
        self.bytes -= len(tame.encode("utf-8", "surrogatepass")) - (tame.count(_BLANK) if tame is not source else 0)
        self.openings -= sum(map(tame.count, _OPENINGS))
        if self.spent is None and (self.bytes < 0 or self.openings < 0):
            self.spent = "the line is too long or too complex to analyse"
        return _safe(tame) if self.spent is None else None

    def take_node(self) -> bool:
        self.nodes -= 1
        if self.nodes < 0 and self.spent is None:
            self.spent = "the line is too complex to analyse"
        return self.spent is None

    def take_command(self) -> bool:
        self.commands -= 1
        if self.commands < 0:
            self.spend_commands()
        return self.spent is None

    def spend_commands(self) -> None:
        if self.spent is None:
            self.spent = f"the line would run more than {COMMANDS_MAX:,} commands"


_LANGUAGE: Final = Language(tree_sitter_bash.language())

_BACKTICKS: Final = late_pattern(r"`((?:[^`\\]|\\.)*+)`", re.DOTALL)

_BACKTICK_ESCAPE = late_pattern(r"\\([$`\\])")

_REDIRECTS: Final = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_COMMAND_LIKE: Final = frozenset({"command", "declaration_command", "unset_command", "test_command"})
_SOURCE_WORDS: Final = frozenset({"command_name", "word", "string", "raw_string", "concatenation"})


class Found(msgspec.Struct, frozen=True):
    """A command and its input from a here-document or here-string, which is a script if the command is a shell."""

    command: ShellCommand
    stdin: str | None = None


def parse(source: str, budget: Budget, inside: str | None = None) -> list[Found]:
    """Return the commands of `source`, each followed by those in its words. Stops early when `budget` is spent.

    The continued lines of `source` must have been joined. `inside` is set on the commands that `source` runs itself.
    """
    tame = budget.take_script(source)
    return [] if tame is None else _Walk(source, tame, budget).run(inside)


def is_grammatical(source: str) -> bool:
    """Return whether the grammar covers the whole line, whose continued lines must have been joined."""
    tame = Budget().take_script(source)
    return tame is not None and not Parser(_LANGUAGE).parse(tame).root_node.has_error


def source_commands(source: str, nodes_max: int = NODES_MAX) -> tuple[ShellCommand, ...] | None:
    """Return each `command` node of the source exactly as written, in source order, as OpenCode does.

    `text` is the node's text and `statement` that of a surrounding redirected statement, both trimmed; `words` are the
    raw words that OpenCode counts. Nothing is joined or unwrapped, and `words` does not include assignments. None when
    the line is too long or too complicated to parse.
    """
    budget = Budget()
    tame = budget.take_script(source)
    if tame is None:
        return None
    data = source.encode("utf-8", "surrogatepass")
    stack, found = [Parser(_LANGUAGE).parse(tame).root_node], []
    while stack:
        node = stack.pop()
        nodes_max -= 1
        if nodes_max < 0:
            return None
        if node.type == "command":
            parent = node.parent
            around = parent if parent is not None and parent.type == "redirected_statement" else node
            raws = [_slice(data, child) for child in node.children if child.type in _SOURCE_WORDS]
            words = tuple(decode(raw)[0] for raw in raws)
            found.append(ShellCommand(_slice(data, node).strip(), words, statement=_slice(data, around).strip()))
        stack.extend(reversed(node.named_children))
    return tuple(found)


def _slice(data: bytes, node: Node) -> str:
    return data[node.start_byte : node.end_byte].decode("utf-8", "surrogatepass")


class _Walk:
    """One walk over a tree, without recursion: the nesting of a line is limited only by its length."""

    def __init__(self, source: str, tame: bytes, budget: Budget) -> None:
        self.tame = tame
        self.data = source.encode("utf-8", "surrogatepass")
        self.budget = budget
        self.found: list[Found] = []
        self.stack: list[tuple[Node, str | None]] = []

    def run(self, inside: str | None) -> list[Found]:
        self.stack.append((Parser(_LANGUAGE).parse(self.tame).root_node, inside))
        while self.stack:
            node, inside = self.stack.pop()
            if not self.budget.take_node():
                break
            kind = node.type
            if kind in _COMMAND_LIKE:
                self._command(node, node, [], inside)
            elif kind == "redirected_statement":
                self._redirected(node, inside)
            elif kind in _REDIRECTS:  # redirections of a group, a loop or a function
                self._bare(node, inside, redirects=self._redirects([node])[0])
            elif kind in ("variable_assignment", "variable_assignments"):
                nodes = [node] if kind == "variable_assignment" else node.named_children
                self._bare(node, inside, assignments=[self._assignment(child) for child in nodes])
            else:
                if kind in ("expansion", "command_substitution"):
                    self._missed_backticks(node, inside)
                elif kind == "ERROR" and node.named_children and node.named_children[0].type == "command_name":
                    self._command(node, node, [], inside)
                    continue
                self._descend(node.named_children, inside)
        return self.found

    def _missed_backticks(self, node: Node, inside: str | None) -> None:
        """Parse backticks that the grammar takes for letters.

        They are those of ``${x-`a b`}``, and escaped ones inside backticks.
        """
        text = _slice(self.data, node)
        if "`" not in text:
            return
        if node.type == "expansion":
            known = any(child.type == "command_substitution" for child in node.named_children)
            scripts = [] if known else _BACKTICKS.findall(text)
        else:
            scripts = [_BACKTICK_ESCAPE.sub(r"\1", text[1:-1])] if text[0] == "`" and "\\" in text else []
        for script in scripts:
            self.found += parse(script, self.budget, inside)

    def _descend(self, nodes: list[Node], inside: str | None) -> None:
        self.stack.extend((node, inside) for node in reversed(nodes))

    def _emit(self, command: ShellCommand, stdin: str | None = None) -> None:
        if self.budget.take_command():
            self.found.append(Found(command, stdin))

    def _redirected(self, node: Node, inside: str | None) -> None:
        body = node.child_by_field_name("body")
        redirects = [child for child in node.named_children if child.type in _REDIRECTS]
        if body is not None and body.type in _COMMAND_LIKE:
            self._command(body, node, redirects, inside)
            return
        self._bare(node, inside, redirects=self._redirects(redirects)[0])
        if body is not None:
            self.stack.append((body, inside))

    def _bare(
        self,
        node: Node,
        inside: str | None,
        redirects: list[Redirect] | None = None,
        assignments: list[Assignment] | None = None,
    ) -> None:
        """Emit redirections or assignments that have an effect without a program's name."""
        redirects, text = redirects or [], _slice(self.data, node).strip()
        shown = " ".join(redirect.text for redirect in redirects) if redirects else text
        self._emit(
            ShellCommand("" if redirects else text, (), tuple(assignments or ()), tuple(redirects), shown, inside)
        )
        parts = (
            [child for child in node.named_children if child.type in _REDIRECTS] if redirects else node.named_children
        )
        if node.type in _REDIRECTS:
            parts = node.named_children
        for part in reversed(parts):
            own = part.named_children if part.type in (*_REDIRECTS, "variable_assignment") else [part]
            self._descend(own, shown)

    def _command(self, node: Node, around: Node, redirects: list[Node], inside: str | None) -> None:
        assignments, words, own = [], [], list(redirects)
        split = node.type in ("test_command", "ERROR")
        if split:
            words = [decode(raw)[0] for raw in _slice(self.data, node).split()]
        for child in () if split else node.children:
            if child.type == "variable_assignment" and node.type == "command" and not words:
                assignments.append(self._assignment(child))
            elif child.type in _REDIRECTS:
                own.append(child)
            elif child.end_byte > child.start_byte:
                words.append(decode(_slice(self.data, child))[0])
        parsed, extra, stdin = self._redirects(own)
        words += extra
        whole = _slice(self.data, node).strip()
        if own and any(child.type in _REDIRECTS for child in node.children):
            pieces = [_slice(self.data, child) for child in node.children if child.type not in _REDIRECTS]
            whole = " ".join(pieces)
        statement = _slice(self.data, around).strip()
        command = ShellCommand(whole, tuple(words), tuple(assignments), tuple(parsed), statement, inside)
        if node.type != "test_command" or whole.startswith("[ "):
            self._emit(command, stdin)
        for redirect in reversed(own):
            self._descend_redirect(redirect, inside, whole)
        self._descend([child for child in node.named_children if child.type not in _REDIRECTS], whole)

    def _descend_redirect(self, node: Node, inside: str | None, outer: str) -> None:
        """Walk a redirection.

        The rest of a here-document's first line is its child in the tree, but not part of its command.
        """
        for child in reversed(node.named_children):
            runs_beside = node.type == "heredoc_redirect" and child.type in ("pipeline", "list", "redirected_statement")
            runs_beside = runs_beside or (node.type == "heredoc_redirect" and child.type in _COMMAND_LIKE)
            self._descend([child], inside if runs_beside else outer)

    def _assignment(self, node: Node) -> Assignment:
        name, _, value = _slice(self.data, node).partition("=")
        return Assignment(name.removesuffix("+"), decode(value)[0])

    def _redirects(self, nodes: list[Node]) -> tuple[list[Redirect], list[Word], str | None]:
        """Return the redirections, the words that the grammar takes for more targets, and the standard input's text."""
        redirects, extra, stdin = [], [], None
        for node in nodes:
            operator, words, body = "", list[Word](), None
            for child in node.children:
                text = _slice(self.data, child)
                if child.type == "heredoc_body":
                    body = text
                elif not child.is_named or child.type == "file_descriptor":
                    operator += text if not words else ""
                elif child.type not in ("heredoc_end", "pipeline", "list", *_REDIRECTS, *_COMMAND_LIKE):
                    words.append(decode(text)[0])
                elif child.type in _REDIRECTS:  # `<<A >x`: in the tree, the second one is a child of the first
                    more, rest, _ = self._redirects([child])
                    redirects += more
                    extra += rest
            target = words[0] if words else Word("", "")
            extra += words[1:]
            redirects.append(Redirect(operator, target, operator + " " + target.raw if words else operator))
            if node.type == "herestring_redirect":
                stdin = loosen(target)
            elif body is not None:
                stdin = body
        return redirects, extra, stdin

"""Reduction of a command's words to its normal form, which can be shown in words and as JSON. Pure, linear in the words.

Programs of `sed` and `awk` are plain texts if they only print their input. `awk` is read token by token, and unknown
tokens are refused. Also refused: running or writing (`system`, pipes, `getline`, `print > file`), access beyond the
input (`ENVIRON`, `ARGV`, `PROCINFO`), user-defined functions, and places where implementations disagree if `/` divides
or begins a regular expression.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.policy.matching import whole_glob
from ledger.policy.shell.forms.nodes import (
    Arity,
    Effect,
    Given,
    NormalForm,
    OperandKind,
    OperandWord,
    Option,
    ProgramNode,
    Unclear,
    program_table,
)
from ledger.policy.shell.model import ShellCommand, Word
from ledger.policy.shell.words import may_be_option

_TOKEN = late_pattern(
    r"""(?P<blank>[ \t]++|\#[^\n]*+)
    |(?P<string>"(?:[^"\\\n]|\\[^\n])*+")
    |(?P<number>[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*+)(?P<call>\()?
    |(?P<operator>\+\+|--|&&|\|\||[-+*/%^=!<>]=|[-+*%^=!<>~?:,$]|[;\n{}()\[\]])""",
    re.VERBOSE,
)
_REGEX = late_pattern(r"/(?:[^/\\\n\[]|\\[^\n]|\[\^?\]?[^\]/\\\n]*+\])++/")
_CALLS: Final = frozenset({
    "length", "substr", "index", "split", "toupper", "tolower", "sprintf", "int", "gsub", "sub", "gensub", "match", "sqrt",
    "exp", "log", "sin", "cos", "atan2", "rand", "srand", "strftime", "systime", "strtonum", "asort", "asorti",
    "if", "while", "for", "print", "printf", "in", "exit",
})  # fmt: skip
_REFUSED: Final = frozenset({
    "system", "getline", "close", "fflush", "function", "func", "ENVIRON", "ARGV", "ARGC", "PROCINFO", "SYMTAB", "FUNCTAB",
    "BINMODE", "TEXTDOMAIN", "return", "switch", "case",
})  # fmt: skip
_WORDS: Final = frozenset(
    {"print", "printf", "else", "do", "in", "exit", "next", "delete", "BEGIN", "END", "break", "continue"}
)
_BEFORE_REGEX: Final = frozenset(
    ["(", ",", "{", ";", "\n", "!", "~", "&&", "||", "}", "=", "==", "!=", "?", ":", "print"]
)
_BEFORE_DIVISION: Final = frozenset({"string", "number", "name"})


def is_harmless_awk(text: str) -> bool:
    """Return whether a program is understood and only prints. Linear in its length."""
    at, before, kind = 0, "\n", "operator"
    braces = parentheses = 0
    while at < len(text):
        if text[at] == "/" and before in _BEFORE_REGEX:
            found = _REGEX.match(text, at)
            if found is None:
                return False
            at, before, kind = found.end(), "/", "string"
            continue
        if text[at] == "/" and (kind in _BEFORE_DIVISION or before == "]"):
            at, before, kind = at + (2 if text.startswith("/=", at) else 1), "/", "operator"
            continue
        token = _TOKEN.match(text, at)
        if token is None:
            return False
        at = token.end()
        if token["blank"] is not None:
            continue
        before, kind = token.group(), token.lastgroup or ""
        if kind in ("name", "call"):
            if not _may_be_named(token["name"], is_called=token["call"] is not None):
                return False
            before, kind = ("(", "operator") if token["call"] else (token["name"], "name")
            kind = "operator" if before in _WORDS else kind
        parentheses += (before == "(") - (before == ")")
        braces += (before == "{") - (before == "}")
        if min(parentheses, braces) < 0 or (before == ">" and braces and not parentheses):
            return False
    return braces == 0 and parentheses == 0


def _may_be_named(name: str, *, is_called: bool) -> bool:
    return name not in _REFUSED and (not is_called or name in _CALLS)


# sed: [ADDRESS[,ADDRESS]][!] COMMAND, joined by `;`. `s` has no `e` and no `w` among its flags.
_SED_REGEX = r"/(?:[^/\\\n]|\\[^\n])*+/I?"
_SED_ADDRESS = rf"(?:[0-9]++(?:~[0-9]++)?|\$|{_SED_REGEX})"
_SED_RANGE = rf"(?:{_SED_ADDRESS}(?:,(?:\+[0-9]++|{_SED_ADDRESS}))?+!?)?+"
_SED_SUBSTITUTE = "|".join(
    rf"[sy]{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}(?:[^{mark}\\\n]|\\[^\n])*+{mark}[gpIi0-9]*+"
    for mark in ("/", r"\|", "#", ",", "@", ":", "!", "%")
)
_SED_COMMAND = rf"[ \t]*+{_SED_RANGE}[ \t]*+(?:{_SED_SUBSTITUTE}|[pdqDPhHgGxnN=]|q[0-9]++)?+[ \t]*+"
_SED_SCRIPT = late_pattern(rf"{_SED_COMMAND}(?:[;\n]{_SED_COMMAND})*+")


def is_harmless_script(language: str, text: str) -> bool:
    """Return whether a script only prints. `language` is `sed`, `awk`, or empty for an unknown one."""
    if language == "awk":
        return is_harmless_awk(text)
    return language == "sed" and _SED_SCRIPT.fullmatch(text) is not None


_DIGITS = late_pattern(r"-[0-9]+")
_ASSIGNMENT = late_pattern(r"[A-Za-z_][\w.-]*[:+?!]*=", re.ASCII)
_STARTS_GLOB: Final = "*?["

WORDS_COUNT: Final = 1_000
"""Maximum words of one command that are read."""

_FORMS_KEPT: Final = 64  # one call is judged in several places, each of which asks for its forms


def form_of(command: ShellCommand) -> NormalForm | None:
    """Return the normal form of a command; None for a program without a table or without a known name."""
    return None if command.name is None else form_of_words(command.words)


@lru_cache(maxsize=_FORMS_KEPT)
def form_of_words(words: tuple[Word, ...]) -> NormalForm | None:
    """Return the normal form of a command from its words, the program's name first; None without a table."""
    node = program_table(words[0].resolved or "") if words else None
    return None if node is None else form_by(node, words)


def form_by(node: ProgramNode, words: Sequence[Word]) -> NormalForm:
    """Return the normal form of words by the table of their program."""
    return _Reader(node, words).form()


class _Reader:
    def __init__(self, node: ProgramNode, words: Sequence[Word]) -> None:
        self.root, self.node, self.words = node, node, words
        self.nodes = [node]
        self.path: list[str] = []
        self.path_at: list[int] = []
        self.given: list[Given] = []
        self.raw: list[tuple[int, Word]] = []
        self.unclear: list[Unclear] = []
        self.means: set[str] = set()
        self.inner: ShellCommand | None = None
        self.ended = False
        self.passed = len(words)
        """Index of the first word that belongs to an inner program."""

    def form(self) -> NormalForm:
        """Return the form of the whole command."""
        at = 1
        while at < len(self.words):
            if self.inner is not None or at >= self.passed:
                break
            if at > WORDS_COUNT:
                self._miss(at, f"a command of more than {WORDS_COUNT} words is not analysed")
                break
            at += self._word(at)
        if "*" in self.node.name and self.node.operands is None:
            self._miss(self.path_at[-1], f"`{self._title()}` is in no table")
        if self.node.commands and not self.node.same and self.node.operands is None and self.raw:
            index, word = self.raw[0]
            self._miss(index, f"`{word.raw}` is in no table of `{self._title()}`")
        operands = [*self._operands(), *self._rest()]
        self._asking_words(operands)
        return NormalForm(
            program=self.root.name,
            path=tuple(self.path),
            options=tuple(self.given),
            operands=tuple(operands),
            unclear=tuple(sorted(self.unclear, key=lambda one: one.at)),
            means=frozenset(self.means),
            path_at=tuple(self.path_at),
            nodes=tuple(self.nodes),
            inner=self.inner,
        )

    # --- words
    def _word(self, at: int) -> int:
        """Read the word at an index; return the number of words consumed."""
        word = self.words[at]
        text = word.resolved
        if text is None or (word.glob and not self.ended and text[:1] in _STARTS_GLOB):
            self._unknown(at, word)
            return 1
        if self.ended or not self._is_option(text, at):
            return self._plain_word(at, text)
        if text == "--" and self.node.dashes != "option":
            self._dashes(at)
            return 1
        return self._option(at, text)

    def _unknown(self, at: int, word: Word) -> None:
        """Record a word whose value is unknown: as an operand if an option would be harmless there, else as unclear.

        A plain option may have any value, also behind its own `=`.
        """
        name, equals, _ = (word.prefix or "").partition("=")
        option = self._named(name) if equals and name.startswith("--") and not (word.several or self.ended) else None
        if option is not None and option.effect is Effect.PLAIN and option.arity is not Arity.NONE:
            self._add(Given(option.name, option.effect, word.raw, at))
            return
        is_operand = word.resolved is None and not may_be_option(word) and not self.node.commands
        is_operand = is_operand or (not self.node.interspersed and any(one.resolved for _, one in self.raw))
        if not self.ended and not is_operand and not all(node.is_mild for node in self._visible()):
            self._miss(at, f"`{word.raw}` may become an option of `{self._title()}`")
        else:
            self.raw.append((at, word))

    def _is_option(self, text: str, at: int) -> bool:
        if self.root.style == "dd":
            return "=" in text
        if at == 1 and self.root.old_style and text[:1] != "-":
            return all(f"-{letter}" in self.root.options for letter in text)
        if self.raw and not self.node.interspersed:
            return False
        if self.node.style == "echo":
            return text in self.node.options or (text[:1] == "-" and self._is_cluster(text[1:]))
        return len(text) > 1 and text[0] == "-"

    def _is_cluster(self, letters: str) -> bool:
        """Return whether all letters are options, up to one that takes the rest as its value."""
        for letter in letters:
            option = self.node.options.get(f"-{letter}")
            if option is None:
                return False
            if option.arity is not Arity.NONE:
                return True
        return letters != ""

    def _dashes(self, at: int) -> None:
        self.ended = True
        if self.node.dashes == "words":
            self.passed = at + 1

    def _plain_word(self, at: int, text: str) -> int:
        node = self._command(text) if not self.raw and not self.ended else None
        if node is not None:
            self._enter(node, at, text if "*" in node.name else node.name)
            return 1
        kinds = self.node.operands
        kind = kinds.kind_at(len(self.raw) + self._stands_for_first()) if kinds is not None else None
        if kind is OperandKind.PROGRAM:
            self._begin_inner(at)
        self.raw.append((at, self.words[at]))
        return 1

    # --- sub-commands
    def _command(self, text: str) -> ProgramNode | None:
        commands = self.node.commands
        name = text.lower() if self.node.caseless else text
        if name in commands:
            return commands[name]
        if not self.node.commands_abbreviated:
            return next((commands[key] for key in self.node.command_patterns if whole_glob(key)(name)), None)
        found = {id(node): node for spelt, node in commands.items() if spelt.startswith(name)}
        return next(iter(found.values())) if len(found) == 1 and name else None

    def _enter(self, node: ProgramNode, at: int, name: str) -> None:
        self.path.append(name)
        self.path_at.append(at)
        if node.same:
            self.path = []
            target = self.root
            for step in node.same:
                target = target.commands[step]
                self.path.append(target.name)
            node = target
        self.node = node
        self.nodes.append(node)

    def _title(self) -> str:
        return " ".join((self.root.name, *self.path))

    def _visible(self) -> list[ProgramNode]:
        """Return the nodes whose options are accepted here, the innermost first."""
        above = [one for one in self.nodes[:-1] if one.globals == "anywhere"]
        return [self.node, *reversed(above)]

    # --- options
    def _lookup(self, name: str) -> Option | None:
        for node in self._visible():
            if name in node.options:
                return node.options[name]
        if name == "--help":
            return _HELP
        return self.node.options.get("--*") if name.startswith("--") else None

    def _option(self, at: int, text: str) -> int:
        style = self.node.style
        if style == "dd":
            name, _, value = text.partition("=")
            return self._take(at, self._lookup(name), text, value)
        if at == 1 and self.root.old_style and text[0] != "-":
            return self._old_cluster(at, text)
        if self.node.caseless:
            text = text.lower()
        if style == "go":
            return self._split(at, text, "-" + text.lstrip("-"))
        if style == "words":
            return self._one_dash(at, text)
        if text.startswith("--"):
            return self._split(at, text, text)
        if any(text in node.one_dash_names for node in self._visible()) or (
            self.node.digits and _DIGITS.fullmatch(text)
        ):
            return self._take(at, self._lookup(text) or _NUMBER, text, None)
        return self._cluster(at, text)

    def _split(self, at: int, text: str, spelt: str) -> int:
        """Read `--name` or `--name=value`, or an abbreviated name if the program accepts one."""
        cut = min((spelt.find(one) for one in self.node.separators if one in spelt), default=-1)
        name, value = (spelt, None) if cut < 0 else (spelt[:cut], spelt[cut + 1 :])
        return self._take(at, self._named(name), text, value)

    def _named(self, name: str) -> Option | None:
        option = self._lookup(name)
        if option is not None:
            return option
        negated = self._negated(name)
        if negated is not None or self.node.style != "gnu" or len(name) < 3:
            return negated
        found = {
            node.options[long].name: node.options[long]
            for node in reversed(self._visible())  # of equal names the innermost one counts
            for long in node.long_names
            if long.startswith(name)
        }
        return next(iter(found.values())) if len(found) == 1 else None

    def _negated(self, name: str) -> Option | None:
        if not self.node.negatable or not name.startswith("--no-"):
            return None
        option = self._lookup("--" + name.removeprefix("--no-"))
        if option is None or option.effect not in (Effect.PLAIN, Effect.EDITS, Effect.READ):
            return None
        return Option((f"--no-{option.name.lstrip('-')}",))

    def _one_dash(self, at: int, text: str) -> int:
        option = self._lookup(text)
        if option is not None:
            return self._take(at, option, text, None)
        cuts = [text.find(one) for one in self.node.separators if one in text]
        if cuts and (option := self._lookup(text[: min(cuts)])) is not None:
            return self._take(at, option, text, text[min(cuts) + 1 :])
        glued = self._lookup(text[:2])
        return self._take(at, glued if glued is not None and glued.arity is not Arity.NONE else None, text, text[2:])

    def _cluster(self, at: int, text: str) -> int:
        """Read `-abc`, where each letter is an option.

        The rest of the word, or the next word, is the value of a letter that takes one.
        """
        if not self.node.glued:
            return self._old_cluster(at, text[1:])
        for index, letter in enumerate(text[1:], 2):
            option = self._lookup(f"-{letter}")
            if option is None:
                return self._take(at, None, text, None)
            if option.arity is not Arity.NONE:
                return self._take(at, option, text, text[index:].removeprefix("=") or None)
            self._add(Given(option.name, option.effect, None, at))
        return 1

    def _old_cluster(self, at: int, text: str) -> int:
        """Read `tar cfL ARCHIVE 10`: the values follow in the order of the letters."""
        took = 1
        for letter in text:
            option = self._lookup(f"-{letter}")
            if option is None:
                self._take(at, None, f"-{letter}", None)
            elif option.arity is Arity.NEXT:
                took += self._take(at + took - 1, option, text, None, at) - 1
            else:
                self._add(Given(option.name, option.effect, None, at))
        return took

    def _take(self, at: int, option: Option | None, text: str, value: str | None, place: int | None = None) -> int:
        """Record an option with its own value or the next word as its value; return the number of words consumed."""
        place = at if place is None else place
        if option is None or (value is not None and option.arity is Arity.NONE):
            self._miss(place, f"`{text}` is in no table of `{self._title()}`")
            return 1
        if value is not None or option.arity is not Arity.NEXT:
            self._add(Given(option.name, option.effect, value, place))
            return 1
        following = self.words[at + 1] if at + 1 < len(self.words) else None
        if following is None:
            self._miss(place, f"`{text}` needs a value and has none")
            return 1
        known = following.resolved
        if known is None and (option.effect is not Effect.PLAIN or following.several):
            self._miss(at + 1, f"`{following.raw}` is known only when the line runs")
        if following.glob and not self.node.is_mild:
            self._miss(at + 1, f"`{following.raw}` may become several words")
        if option.effect is Effect.PROGRAM:
            self._begin_inner(at + 1)
            return 1
        self._add(Given(option.name, option.effect, following.raw if known is None else known, place, at + 1))
        return 2

    def _begin_inner(self, at: int) -> None:
        self.inner = ShellCommand(" ".join(word.raw for word in self.words[at:]), tuple(self.words[at:]))

    def _add(self, given: Given) -> None:
        script = given.effect is Effect.CODE and is_harmless_script(self.node.language, given.value or "")
        if script or self._is_harmless_value(given):
            given = replace(given, effect=Effect.PLAIN)
        self.given.append(given)
        for node in self._visible():
            self.means |= node.means.get(given.name, frozenset())

    def _is_harmless_value(self, given: Given) -> bool:
        """Return whether a table declares this value of an option harmless: `-p no:cacheprovider`."""
        patterns = (node.harmless.get(given.name) for node in self._visible())
        pattern = next((one for one in patterns if one is not None), None)
        return pattern is not None and re.fullmatch(pattern, given.value or "") is not None

    def _miss(self, at: int, reason: str) -> None:
        self.unclear.append(Unclear(self.words[at].raw, reason, at))

    # --- operands
    def _stands_for_first(self) -> int:
        return int(any(one.name in self.node.first_from for one in self.given))

    def _operands(self) -> list[OperandWord]:
        kinds = self.node.operands
        if kinds is None:
            for at, word in self.raw if not self.node.commands else ():
                self._miss(at, f"`{word.raw}` is in no table of `{self._title()}`")
            return [OperandWord(word.resolved or word.raw, OperandKind.WORDS, at) for at, word in self.raw]
        if self._stands_for_first():
            kinds = replace(kinds, first=kinds.first[1:])
        found = []
        given = self.raw[1:] if self._is_blank_first() else self.raw
        for (at, word), kind in zip(given, kinds.kinds(len(given)), strict=True):
            text = word.raw if word.resolved is None else word.resolved
            if word.inside:
                text = f"{word.prefix}*"
            if kind is None:
                self._miss(at, f"`{word.raw}` is one word more than `{self._title()}` takes")
            elif self.node.assignment_asks is not None and "=" in text and not self._assigns(text):
                self._miss(at, f"`{word.raw}` sets what `{self._title()}` runs")
            self._operand_means(at, text)
            is_known = word.resolved is not None or word.inside
            found.append(OperandWord(text, self._kind(kind, word), at, is_known, self._also(text)))
        return found

    def _also(self, text: str) -> str | None:
        pattern = self.node.operand_also
        found = re.fullmatch(pattern, text) if pattern else None
        return found[1] if found is not None and found[1] != text else None

    def _is_blank_first(self) -> bool:
        """Return whether the first of several operands is empty: `sed -i '' s/a/b/ f`.

        On macOS the empty word is the suffix of `-i`; elsewhere it is a script without commands.
        """
        return self.node.blank_first and len(self.raw) > 1 and self.raw[0][1].resolved == ""

    def _kind(self, kind: OperandKind | None, word: Word) -> OperandKind:
        if (
            kind is OperandKind.CODE
            and word.resolved is not None
            and is_harmless_script(self.node.language, word.resolved)
        ):
            return OperandKind.TEXT
        return kind or OperandKind.WORDS

    def _asking_words(self, operands: Sequence[OperandWord]) -> None:
        """Report operands and values that match a table's own pattern of dangerous words as unclear."""
        patterns = [node.words_ask for node in self.nodes if node.words_ask]
        found = [(one.at, one.text) for one in operands]
        found += [(one.at, one.value) for one in self.given if one.value is not None]
        for at, text in found:
            if any(re.search(pattern, text) for pattern in patterns):
                self._miss(at, f"`{self.words[at].raw}` makes `{self._title()}` do more than its table says")

    def _assigns(self, text: str) -> bool:
        """Return whether `NAME=value` sets a plain value for a name that does not select what runs."""
        name, _, value = text.partition("=")
        plain = _ASSIGNMENT.match(text) is not None and name.isidentifier()
        return plain and name not in (self.node.assignment_asks or ()) and not set(value) & set("$`;|&()<>\n")

    def _operand_means(self, at: int, text: str) -> None:
        for beginning, name in self.node.operand_means.items():
            if text.startswith(beginning) and len(text) > len(beginning):
                self.means.add(name)
                if name in self.node.options and self.node.options[name].effect is Effect.ASKS:
                    self._miss(at, f"`{text}` means `{name}`")

    def _rest(self) -> list[OperandWord]:
        after = [(at, self.words[at]) for at in range(self.passed, len(self.words))]
        return [
            OperandWord(word.resolved or word.raw, OperandKind.WORDS, at, word.resolved is not None)
            for at, word in after
        ]


_HELP: Final = Option(("--help",))
_NUMBER: Final = Option(("-NUMBER",))


def form_json(form: NormalForm | None) -> dict[str, Any] | None:
    """Return a form as a JSON object, its options ordered by name; None for a program without a table."""
    if form is None:
        return None
    inner = form_of(form.inner) if form.inner is not None else None
    return {
        "program": form.program,
        "path": list(form.path),
        "options": [_option_json(one) for one in _sorted(form.options)],
        "operands": [{"text": one.text, "kind": one.kind.value, "known": one.is_known} for one in form.operands],
        "means": sorted(form.means),
        "unclear": [{"text": one.text, "reason": one.reason} for one in form.unclear],
        **({} if form.inner is None else {"runs": form.inner.text, "inner": form_json(inner)}),
    }


def _option_json(given: Given) -> dict[str, Any]:
    return {"name": given.name, "effect": given.effect.value, "value": given.value}


def _sorted(given: Sequence[Given]) -> list[Given]:
    return sorted(given, key=lambda one: one.name)


def form_text(form: NormalForm) -> str:
    """Return a form as one line: program, sub-commands, options by name, and operands by kind."""
    words = [form.program, *form.path, *(_option_text(one) for one in _sorted(form.options))]
    kinds: dict[OperandKind, list[str]] = {}
    for one in form.operands:
        kinds.setdefault(one.kind, []).append(one.text)
    told = [
        f"{kind.value} {' '.join(f'`{text}`' for text in texts)}"
        for kind, texts in kinds.items()
        if kind is not OperandKind.PROGRAM or form.inner is None
    ]
    if form.inner is not None:
        told.append(f"runs `{form.inner.text}`")
    if form.means:
        told.append(f"means {' '.join(sorted(form.means))}")
    return "; ".join([" ".join(words), *told])


def _option_text(given: Given) -> str:
    return given.name if given.value is None else f"{given.name}={given.value}"

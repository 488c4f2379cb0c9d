"""Values of words, variables and outputs of substitutions, as far as they are known before the line runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from itertools import product
from typing import Final

import msgspec
from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.policy.shell.grammar.nodes import Compound, PieceKind, Shape, Simple, SyntaxNode, WordPiece, WrittenWord
from ledger.policy.shell.lexer import NotPlain, plain_word
from ledger.policy.shell.model import Word
from ledger.policy.shell.names import may_hold_a_secret


class Knowledge(StrEnum):
    """Degrees of knowledge of a value."""

    EXACT = "exact"
    GLOB = "glob"  # one name that the glob matches, or the glob itself
    NUMBER = "number"
    NAME = "name"  # one word that begins with a letter or digit; as a path, it is below the folder
    PREFIX = "prefix"  # any text that begins with `text`


class WordValue(msgspec.Struct, frozen=True):
    """A value.

    `text` is all of it, a glob, or its known beginning. `inside`: all its words are paths below the folder, or below
    `text` if that is a full path.
    """

    known: Knowledge
    text: str = ""
    inside: bool = False


UNKNOWN: Final = WordValue(Knowledge.PREFIX)
NUMBER: Final = WordValue(Knowledge.NUMBER, "0")
"""A number without a sign; `0` stands for its unknown first digit."""
NAME: Final = WordValue(Knowledge.NAME, inside=True)
SIGNED: Final = WordValue(Knowledge.NUMBER)

_SPLITS = late_pattern(r"[\s*?\[\\]")
_GLOB = late_pattern(r"[*?\[]")
_INSIDE = late_pattern(r"[A-Za-z0-9_.@*?\[]")
_REST_OF_NAME = late_pattern(r"[A-Za-z0-9_.~^@:,=-]++")
_SIMPLE = late_pattern(r"[A-Za-z0-9_@%+:,./^=*?\[\]~-]++")


_OPEN: Final = frozenset({Knowledge.PREFIX, Knowledge.NUMBER, Knowledge.NAME})
"""Degrees of knowledge in which the text is unknown."""


def exact(text: str) -> WordValue:
    return WordValue(Knowledge.EXACT, text)


def begins(value: WordValue) -> str:
    """Return the common beginning of all possible texts of a value."""
    if value.known is Knowledge.GLOB:
        return _GLOB.split(value.text, maxsplit=1)[0]
    return value.text


def joined(left: WordValue, right: WordValue) -> WordValue:
    """Return the value of two adjacent pieces of a word."""
    if left.known in (Knowledge.NUMBER, Knowledge.NAME) and left != SIGNED:
        plain = right.known is Knowledge.EXACT and _REST_OF_NAME.fullmatch(right.text)
        return NAME if plain else UNKNOWN
    if left.known in _OPEN:
        return WordValue(Knowledge.PREFIX, begins(left))
    if left.known is Knowledge.EXACT and not left.text:
        return right
    if right.known is Knowledge.EXACT and not right.text:
        return left
    if left.known is Knowledge.GLOB and right.known in _OPEN:
        return WordValue(Knowledge.PREFIX, begins(left))
    if right.known in (Knowledge.NUMBER, Knowledge.NAME):
        return WordValue(Knowledge.PREFIX, left.text, right.known is Knowledge.NAME and is_inside(left))
    if right.known is Knowledge.PREFIX:
        return WordValue(Knowledge.PREFIX, left.text + right.text)
    known = Knowledge.GLOB if Knowledge.GLOB in (left.known, right.known) else Knowledge.EXACT
    return WordValue(known, left.text + right.text)


def either(one: WordValue, other: WordValue) -> WordValue:
    """Return the value that holds for both."""
    if one == other:
        return one
    inside = is_inside(one) and is_inside(other)
    return WordValue(Knowledge.PREFIX, *common((begins(one), begins(other)), inside=inside))


def common_beginning(texts: Sequence[str]) -> str:
    """Return the longest common beginning of texts."""
    first, last = min(texts), max(texts)
    at = next((index for index, char in enumerate(first) if char != last[index]), len(first))
    return first[:at]


def common(texts: Sequence[str], *, inside: bool) -> tuple[str, bool]:
    """Return the common beginning of values, and whether all are inside: of a full path only that beginning says where."""
    return common_beginning(texts), inside and len({text.startswith("/") for text in texts}) == 1


def is_inside(value: WordValue) -> bool:
    """Return whether the value is a path below the folder, judged by its characters."""
    if value.known in (Knowledge.EXACT, Knowledge.GLOB):
        return bool(_INSIDE.match(value.text)) and ".." not in value.text.split("/")
    return value.inside


def unquoted(value: WordValue) -> tuple[WordValue, bool]:
    """Return the value of an unquoted variable, and whether it may become several words or none."""
    if value.known in (Knowledge.NUMBER, Knowledge.NAME):
        return value, False
    if value.known is Knowledge.EXACT and value.text and not _SPLITS.search(value.text):
        return value, False
    return WordValue(Knowledge.PREFIX, _SPLITS.split(begins(value), maxsplit=1)[0], is_inside(value)), True


def word_of(value: WordValue, raw: str, *, several: bool, tilde: bool) -> Word:
    """Return the word of a value. `raw` is its source, used if the value is not known."""
    if several or value.known in _OPEN:
        inside = value.inside or value.known is Knowledge.NUMBER
        operand = not several and (value.known is Knowledge.NAME or value == NUMBER)
        return Word(raw, None, prefix=begins(value), several=several, inside=inside, operand=operand)
    is_glob = value.known is Knowledge.GLOB
    simple = _SIMPLE.fullmatch(value.text) and (is_glob or not _GLOB.search(value.text))
    simple = simple and (tilde or not value.text.startswith("~"))
    if simple:
        return Word(value.text, value.text, glob=is_glob, tilde=tilde)
    spelled = re.sub(r"([^A-Za-z0-9_@%+:,./^=*?\[\]-])", r"\\\1", value.text) if is_glob or tilde else None
    return Word(spelled or shlex.quote(value.text), value.text, quoted=True, glob=is_glob, tilde=tilde)


_PATH = r"(?![^\0]*\.\.)[A-Za-z0-9_.*?][A-Za-z0-9_./*?-]*+"
_FROM: Final = rf"(?:(?: {_PATH})*+| (?P<folder>/(?![^\0]*\.\.)[A-Za-z0-9_./-]*+))"
"""Paths below the folder, or one folder by its full path, which then begins every line."""

_COMMIT = r"(?![^\0]*/\.\.)[A-Za-z0-9_][^\0]*+"
_TEXT = r"[^-\0][^\0]*+"
_TESTS: Final = (
    rf"-type [fd]|-i?name {_TEXT}|-i?path {_TEXT}|-not|!|-o|\(|\)|-(?:min|max)depth [0-9]++|-empty|-newer {_PATH}"
    r"|-[mc]time [-+]?[0-9]++|-size [-+]?[0-9]++[bckMG]?|-print0?|-prune"
)
_KEPT: Final = r"(?!(?=.* (?:-o|--others)\b)(?!.* --exclude-standard\b))"  # `-o` alone also lists what git ignores
_CHANGED: Final = rf"(?: (?:--name-only|--cached|--staged|--format=|--diff-filter=[A-Za-z]++|{_COMMIT}))*+"
_PRODUCERS: Final = tuple(
    late_pattern(pattern.replace(" ", "\0"))
    for pattern in (
        rf"find{_FROM}(?: (?:{_TESTS}))*+",
        rf"git ls-files{_KEPT}(?: (?:-m|-o|--modified|--others|--exclude-standard|--|{_PATH}))*+",
        rf"git (?:diff|show)(?=.* --name-only){_CHANGED}",
        rf"[ef]?grep (?:-[rRiwEFn]*[lL][rRiwEFn]*|-[rR] -[lL]|-l -[rR])(?: --include={_TEXT})*+ {_TEXT}{_FROM}",
        rf"rg (?:-[iwF]*l[iwF]*|--files-with-matches|--files)(?: {_TEXT})?+{_FROM}",
    )
)
_FILTER = late_pattern(
    "(?:sort(?:\0-[ruz]+)?|uniq|(?:head|tail)(?:\0-n\0?[0-9]+|\0-[0-9]+)?|[ef]?grep(?:\0-[viEFwxz]+)*\0[^-][^\0]*)"
)
_PATHS_INSIDE: Final = WordValue(Knowledge.PREFIX, inside=True)


def lines_of(node: SyntaxNode, fed: WordValue | None) -> WordValue | None:
    """Return the value of each line that a pipeline stage prints; None if unknown.

    `fed` is the value of each line that it reads.
    """
    if not isinstance(node, Simple) or node.assignments or any(one.operator != "2>" for one in node.redirections):
        return None
    pieces = [piece for word in node.words for piece in word.pieces]
    if any(piece.kind is not PieceKind.TEXT for piece in pieces):
        return None
    words = "\0".join(map(_shown, node.words))
    if fed is not None and _FILTER.fullmatch(words):
        return fed
    found = next((match for one in _PRODUCERS if (match := one.fullmatch(words))), None)
    folder = None if found is None else found.groupdict().get("folder")
    return None if found is None else replace(_PATHS_INSIDE, text=f"{folder.rstrip('/')}/" if folder else "")


def _shown(word: WrittenWord) -> str:
    """Return the text of a word, marked where it is a pattern that may become an option: no path begins like that."""
    text = "".join(piece.text for piece in word.pieces)
    return f"\1{text}" if word.raw[:1] in ("*", "?") else text


# Each pattern matches the words of one command, joined by blanks; none allows an option that it does not list.
_REVISION = r"(?!\S*\.\.)[A-Za-z0-9][A-Za-z0-9_./~^@{}-]*"
_NUMBERS = late_pattern(r"wc -[lwcm]|nproc|date \+%s|git rev-list --count " + _REVISION + r"|id -[ug]")
_NAMES = late_pattern(
    rf"git merge-base {_REVISION} {_REVISION}"
    rf"|git rev-parse (?:--short(?:=[0-9]+)? |--verify |--abbrev-ref )?{_REVISION}"
    r"|git branch --show-current|git log -1 --(?:format|pretty)=%[hH]|git describe(?: --tags| --always| --abbrev=[0-9]+)*"
    r"|date \+%[A-Za-z%_.T-]+|uname -[smr]|whoami"
)


def output_of(script: Compound) -> WordValue:
    """Return the value of `$(…)`; for `cat` of a here-document, the text."""
    text = document_in(script)
    if text is not None:
        return exact(text)
    last = _last(script) or ""
    if _NUMBERS.fullmatch(last):
        return NUMBER
    if _only(script) is not None and _NAMES.fullmatch(last):
        return NAME
    return _lines(script) or UNKNOWN


def _lines(script: Compound) -> WordValue | None:
    """Return the value of each line if the only command or pipeline lists files; None otherwise."""
    if len(script.parts) != 1:
        return None
    node, lines = script.parts[0], None
    stages = node.parts if isinstance(node, Compound) and node.shape is Shape.PIPE else (node,)
    for stage in stages:
        lines = lines_of(stage, lines)
    return lines


def document_in(script: Compound | None) -> str | None:
    """Return the text of `$(cat <<'EOF' …)`, a usual form of long texts of agents; None for other substitutions."""
    command = None if script is None else _only(script)
    if command is None or command.assignments or [word.raw for word in command.words] != ["cat"]:
        return None
    if len(command.redirections) != 1:
        return None
    only = command.redirections[0]
    if only.here is None or only.here.body is None or (not only.here.literal and "$" in only.here.body):
        return None
    if only.operator not in ("<<", "<<-"):
        return None
    return only.here.body.rstrip("\n")


def _only(script: Compound) -> Simple | None:
    return script.parts[0] if len(script.parts) == 1 and isinstance(script.parts[0], Simple) else None


def _last(script: Compound) -> str | None:
    """Return the words of the only command, or of the last one of a pipeline; None if they are not literal."""
    if len(script.parts) != 1:
        return None
    node: SyntaxNode = script.parts[0]
    if isinstance(node, Compound) and node.shape is Shape.PIPE and not node.redirections:
        node = node.parts[-1]
    if not isinstance(node, Simple) or node.assignments:
        return None
    if any(not _is_quiet(one.operator, one.target.raw) for one in node.redirections):
        return None
    pieces = [piece for word in node.words for piece in word.pieces]
    if any(piece.kind is not PieceKind.TEXT for piece in pieces):
        return None
    return " ".join("".join(piece.text for piece in word.pieces) for word in node.words)


def _is_quiet(operator: str, target: str) -> bool:
    return (operator, target) == ("2>", _NULL) or (operator.lstrip("0") == "<" and bool(target))


_NULL: Final = "/dev/null"


EXPANSIONS_MAX: Final = 64
"""Maximum words that one word may expand to."""

_OTHER: Final = "\0"
"""A placeholder for a piece that is quoted or not literal."""

_GROUP = late_pattern(r"\{([^{}\0]*+)\}")
_RANGE = late_pattern(r"(-?[0-9]{1,6})\.\.(-?[0-9]{1,6})")

Pieces = tuple[WordPiece, ...]


def expand(raw: str, pieces: Pieces) -> list[Pieces]:
    """Return the words that a word expands to. Raises NotPlain where shells may disagree about the list."""
    bare = "".join(_OTHER if piece.quoted or piece.kind is not PieceKind.TEXT else piece.text for piece in pieces)
    if "{" not in bare or not ("," in raw or ".." in raw):
        return [pieces]
    choices = _choices(raw, bare)
    count = 1
    for choice in choices:
        count *= len(choice)
    if count > EXPANSIONS_MAX:
        raise NotPlain(f"`{raw}` expands to more than {EXPANSIONS_MAX} words")
    others = [piece for piece in pieces if piece.quoted or piece.kind is not PieceKind.TEXT]
    return [_filled("".join(parts), others) for parts in product(*choices)]


def _choices(raw: str, bare: str) -> list[list[str]]:
    found, at = list[list[str]](), 0
    for group in _GROUP.finditer(bare):
        items = _items(group[1])
        if items is None:
            continue
        found += [[bare[at : group.start()]], items]
        at = group.end()
    found.append([bare[at:]])
    rest = "".join(choice[0] for choice in found if len(choice) == 1)
    if not any(len(choice) > 1 for choice in found) or "{" in rest.replace("{}", ""):
        raise NotPlain(f"`{raw}` may expand to several words")
    return found


def _items(inside: str) -> list[str] | None:
    if "," in inside:
        return inside.split(",")
    ends = _RANGE.fullmatch(inside)
    if ends is None:
        return None
    first, last = int(ends[1]), int(ends[2])
    if abs(last - first) >= EXPANSIONS_MAX or any(
        len(end.lstrip("-")) > 1 and end.lstrip("-")[0] == "0" for end in ends.groups()
    ):
        raise NotPlain(f"`{{{inside}}}` expands to many words, or to numbers with leading zeros")
    step = 1 if last >= first else -1
    return [str(number) for number in range(first, last + step, step)]


def _filled(text: str, others: list[WordPiece]) -> Pieces:
    rest = iter(others)
    pieces: list[WordPiece] = []
    for part in re.split(f"({_OTHER})", text):
        if part == _OTHER:
            pieces.append(next(rest))
        elif part:
            pieces.append(WordPiece(PieceKind.TEXT, part, quoted=False))
    return tuple(pieces)


Environment = Mapping[str, WordValue]

_GLOB = late_pattern(r"[*?\[]")


def words_of(written: WrittenWord, environment: Environment) -> list[Word]:
    """Return the words that a word expands to; several for braces."""
    if all(piece.kind is PieceKind.TEXT for piece in written.pieces):
        expanded = expand(written.raw, written.pieces)
        if len(expanded) == 1:
            return [plain_word(written.raw)]
        return [word for pieces in expanded if (word := _literal(pieces)) is not None]
    return [_word(written.raw, pieces, environment) for pieces in expand(written.raw, written.pieces)]


def value_of(written: WrittenWord, environment: Environment) -> WordValue:
    """Return the value of an assignment, without globs, braces or splitting. Raises NotPlain for an unquoted tilde."""
    if any(piece.kind is PieceKind.TEXT and not piece.quoted and "~" in piece.text for piece in written.pieces):
        raise NotPlain(f"`{written.raw}` names a home directory in an assignment")
    value = exact("")
    for piece in written.pieces:
        value = joined(value, _value(piece, environment))
    return value


def as_value(word: Word) -> WordValue:
    """Return the value that a loop's variable gets from one of its words."""
    if word.resolved is not None:
        if word.tilde:
            return UNKNOWN
        return WordValue(Knowledge.GLOB if word.glob else Knowledge.EXACT, word.resolved)
    begins = word.prefix or ""
    is_of_all = not word.several or (word.inside and begins.startswith("/"))
    return WordValue(Knowledge.PREFIX, begins if is_of_all else "", word.inside)


def _literal(pieces: Pieces) -> Word | None:
    """Return a word of a brace list; None for an empty unquoted one, which the shell drops."""
    text = "".join(piece.text for piece in pieces)
    if not text and not any(piece.quoted for piece in pieces):
        return None
    if text.startswith("~") and not pieces[0].quoted:
        raise NotPlain("a brace list makes the name of a home directory")
    is_glob = any(not piece.quoted and _GLOB.search(piece.text) for piece in pieces)
    return word_of(WordValue(Knowledge.GLOB if is_glob else Knowledge.EXACT, text), text, several=False, tilde=False)


def _word(raw: str, pieces: Pieces, environment: Environment) -> Word:
    stands, pieces = _folder(pieces) or ("", pieces)
    value, several = exact(""), False
    for piece in pieces:
        found = _value(piece, environment)
        if piece.kind is PieceKind.TEXT and not piece.quoted:
            if value == exact("") and piece.text.startswith("~"):
                raise NotPlain(f"`{raw}` names a home directory that depends on a variable")
            if _has_glob(piece):
                found = WordValue(Knowledge.GLOB, piece.text)
        elif not piece.quoted:
            found, splits = unquoted(found)
            several = several or splits
        value = joined(value, found)
    several = several or (value.known is Knowledge.PREFIX and any(map(_has_glob, pieces)))
    if value.known is Knowledge.EXACT and all(piece.kind is not PieceKind.VARIABLE for piece in pieces) and not stands:
        return Word(raw, value.text, quoted=True)  # the text of a here-document, spelled as written
    return word_of(value, raw, several=several, tilde=stands == "~")


def _has_glob(piece: WordPiece) -> bool:
    return piece.kind is PieceKind.TEXT and not piece.quoted and _GLOB.search(piece.text) is not None


def _folder(pieces: Pieces) -> tuple[str, Pieces] | None:
    """Return the leading folder and the new pieces for `$HOME/x` (as `~/x`) and `"$PWD/x"` (as `./x`); else None."""
    at = 1 if pieces[0] == WordPiece(PieceKind.TEXT, "", quoted=True) else 0
    if len(pieces) <= at or pieces[at].kind is not PieceKind.VARIABLE:
        return None
    rest = pieces[at + 1 :]
    stands = {"HOME": "~", "PWD": "." if pieces[at].quoted else ""}.get(pieces[at].text)
    if not stands or (rest and not (rest[0].kind is PieceKind.TEXT and rest[0].text.startswith("/"))):
        return None
    return stands, (WordPiece(PieceKind.TEXT, stands, quoted=True), *rest)


def _value(piece: WordPiece, environment: Environment) -> WordValue:
    if piece.kind is PieceKind.TEXT:
        return exact(piece.text)
    if piece.kind is PieceKind.NUMBER:
        return NUMBER
    if piece.kind is PieceKind.ARITHMETIC:
        return _calculated(piece, environment)
    if piece.kind is PieceKind.SCRIPT:
        return UNKNOWN if piece.script is None else output_of(piece.script)
    if piece.kind is PieceKind.STREAM:
        return NAME
    value = environment.get(piece.text) if piece.kind is PieceKind.VARIABLE else None
    if value is None:
        if may_hold_a_secret(piece.text):
            raise NotPlain(f"`${piece.text}` may hold a secret")
        return UNKNOWN
    return value


def _calculated(piece: WordPiece, environment: Environment) -> WordValue:
    """Return the value of a calculation.

    Raises NotPlain unless each name holds a number: other values may run substitutions.
    """
    for name in piece.text.split():
        value = environment.get(name)
        if value is None or not (
            value.known is Knowledge.NUMBER or (value.known is Knowledge.EXACT and value.text.isdecimal())
        ):
            raise NotPlain(f"`$((` calculates with `{name}`, which may not be a number")
    return SIGNED

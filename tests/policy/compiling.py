"""Parser of program tables, and compiler of all tables, written in TOML, into the one file that programs read.

`python -m tests.policy.compiling` writes it. A test compares it with its sources.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import accumulate, pairwise
from typing import Any, Final, Literal

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.policy.data_files import COMPILED, TableError, TableIndex, read_entry
from ledger.policy.shell.forms.nodes import Arity, Effect, OperandKind, Operands, Option, ProgramNode, Style
from ledger.policy.shell.tables.operands import FILE as OPERANDS
from ledger.policy.shell.tables.operands import read_programs

_NAME = late_pattern(r"[^\s=\[\],]+")
_VALUE = late_pattern(r"(?P<name>[^\s=\[\],]+)(?P<value>\[=?[^\]]*\]|=\S*)?")


_KINDS: Final = frozenset(one.value for one in OperandKind)


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    version: str = ""
    aliases: list[str] = []
    style: Style | None = None
    plain: str = ""
    read: str = ""
    write: str = ""
    output: str = ""
    edits: str = ""
    folder: str = ""
    url: str = ""
    code: str = ""
    program: str = ""
    asks: str = ""
    operands: str | None = None
    first_from: str = ""
    interspersed: bool = True
    digits: bool = False
    dashes: Literal["end", "words", "option"] = "end"
    negatable: bool | None = None
    caseless: bool | None = None
    separators: str | None = None
    old_style: bool = False
    glued: bool = True
    means: dict[str, str | list[str]] = {}
    operand_means: dict[str, str] = {}
    assignment_asks: str | None = None
    words_ask: str = ""
    harmless: dict[str, str] = {}
    operand_also: str = ""
    stands_for: str = ""
    inner_allowed: bool = False
    spell: bool = False
    always: bool = False
    commands_abbreviated: bool | None = None
    globals: Literal["before", "anywhere"] | None = None
    same: str = ""
    language: Literal["", "awk", "sed"] = ""
    blank_first: bool = False
    use: str = ""
    without: str = ""
    groups: dict[str, dict[str, str]] = {}
    commands: dict[str, dict[str, Any]] = {}


_INHERITED: Final = ("style", "negatable", "caseless", "separators", "commands_abbreviated", "globals")
"""Settings that sub-commands inherit unless they override them."""

_AS_WRITTEN: Final = (
    "version", "interspersed", "digits", "dashes", "old_style", "glued", "operand_means", "inner_allowed", "spell",
    "always", "language", "blank_first",
)  # fmt: skip
"""Settings that a node has as its table does."""


def parse_toml(text: str, place: str) -> dict[str, Any]:
    """Return the contents of a text, in which no key stands twice. Raises TableError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise TableError(f"{place} is not valid TOML: {error}") from None


def read_tables(text: str) -> Iterator[ProgramNode]:
    """Yield each program of a file. Raises TableError."""
    for name, table in parse_toml(text, "a program table").items():
        yield _node(name, table, name, {}, {})


def read_always(text: str) -> Iterator[ProgramNode]:
    """Yield the programs of the list whose every call asks. Raises TableError."""
    words, telling = Operands(many=OperandKind.WORDS), (Option(("--help",)), Option(("--version",)))
    for name in parse_toml(text, "the list of programs that always ask")["programs"].split():
        yield ProgramNode(name, listed=telling, operands=words, always=True)


def _node(
    name: str,
    table: Mapping[str, Any],
    place: str,
    above: Mapping[str, Any],
    groups: Mapping[str, dict[str, Option]],
) -> ProgramNode:
    read = _table(table, place)
    groups = {**groups, **{key: _options(_table(one, place), place) for key, one in read.groups.items()}}
    own = {key: value for key in _INHERITED if (value := getattr(read, key)) is not None}
    settings = {**above, **own}
    below = tuple(_node(key, inner, f"{place} {key}", settings, groups) for key, inner in read.commands.items())
    check_names(below, f"program table `{place}`: the sub-command")
    options = _with_groups(_options(read, place), read, place, groups)
    means = {key: frozenset([value] if isinstance(value, str) else value) for key, value in read.means.items()}
    for spelt in (*means, *read.harmless, *read.first_from.split()):
        if spelt not in options:
            raise TableError(f"program table `{place}`: `{spelt}` is not an option of it")
    return ProgramNode(
        name=name,
        aliases=tuple(read.aliases),
        listed=tuple(dict.fromkeys(options.values())),
        operands=None if read.operands is None else _operands(read.operands, place),
        first_from=frozenset(options[one].name for one in read.first_from.split()),
        means={options[key].name: value for key, value in means.items()},
        assignment_asks=None if read.assignment_asks is None else frozenset(read.assignment_asks.split()),
        words_ask=_pattern(read.words_ask, place),
        harmless={options[key].name: _pattern(one, place) for key, one in read.harmless.items()},
        operand_also=_pattern(read.operand_also, place),
        stands_for=tuple(read.stands_for.split()),
        below=below,
        same=tuple(read.same.split()),
        **settings,
        **{key: getattr(read, key) for key in _AS_WRITTEN},
    )


def check_names(nodes: Iterable[ProgramNode], place: str) -> None:
    """Raise TableError for a name of two nodes."""
    known = set[str]()
    for name in (name for node in nodes for name in (node.name, *node.aliases)):
        if name in known:
            raise TableError(f"{place} `{name}` is listed twice")
        known.add(name)


def _table(table: object, place: str) -> _Table:
    return read_entry(_Table, table, f"program table `{place}`")


def _with_groups(
    own: dict[str, Option], table: _Table, place: str, groups: Mapping[str, dict[str, Option]]
) -> dict[str, Option]:
    """Return the options of a table with those of its groups.

    Names that the table defines itself, or lists in `without`, are left out.
    """
    left_out = {*own, *table.without.split()}
    found = dict(own)
    for group in table.use.split():
        if group not in groups:
            raise TableError(f"program table `{place}`: there is no group `{group}`")
        added = {name: option for name, option in groups[group].items() if name not in left_out}
        left_out.update(added)
        found.update({name: _narrowed(option, added) for name, option in added.items()})
    return found


def _narrowed(option: Option, names: Collection[str]) -> Option:
    """Return an option with only those of its names that are in `names`."""
    kept = tuple(name for name in option.names if name in names)
    return option if kept == option.names else Option(kept, option.effect, option.arity)


def _pattern(text: str, place: str) -> str:
    try:
        return re.compile(text).pattern
    except re.error as error:
        raise TableError(f"program table `{place}`: `{text}` is not a regular expression: {error}") from None


def _options(table: _Table, place: str) -> dict[str, Option]:
    found: dict[str, Option] = {}
    for effect in Effect:
        for line in getattr(table, effect.value).splitlines():
            if line.lstrip().startswith("#"):
                continue
            for written in filter(str.strip, line.split(", ")):
                option = _option(written.split(), effect, place)
                for name in option.names:
                    if name in found:
                        raise TableError(f"program table `{place}`: the option `{name}` is listed twice")
                    found[name] = option
    return found


def _option(words: list[str], effect: Effect, place: str) -> Option:
    last = _VALUE.fullmatch(words[-1])
    if last is None or not all(map(_NAME.fullmatch, words[:-1])):
        raise TableError(f"program table `{place}`: `{' '.join(words)}` is not written like an option")
    value = last["value"] or ""
    arity = Arity.NONE if not value else Arity.GLUED if value.startswith("[") else Arity.NEXT
    names = (*words[:-1], last["name"])
    return Option(names, effect, arity)


def _operands(text: str, place: str) -> Operands:
    first: list[OperandKind] = []
    last: list[OperandKind] = []
    many: OperandKind | None = None
    missing = 0
    for word in text.split():
        bare = word.rstrip("*?")
        if bare not in _KINDS or (word.endswith("*") and many is not None):
            raise TableError(f"program table `{place}`: `{word}` is not a kind of operand")
        missing += word.endswith("?")
        if word.endswith("*"):
            many = OperandKind(bare)
        else:
            (first if many is None else last).append(OperandKind(bare))
    return Operands(tuple(first), many, tuple(last), missing)


_LEDGER: Final = COMPILED.parents[1]
_FOLDERS: Final = ("masks/shapes", "policy/claude", "policy/shell/tables")
_PROGRAMS: Final = "policy/shell/programs"
_ALWAYS: Final = f"{_PROGRAMS}/always.toml"
_USUAL: Final = [Effect.PLAIN, Arity.NONE]


def _texts(folder: str) -> dict[str, str]:
    return {f"{folder}/{file.name}": file.read_text("utf-8") for file in sorted((_LEDGER / folder).glob("*.toml"))}


def compiled() -> bytes:
    """Return the compiled file: an index, then a table on each line. Raises TableError."""
    files = {place: parse_toml(text, place) for folder in _FOLDERS for place, text in _texts(folder).items()}
    read_programs(files[OPERANDS]["programs"])  # each entry is checked here, and not by every program that reads it
    tables = _texts(_PROGRAMS)
    programs = [*read_always(tables.pop(_ALWAYS)), *(node for text in tables.values() for node in read_tables(text))]
    check_names(programs, "program tables: the program")
    nodes = [_short(msgspec.to_builtins(node, order="deterministic")) for node in programs]
    lines = [msgspec.json.encode(table) + b"\n" for table in (*files.values(), *nodes)]
    ends = list(accumulate(map(len, lines)))
    spans = list(pairwise([0, *ends]))
    named = zip(programs, spans[len(files) :], strict=True)
    index = TableIndex(
        dict(zip(files, spans, strict=False)),
        {name: span for node, span in named for name in (node.name, *node.aliases)},
    )
    return b"".join([msgspec.json.encode(index), b"\n", *lines])


def _short(table: dict[str, Any]) -> dict[str, Any]:
    """Return a table without the effect and arity of options with the usual ones, which come last."""
    if "listed" in table:
        table["listed"] = [[names] if usual == _USUAL else [names, *usual] for names, *usual in table["listed"]]
    if "below" in table:
        table["below"] = [_short(one) for one in table["below"]]
    return table


if __name__ == "__main__":
    COMPILED.write_bytes(compiled())

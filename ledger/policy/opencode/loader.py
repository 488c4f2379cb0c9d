"""Loading of OpenCode's configuration from its usual locations. The only module of this dialect that reads files.

An unreadable file is an error, never a policy without rules. Nothing is fetched and nothing is written.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from ledger.core.late_patterns import late_pattern
from ledger.core.policy import Layer
from ledger.policy.checks import shown
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Document, pointer
from ledger.policy.loader import config_layer, is_there, parse_document, read_text

_FENCE: Final = "---"
_MERGE: Final = "<<"
_KEPT: Final = ("name", "permission", "tools")
_MEMBER: Final = late_pattern(
    r"""(?P<key>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\#{}\[\]|>&!%@`,-][^"']*?|\*)\s*:(?:\s+(?P<value>.*))?""",
    re.VERBOSE,
)
_SCALAR: Final = late_pattern(
    r"""(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s"'\#{}\[\]|>&*!%@`][^\#]*?)(?:\s+\#.*)?"""
)
_BOOLEANS: Final = {"true": True, "false": False}


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_frontmatter(text: str, file: str) -> Document:
    """Return `name`, `permission` and `tools` of the head, each with its line; empty without a head.

    Raises PolicyError.
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != _FENCE:
        return Document({}, {})
    end = next((index for index, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise PolicyError(f"{shown(file)} line 1: the head does not end with `---`", file=file, line=1)
    kept = [_Line(number, len(line) - len(line.lstrip(" ")), line.strip()) for number, line in _written(lines[1:end])]
    return _Reader(file).top(kept)


def _written(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(lines, 2):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line


class _Reader:
    def __init__(self, file: str) -> None:
        self.file = file
        self.places: dict[str, int] = {}

    def top(self, lines: Sequence[_Line]) -> Document:
        value: dict[str, Any] = {}
        for first, inner in _blocks(lines):
            found = _MEMBER.fullmatch(first.text)
            if (found is None and not first.text.startswith("-")) or first.text.startswith(_MERGE):
                raise self._problem(first)  # it may hold any key
            if found and _unquoted(found["key"]) in _KEPT:
                self._add(value, (), first, inner)
        return Document(value, self.places)

    def _mapping(self, lines: Sequence[_Line], keys: tuple[str, ...]) -> dict[str, Any]:
        value: dict[str, Any] = {}
        for first, inner in _blocks(lines):
            if first.indent != lines[0].indent:
                raise self._problem(first)
            self._add(value, keys, first, inner)
        return value

    def _add(self, value: dict[str, Any], keys: tuple[str, ...], line: _Line, inner: Sequence[_Line]) -> None:
        found = _MEMBER.fullmatch(line.text)
        if found is None:
            raise self._problem(line)
        key, written = _unquoted(found["key"]), (found["value"] or "").strip()
        if key in value:
            raise self._problem(line, f"the key {shown(key)} is given twice")
        scalar = _SCALAR.fullmatch(written)
        nested = not written or written.startswith("#")
        if (scalar is None) is not nested or bool(inner) is not nested:
            raise self._problem(line)
        self.places[pointer(*keys, key)] = line.number
        text = scalar["text"] if scalar else ""
        value[key] = self._mapping(inner, (*keys, key)) if nested else _BOOLEANS.get(text, _unquoted(text))

    def _problem(
        self, line: _Line, text: str = "this form of YAML is not supported; write `key: action`"
    ) -> PolicyError:
        return PolicyError(f"{shown(self.file)} line {line.number}: {text}", file=self.file, line=line.number)


def _blocks(lines: Sequence[_Line]) -> Iterator[tuple[_Line, Sequence[_Line]]]:
    """Yield each line with the more deeply indented lines after it."""
    index = 0
    while index < len(lines):
        end = index + 1
        while end < len(lines) and lines[end].indent > lines[index].indent:
            end += 1
        yield lines[index], lines[index + 1 : end]
        index = end


def _unquoted(text: str) -> str:
    if text.startswith('"'):
        try:
            return str(json.loads(text))
        except ValueError:
            return text
    return text[1:-1].replace("''", "'") if text.startswith("'") else text


# --- files
_NAME: Final = "opencode"
_FILES: Final = ("opencode.json", "opencode.jsonc")
_USER_FILES: Final = ("config.json", *_FILES)
_FOLDER: Final = ".opencode"
_REPOSITORY: Final = ".git"
_PLACEHOLDERS: Final = ("{env:", "{file:")
_MARKDOWN: Final = (("agent", "**/*.md"), ("agents", "**/*.md"), ("mode", "*.md"), ("modes", "*.md"))


def load_layers(
    project: str | os.PathLike[str],
    environ: Mapping[str, str],
    *,
    home: str | None = None,
    worktree: str | os.PathLike[str] | None = None,
    remote: Any = None,
    trusted: bool = True,
) -> tuple[Layer, ...]:
    """Return the layers 1 to 6 of opencode-zh.md 9.3, lowest first, that exist and set a rule.

    `project` is the folder where the agent starts and `worktree` the root of its repository, searched upwards by
    default. `remote` is the organisation's configuration, fetched and parsed by the caller. `environ` holds
    `OPENCODE_CONFIG`, `OPENCODE_CONFIG_CONTENT`, `OPENCODE_CONFIG_DIR`, `OPENCODE_DISABLE_PROJECT_CONFIG`,
    `XDG_CONFIG_HOME` and `HOME` of the program's process. `trusted` concerns the project's own files. Raises
    PolicyError with file and line.
    """
    start = Path(project).absolute()
    root = Path(worktree).absolute() if worktree is not None else _worktree(start)
    user = Path(home or environ["HOME"]) if home or environ.get("HOME") else None
    base = environ.get("XDG_CONFIG_HOME") or (user and user / ".config")
    settings = Path(base, _NAME) if base else None
    folders = [] if _is_true(environ.get("OPENCODE_DISABLE_PROJECT_CONFIG")) else [*_upwards(start, root)]
    found = [
        *_virtual("remote", remote),
        *_files("user", settings, _USER_FILES),
        *_named(environ.get("OPENCODE_CONFIG")),
        *(layer for folder in reversed(folders) for layer in _files("project", folder, _FILES, trusted=trusted)),
        *_content(environ.get("OPENCODE_CONFIG_CONTENT")),
        *_markdown("user", settings),
    ]
    # The nearest folder comes first here, so that the rules of one further up win.
    own = [(folder / _FOLDER, trusted) for folder in folders]
    own += [(user / _FOLDER, True)] if user else []
    own += [(Path(named), True)] if (named := environ.get("OPENCODE_CONFIG_DIR")) else []
    for folder, counts in _distinct(own):
        found += _files(_FOLDER, folder, _FILES, trusted=counts)
        found += _markdown(_FOLDER, folder, trusted=counts)
    return tuple(layer for layer in found if layer.config)


def config_files(
    project: str | os.PathLike[str], environ: Mapping[str, str], *, home: str | None = None
) -> tuple[Path, ...]:
    """Return the JSON files where the program looks for rules, existing or not; the project's folder comes first."""
    start = Path(project).absolute()
    hidden = _is_true(environ.get("OPENCODE_DISABLE_PROJECT_CONFIG"))
    folders = [] if hidden else [*_upwards(start, _worktree(start))]
    user = Path(home or environ["HOME"]) if home or environ.get("HOME") else None
    base = environ.get("XDG_CONFIG_HOME") or (user and user / ".config")
    named = [Path(file)] if (file := environ.get("OPENCODE_CONFIG")) else []
    own = [folder / one for folder in folders for one in _FILES]
    own += [folder / _FOLDER / one for folder in (*folders, *([user] if user else [])) for one in _FILES]
    own += [Path(folder, one) for folder in filter(None, [environ.get("OPENCODE_CONFIG_DIR")]) for one in _FILES]
    return (*own, *named, *(Path(base, _NAME, one) for one in _USER_FILES if base))


def _is_true(value: str | None) -> bool:
    return (value or "").lower() in ("1", "true")


def _worktree(start: Path) -> Path:
    """Return the repository that contains a folder; the root of the file system, as in the program, if none does."""
    found = (folder for folder in (start, *start.parents) if is_there(folder / _REPOSITORY))
    return next(found, Path(start.anchor))


def _upwards(start: Path, root: Path) -> Iterator[Path]:
    """Yield the folders from a folder up to the worktree, both included."""
    for folder in (start, *start.parents):
        yield folder
        if folder == root:
            return


def _distinct(folders: Sequence[tuple[Path, bool]]) -> Iterator[tuple[Path, bool]]:
    """Yield each folder once, at its first position; a folder that the user owns too is trusted."""
    trusted = {folder for folder, counts in folders if counts}
    for folder in dict.fromkeys(folder for folder, _ in folders):
        yield folder, folder in trusted


def _files(name: str, folder: Path | None, names: Sequence[str], *, trusted: bool = True) -> Iterator[Layer]:
    for file in (folder / one for one in names) if folder else ():
        if is_there(file):
            yield _read(str(file), name, trusted=trusted)


def _named(file: str | None) -> Iterator[Layer]:
    """Yield the layer of a configured file. The program ignores a missing one; here it is an error."""
    if file:
        yield _read(file, "OPENCODE_CONFIG")


def _content(text: str | None) -> Iterator[Layer]:
    if text:
        yield _layer(parse_document("OPENCODE_CONFIG_CONTENT", text, comments=True), "OPENCODE_CONFIG_CONTENT", None)


def _virtual(name: str, config: Any) -> Iterator[Layer]:
    if config is not None:
        yield _layer(Document(config, {}), name, None)


def _read(file: str, name: str, *, trusted: bool = True) -> Layer:
    text = read_text(file)
    document = parse_document(file, text, comments=True) if text else Document({}, {})
    return _layer(document, name, file, trusted=trusted)


def _layer(document: Document, name: str, file: str | None, *, trusted: bool = True) -> Layer:
    if isinstance(document.value, Mapping) and "permissions" in document.value:
        text = "`permissions` is a list of OpenCode 2, which is not supported; write the rules under `permission`"
        raise PolicyError(f"{shown(file or name)}: {text}", file=file or name)
    layer = config_layer(document, file or name, name, trusted=trusted)
    _refuse_placeholders(layer.config, file or name)
    return replace(layer, file=file, lines=layer.lines if file else {})


def _refuse_placeholders(value: Any, file: str) -> None:
    """Refuse placeholders: the program replaces them before parsing, and a deny with a literal one has no match."""
    texts = [*value, *value.values()] if isinstance(value, Mapping) else [value]
    for text in texts:
        if isinstance(text, Mapping):
            _refuse_placeholders(text, file)
        elif isinstance(text, str) and any(mark in text for mark in _PLACEHOLDERS):
            raise PolicyError(f"{shown(file)}: {shown(text)} is not expanded here; write the value itself", file=file)


def _markdown(name: str, folder: Path | None, *, trusted: bool = True) -> Iterator[Layer]:
    """Yield the rules in the heads of the agents' own files."""
    for kind, pattern in _MARKDOWN if folder else ():
        base = (folder or Path()) / kind
        for path in sorted(base.glob(pattern)):
            yield _agent(path, path.relative_to(base).with_suffix("").as_posix(), name, trusted=trusted)


def _agent(path: Path, agent: str, name: str, *, trusted: bool) -> Layer:
    file = str(path)
    head = read_frontmatter(read_text(file), file)
    section = {key: head.value[key] for key in ("permission", "tools") if key in head.value}
    keys = ("agent", str(head.value.get("name", agent)))
    lines = {pointer(*keys) + where: line for where, line in head.lines.items()}
    config = {"agent": {keys[1]: section}} if section else {}
    return _layer(Document(config, lines), name, file, trusted=trusted)

"""Reading and writing of Codelia's `config.json`. The only module of this dialect that accesses files.

An unreadable file is an error, never a policy without rules. A failed write leaves the file as it was; writing is idempotent.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from ledger.core.limits import POLICY_BYTES
from ledger.core.policy import Layer, PolicySource
from ledger.core.regular_files import keep_names, private_file, read_regular
from ledger.policy.checks import NOWHERE, RuleOrigin, shown
from ledger.policy.codelia.policy import CodeliaPolicy, not_allowed_yet, remembered_rules, same_rule
from ledger.policy.codelia.rule import VERSION, read_config, read_layers, rule_text
from ledger.policy.demands import demands_in
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import Insertion, JsonSyntaxError, appending, applied, parse
from ledger.policy.loader import cause_of, parse_document, read_text

# --- insertion of rules into a text; everything else in it is kept (codelia.md 8)
_MARK: Final = "\ufeff"  # some editors write it first; JSON does not define it


def remembered(config_text: str, rules: Sequence[Mapping[str, str]], origin: RuleOrigin = NOWHERE) -> str:
    """Return `config_text` with `rules` appended to `permissions.allow`; rules that it already has are left out.

    An empty text becomes a whole configuration. The existing text keeps its order, spelling and indentation. Raises
    PolicyError for a text that is no configuration; nothing is ever replaced.
    """
    body = config_text.removeprefix(_MARK)
    mark = config_text[: len(config_text) - len(body)]
    if not body.strip():
        return (
            mark
            + json.dumps({"version": VERSION, "permissions": {"allow": _new([], rules)}}, ensure_ascii=False, indent=2)
            + "\n"
        )
    before = _parsed(body, origin)
    standing = before.get("permissions", {}).get("allow", [])
    new = _new(standing, rules)
    if not new:
        return config_text
    after = _inserted(body, new)
    expected = {**before, "permissions": {**before.get("permissions", {}), "allow": [*standing, *new]}}
    assert json.loads(after) == expected
    return mark + after


def _new(standing: Sequence[Any], rules: Sequence[Mapping[str, str]]) -> list[Mapping[str, str]]:
    new: list[Mapping[str, str]] = []
    for rule in rules:
        if not any(isinstance(other, Mapping) and same_rule(other, rule) for other in (*standing, *new)):
            new.append(rule)
    return new


def _parsed(text: str, origin: RuleOrigin) -> dict[str, Any]:
    try:
        value = parse(text, comments=False).value
    except JsonSyntaxError as problem:
        raise RuleOrigin(origin.layer, origin.file, {"": problem.line}).problem(problem.text, ()) from None
    read_config(value, origin, strict=False)
    if not isinstance(value, dict):  # read_config has refused it
        raise origin.problem(f"a configuration is an object, not {shown(value)}", ())
    return value


def _inserted(text: str, rules: Sequence[Mapping[str, str]]) -> str:
    document = parse(text, comments=False)
    section = document.value.get("permissions")
    if section is None:
        where, entries = "", [Insertion("permissions", {"allow": rules}, on_one_line=True)]
    elif "allow" not in section:
        where, entries = "/permissions", [Insertion("allow", rules, on_one_line=True)]
    else:
        where, entries = "/permissions/allow", [Insertion(None, rule, on_one_line=True) for rule in rules]
    return applied(text, [appending(text, document, where, entries)])


# --- files
PROJECT_CONFIG: Final = ".codelia/config.json"

_PROJECT: Final = "project"
_KEPT: Final = ("version", "permissions")
_NEW_MODE: Final = 0o644


def load_layers(
    project: str | os.PathLike[str],
    environ: Mapping[str, str],
    *,
    home: str | None = None,
    trusted: bool = True,
    strict: bool = True,
) -> tuple[Layer, ...]:
    """Return the global and the project layer, lowest first, if their files exist (codelia.md 4).

    The global file is the one that `CODELIA_CONFIG_PATH` names, which must then exist; else `config.json` in
    `~/.codelia`, or in `$XDG_CONFIG_HOME/codelia` if `CODELIA_LAYOUT` is `xdg`. `trusted` concerns the project's file;
    `strict` is as for `load_config`. Raises PolicyError with file and line.
    """
    named = bool(_named(environ))
    return tuple(
        load_config(path, name=name, trusted=trusted or name != _PROJECT, strict=strict)
        for name, path in config_files(project, environ, home=home)
        if path.exists() or (named and name != _PROJECT)
    )


def config_files(
    project: str | os.PathLike[str], environ: Mapping[str, str], *, home: str | None = None
) -> tuple[tuple[str, Path], ...]:
    """Return the files where Codelia looks for rules, existing or not, with the names of their layers, lowest first."""
    named = _named(environ)
    user = Path(named) if named else _user_config(environ, home)
    own = (_PROJECT, Path(project) / PROJECT_CONFIG)
    return (own,) if user is None else (("global", user), own)


def _named(environ: Mapping[str, str]) -> str:
    return environ.get("CODELIA_CONFIG_PATH", "").strip()


def _user_config(environ: Mapping[str, str], home: str | None) -> Path | None:
    home = home or environ.get("HOME")
    if environ.get("CODELIA_LAYOUT", "").lower() == "xdg":
        folder = environ.get("XDG_CONFIG_HOME") or (f"{home}/.config" if home else None)
        return Path(folder, "codelia", "config.json") if folder else None
    return Path(home, ".codelia", "config.json") if home else None


def load_config(
    path: str | os.PathLike[str],
    *,
    name: str = "project",
    trusted: bool = True,
    strict: bool = True,
    content: bytes | None = None,
) -> Layer:
    """Return one layer from a `config.json`; only permission members are kept, so that no key of it reaches the log.

    `strict=False` accepts rules that only the hardened profile refuses. `content` is what was read from the file
    already. Raises PolicyError with file and line.
    """
    file = os.fspath(path)
    document = parse_document(file, read_text(file, content), comments=False)
    value: Any = document.value
    config = {key: value[key] for key in _KEPT if key in value} if isinstance(value, dict) else value
    lines = {
        where: line for where, line in document.lines.items() if where.split("/")[1:2] in ([name] for name in _KEPT)
    }
    read_config(config, RuleOrigin(name, file, lines), strict=strict)
    demands = demands_in(document.value, RuleOrigin(name, file, document.lines))
    return Layer(name, config=config, file=file, trusted=trusted, lines=lines, demands=demands)


def write_remembered(path: str | os.PathLike[str], rules: Sequence[Mapping[str, str]]) -> bool:
    """Add allow rules to a `config.json`, which is created if missing. Return whether the file changed.

    The write is atomic: a new file is written beside the old one, synchronised to disk, and renamed over it with the
    same mode. Concurrent writers take turns. Raises PolicyError on failure; the file is then unchanged, and the answer
    and its grant do not depend on it.
    """
    file = Path(path)
    try:
        target = file.resolve()
        target.parent.mkdir(parents=True, exist_ok=True)
        with _turn(target.parent):
            before = _content(target)
            after = remembered(before.decode("utf-8"), rules, RuleOrigin(file=os.fspath(path))).encode()
            if after == before:
                return False
            _replace(target, after)
    except UnicodeDecodeError as error:
        raise PolicyError(f"{shown(str(file))} is not UTF-8, so nothing was added to it", file=str(file)) from error
    except OSError as error:
        text = f"{shown(str(file))} could not be written ({cause_of(error)}); the answer holds for this session only"
        raise PolicyError(text, file=str(file)) from error
    return True


def _content(target: Path) -> bytes:
    try:
        return read_regular(target, POLICY_BYTES)
    except FileNotFoundError:
        return b""


@contextmanager
def _turn(folder: Path) -> Iterator[None]:
    """Hold a lock on the folder: two concurrent read-add-replace cycles would lose the rules of one."""
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
    finally:
        os.close(held)


def _replace(target: Path, content: bytes) -> None:
    mode = target.stat().st_mode & 0o7777 if target.exists() else _NEW_MODE
    with private_file(target) as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
    keep_names(target.parent)


# --- the rules that a "remember" adds to the project's file, besides its grant (codelia.md 8)
class CodeliaMemory:
    """The project's file, to which an `always` is also written."""

    def file(self, source: PolicySource, folder: str | Path | None) -> Path | None:
        """Return the file of the session's own layer, else that of the session's folder; no folder is created."""
        loaded = next((layer.file for layer in reversed(source.layers) if _is_projects(layer)), None)
        if loaded is not None:
            return Path(loaded)
        named = source.options.get("sandbox_root") or source.options.get("cwd") or folder
        return Path(named) / PROJECT_CONFIG if named is not None and Path(named).is_absolute() else None

    def remember(self, file: Path, source: PolicySource, permission: str, entries: Sequence[str]) -> str | None:
        """Add the rules of granted entries; return them in words, or None where the rules or the file had all of them."""
        rules = not_allowed_yet(remembered_rules(permission, entries), CodeliaPolicy(source).rules.allow)
        if not rules:
            return None
        project = file.parent.parent
        if not project.is_dir():
            # The session may belong to another machine; a folder created here would be no project.
            raise PolicyError(f"there is no folder {shown(str(project))} on this machine", file=str(file))
        allowed = read_layers((load_config(file, strict=False),), strict=False).allow if file.exists() else ()
        new = not_allowed_yet(rules, allowed)
        if not new or not write_remembered(file, new):
            return None
        return f"remembered in `{file}`: {', '.join(map(rule_text, new))}"


def _is_projects(layer: Layer) -> bool:
    file = layer.file
    return layer.name == "project" and file is not None and file.startswith("/") and file.endswith(f"/{PROJECT_CONFIG}")

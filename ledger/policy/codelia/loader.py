"""Reading and writing of Codelia's `config.json`. The only module of this dialect that accesses files.

An unreadable file is an error, never a policy without rules. A failed write leaves the file as it was.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from ledger.core.limits import POLICY_BYTES
from ledger.core.policy import Layer
from ledger.core.regular_files import read_regular
from ledger.policy.checks import RuleOrigin, shown
from ledger.policy.codelia.edit import remembered
from ledger.policy.codelia.rule import read_config
from ledger.policy.demands import demands_in
from ledger.policy.errors import PolicyError
from ledger.policy.rule_files import cause_of, parse_document, read_text

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
    beside = target.with_name(f".{target.name}.{os.getpid()}.new")
    beside.unlink(missing_ok=True)  # left by a process of the same number that was killed while it held the lock
    try:
        with beside.open("xb") as stream:
            beside.chmod(mode)
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        beside.replace(target)
    except OSError:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise
    _make_durable(target.parent)


def _make_durable(folder: Path) -> None:
    held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(held)
    finally:
        os.close(held)

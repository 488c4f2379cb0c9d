"""Trust in a project's file: its state by the user's list, and changes of that list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, Literal

from workers.cli.config import places
from workers.cli.config.files import ConfigFileError, SettingsFile, path_in, read_settings, require_private
from workers.transport.trusted import Records, TrustListError, TrustRecord, load_records
from workers.transport.trusted import digest_of_file as digest_of

Trust = Literal["trusted", "untrusted", "changed"]

_NAMING: Final = frozenset({"rules", "notify", "config", "oidc", "proxy-sign-in"})
"""The members that name a file whose content decides: it is trusted together with the file that names it."""


def load() -> Records:
    """Return the records by path. Raises ConfigFileError for a list that others may have written."""
    try:
        return load_records()
    except TrustListError as error:
        raise ConfigFileError(error.text, hint=error.hint) from None


def save(records: Records) -> None:
    """Replace the list, readable by its owner only. Raises ConfigFileError."""
    from ledger.core.regular_files import private_file  # noqa: PLC0415 - slow to import

    path = Path(places.trust_file())
    said = {file: {"sha256": one.digest, "named": one.named} for file, one in sorted(records.items())}
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        require_private(path)
        with private_file(path) as written:
            written.write(json.dumps({"files": said}, indent=2).encode() + b"\n")
    except OSError as error:
        raise ConfigFileError(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}") from None


def trust_of(file: SettingsFile, records: Records) -> tuple[Trust, str]:
    """Return the state of a project's file, and the path of what changed."""
    record = records.get(str(file.path))
    if record is None:
        return "untrusted", str(file.path)
    if record.digest != file.digest:
        return "changed", str(file.path)
    changed = next((path for path, digest in record.named.items() if digest_of(path) != digest), None)
    return ("trusted", str(file.path)) if changed is None else ("changed", changed)


def record_of(file: SettingsFile) -> TrustRecord:
    """Return the record that trusts a file as it is now, with the files that it names."""
    return TrustRecord(file.digest, {path: digest_of(path) for path in named_files(file)})


def require_outside(path: Path) -> None:
    """Raise ConfigFileError if the list would be inside the project, where an agent may write it."""
    folder = path.parent.resolve()
    if Path(places.config_folder()).resolve().is_relative_to(folder):
        raise ConfigFileError(
            f"your configuration folder `{places.config_folder()}` is inside the project `{folder}`: "
            "whoever writes there could trust a file in your name",
            hint=f"put these settings into `{places.user_file()}`, which needs no trust",
        )


def named_files(file: SettingsFile) -> list[str]:
    """Return the absolute paths of the files whose content counts as the content of this one."""
    return sorted({path for table in _tables(file.data) for path in _named_in(file, table)})


def project_file(path: Path) -> SettingsFile:
    """Return a project's file by its path or folder. Raises ConfigFileError where there is none."""
    wanted = path / places.FILE if path.is_dir() else path
    if wanted.name != places.FILE:
        raise ConfigFileError(f"`{wanted}` is not named `{places.FILE}`")
    found = read_settings(at_its_place(wanted), is_project=True)
    if found is None:
        raise ConfigFileError(f"there is no `{wanted}`", hint="`permission-ledger init` writes one")
    return found


def at_its_place(path: Path) -> Path:
    """Return the path with the links of its folder resolved; a link with the file's own name stays."""
    return path.parent.resolve() / path.name


def _tables(data: dict[str, Any]) -> list[dict[str, Any]]:
    return [data, *(one for value in data.values() if isinstance(value, dict) for one in _tables(value))]


def _named_in(file: SettingsFile, table: dict[str, Any]) -> list[str]:
    found = []
    for name in _NAMING & set(table):
        values = table[name] if isinstance(table[name], list) else [table[name]]
        found += [path_in(file.path.parent, value)[1] for value in values if isinstance(value, str)]
    return found

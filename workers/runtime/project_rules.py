"""The rules of projects, read by one place that decides whether they are trusted.

A project's rules are the files that its `permission-ledger.toml` names, once a person has trusted it. Every read compares
what was read with what was trusted. Of other content only the denies count, until it is trusted again.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from ledger.client.policy_files import PolicyFiles
from ledger.core.errors import InputError
from ledger.core.policy import PolicySource
from ledger.core.regular_files import SMALL_BYTES_MAX, read_regular
from ledger.policy.dialect import DEFAULT_LAYER
from ledger.policy.dialects import DEFAULT_DIALECT, DIALECTS, compile_policy, dialect_named
from ledger.policy.errors import PolicyError
from ledger.policy.loader import cause_of, read_content
from workers.transport.trusted import (
    Records,
    TrustListError,
    changed,
    digest_of,
    digest_of_record,
    load_records,
    named_by,
    project_of_folder,
    trust_file,
    why_untrusted,
)

_OF_PROJECT: Final = "project "
_TABLES: Final = ("up", "serve")
"""The tables of a project's file whose `rules` count before the common ones, as they do for these commands."""


def trusted_records() -> Records:
    """Return the user's list of trusted files. Raises PolicyError: nothing is judged by a list that cannot be used."""
    try:
        return load_records()
    except TrustListError as error:
        raise PolicyError(f"{error.text}; {error.hint}", file=trust_file()) from error


def read_rule_file(dialect: str, path: str | Path, *, name: str = DEFAULT_LAYER) -> PolicySource:
    """Return the rules of one file; untrusted ones if a project's file should vouch for them and does not.

    Raises PolicyError with file and line.
    """
    content = read_content(str(path))
    layer = dialect_named(dialect).load(path, name=name, content=content)
    reason = why_untrusted(str(path), digest_of(content), trusted_records())
    return PolicySource(dialect, (layer,), untrusted=reason)


def rules_of_file(dialect: str, path: Path, *, name: str) -> PolicyFiles:
    """Return the rules of one file, read again when the file or the list of trusted files has changed."""
    return PolicyFiles(partial(_compiled, partial(read_rule_file, dialect, path, name=name)), [trust_file()])


def require_as_trusted(path: Path, content: bytes) -> None:
    """Raise InputError for other content of a file, which holds no rules, than the user trusted."""
    naming = named_by(str(path), trusted_records())
    if naming and digest_of(content) not in naming.values():
        raise InputError(
            f"`{path}` was changed since you trusted it; read it, then: permission-ledger config trust {next(iter(naming))}"
        )


def named_rules(text: str) -> tuple[str, str]:
    """Return dialect and file of a text `[DIALECT=]FILE`. Raises InputError for an unknown dialect."""
    dialect, equals, file = text.partition("=")
    if not equals:
        return DEFAULT_DIALECT, text
    if dialect not in DIALECTS:
        raise InputError(f"`{dialect}` is not a dialect; use one of {', '.join(sorted(DIALECTS))}")
    return dialect, file


def source_name(file: str) -> str:
    """Return the name in the log of the rules of a project's file."""
    return f"{_OF_PROJECT}{file}"


def project_of_source(policy_source: str | None) -> str | None:
    """Return the project's file that a session is bound to, by the name of its rules in the log."""
    if policy_source is None or not policy_source.startswith(_OF_PROJECT):
        return None
    return policy_source.removeprefix(_OF_PROJECT)


class ProjectRules:
    """The rules of the projects that this user trusts, as their files are now."""

    def __init__(self) -> None:
        self._files: dict[tuple[str, str], tuple[str | None, PolicyFiles]] = {}

    def file_of(self, folder: str | None) -> str | None:
        """Return the project's file for a session's folder, by the list alone. Raises PolicyError."""
        return project_of_folder(folder, trusted_records())

    def digest_of(self, file: str | None) -> str | None:
        """Return the digest by which callers name what is trusted for a project. Raises PolicyError."""
        return None if file is None else digest_of_record(file, trusted_records())

    def paths(self, file: str) -> dict[str, str]:
        """Return the paths of the rule files that a project's file names, by dialect. Raises PolicyError."""
        return _Project(file, trusted_records()).paths

    def dialects(self, file: str) -> tuple[str, ...]:
        """Return the dialects of the rules that a project's file names. Raises PolicyError."""
        return tuple(_Project(file, trusted_records()).paths)

    def rules(self, file: str, dialect: str, *, is_bound: bool = False) -> PolicyFiles | None:
        """Return the rules of a project in a dialect; None where its file, as it was trusted, names none.

        For a session that `is_bound` to the project already there are always some. Raises PolicyError for a file that
        cannot be read: it may hold the denies that count.
        """
        records = trusted_records()
        project = _Project(file, records)
        if project.is_as_trusted and dialect not in project.paths and not is_bound:
            return None
        trusted = digest_of_record(file, records)
        known = self._files.get((file, dialect))
        if known is None or known[0] != trusted:
            read = partial(_compiled, partial(_read_project, file, dialect))
            known = self._files[file, dialect] = trusted, PolicyFiles(read, [trust_file(), file])
        return known[1]

    def known(self) -> Iterator[PolicyFiles]:
        """Yield the rules that were asked for so far."""
        yield from [files for _, files in self._files.values()]


class _Project:
    """A project's file as it is now: whether the list has this content, and its rule files by dialect."""

    def __init__(self, file: str, records: Records) -> None:
        content = _content(file)
        self.record = records.get(file)
        self.is_as_trusted = self.record is not None and digest_of(content) == self.record.digest
        self.paths = _rules_in(file, content)


def _read_project(file: str, dialect: str) -> PolicySource:
    """Return the rules of a project; untrusted ones unless it and its rule file are as they were trusted.

    Raises PolicyError.
    """
    project = _Project(file, trusted_records())
    path = project.paths.get(dialect)
    if path is None:
        none = f"`{file}` names no rules of dialect `{dialect}` any more, so every call is asked"
        return PolicySource(dialect, untrusted=none if project.is_as_trusted else changed(file, file))
    content = read_content(path)
    layer = dialect_named(dialect).load(path, name=DEFAULT_LAYER, content=content)
    if project.record is None or not project.is_as_trusted:
        reason = changed(file, file)
    elif project.record.named.get(path) != digest_of(content):
        reason = changed(path, file)
    else:
        reason = None
    return PolicySource(dialect, (layer,), untrusted=reason)


def _rules_in(file: str, content: bytes) -> dict[str, str]:
    """Return the paths of the rule files that a project's file names, by dialect. Raises PolicyError."""
    try:
        data = tomllib.loads(content.decode())
        found = next((data[one]["rules"] for one in _TABLES if "rules" in data.get(one, {})), data.get("rules", []))
        named = [named_rules(text) for text in ([found] if isinstance(found, str) else found)]
    except (ValueError, TypeError, AttributeError, RecursionError, InputError) as error:
        raise PolicyError(f"`{file}` does not tell the rules of its project: {error}", file=file) from error
    return {dialect: str(Path(file).parent / path) for dialect, path in named}


def _content(file: str) -> bytes:
    try:
        return read_regular(Path(file), SMALL_BYTES_MAX)
    except (OSError, ValueError) as error:
        text = (
            f"`{file}`, which you trusted, cannot be read: {cause_of(error)}; bring it back, or forget it: "
            f"permission-ledger config untrust {file}"
        )
        raise PolicyError(text, file=file) from error


def _compiled(read: partial[PolicySource]) -> PolicySource:
    """Return what `read` does, and find out that it compiles. Raises PolicyError."""
    source = read()
    compile_policy(source)
    return source

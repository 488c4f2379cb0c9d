"""Our hooks in a settings file on disk: shown as a diff first, written whole or not at all, undone byte for byte.

The edits that installing made are kept in the data folder until they are undone; nothing else of the file is.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import os
import tempfile
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from ledger.core.regular_files import read_regular
from ledger.policy.jsonc import (
    Document,
    Edit,
    Insertion,
    JsonSyntaxError,
    appending,
    applied,
    comments_in,
    parse,
    pointer,
    without,
)
from workers.bridges.hook_entries import (
    TOKEN_VARIABLE,
    Entries,
    Settings,
    events_of_ours,
    is_ours,
    token_in,
    with_entries,
    without_entries,
)
from workers.transport.place import BridgeError, data_folder

_MARK: Final = "\ufeff"
"""The byte order mark that some editors write first; it is no part of the JSON."""


def read(text: str, *, comments: bool) -> Settings:
    """Return the settings in a text; empty for a blank one. Raises JsonSyntaxError, and TypeError for a non-object."""
    body = text.removeprefix(_MARK)
    if not body.strip():
        return {}
    value = parse(body, comments=comments).value
    if not isinstance(value, dict):
        raise TypeError
    return value


def installed(text: str, agent: str, entries: Entries, token: str | None = None) -> tuple[str, tuple[Edit, ...]]:
    """Return a text without hooks of ours, with these added, and the edits at their places before. Raises BridgeError for settings of another form."""
    body = text.removeprefix(_MARK)
    mark = len(text) - len(body)
    if not body.strip():
        wanted = with_entries({}, agent, entries, token)
        edits = [Edit(len(body), "", json.dumps(wanted, indent=2, ensure_ascii=False) + "\n")]
    else:
        document = parse(body, comments=True)
        edits = _edits(body, document, entries, token)
        wanted = with_entries(document.value, agent, entries, token)
    after = applied(body, edits)
    assert parse(after, comments=True).value == wanted
    return text[:mark] + after, tuple(edit._replace(at=edit.at + mark) for edit in edits)


def removed(text: str, agent: str) -> str:
    """Return the text without our hooks, and without what becomes empty. Raises BridgeError."""
    body = text.removeprefix(_MARK)
    mark = text[: len(text) - len(body)]
    wanted = without_entries(_value(body), agent)
    while (where := _first_of_ours(body, agent)) is not None:
        body = without(body, where)
    assert essence(_value(body)) == essence(wanted)
    return mark + body


def essence(settings: Settings) -> Settings:
    """Return the settings without empty lists of hooks, which mean nothing."""
    hooks = {event: found for event, found in (settings.get("hooks") or {}).items() if found != []}
    rest = {name: value for name, value in settings.items() if name != "hooks"}
    return {**rest, "hooks": hooks} if hooks else rest


def _value(body: str) -> Any:
    return parse(body, comments=True).value if body.strip() else {}


def _edits(body: str, document: Document, entries: Entries, token: str | None) -> list[Edit]:
    hooks, edits, members = document.value.get("hooks"), [], []
    if token is not None and "env" in document.value:
        edits.append(appending(body, document, "/env", [Insertion(TOKEN_VARIABLE, token)]))
    elif token is not None:
        members.append(Insertion("env", {TOKEN_VARIABLE: token}))
    if hooks is None:
        members.append(Insertion("hooks", entries))
    else:
        edits += _edits_of_hooks(body, document, hooks, entries)
    return [*edits, appending(body, document, "", members)] if members else edits


def _edits_of_hooks(body: str, document: Document, hooks: Settings, entries: Entries) -> list[Edit]:
    there = {event: ours for event, ours in entries.items() if event in hooks}
    edits = [
        appending(body, document, pointer("hooks", event), [Insertion(None, one) for one in ours])
        for event, ours in there.items()
    ]
    new = [Insertion(event, ours) for event, ours in entries.items() if event not in there]
    return [*edits, appending(body, document, "/hooks", new)] if new else edits


def _first_of_ours(body: str, agent: str) -> str | None:
    """Return the pointer of the largest value that holds a hook of ours and nothing else, no foreign comment either."""
    if not body.strip():
        return None
    document = parse(body, comments=True)
    if token_in(document.value) is not None:
        alone = [len(document.value["env"]) == 1]
        return _largest(body, document, [pointer("env", TOKEN_VARIABLE), "/env"], alone)
    hooks = document.value.get("hooks")
    lists = {event: found for event, found in (hooks or {}).items() if isinstance(found, list)}
    for event, entries in lists.items():
        for at, entry in enumerate(entries):
            inner = entry.get("hooks") if isinstance(entry, dict) else None
            ours = [i for i, hook in enumerate(inner) if is_ours(hook, agent)] if isinstance(inner, list) else []
            if not ours or not isinstance(inner, list):
                continue
            if len(ours) < len(inner):
                return pointer("hooks", event, at, "hooks", ours[0])
            alone = [len(entries) == 1, len(hooks) == 1]
            return _largest(body, document, [pointer("hooks", event, at), pointer("hooks", event), "/hooks"], alone)
    return None


def _largest(body: str, document: Document, values: list[str], alone: list[bool]) -> str:
    """Return the outermost of nested values that holds nothing but the value before it."""
    found, *outer = values
    entry = document.places[found]
    for where, is_alone in zip(outer, alone, strict=True):
        place = document.places[where]
        if not is_alone or comments_in(body[place.start : entry.start] + body[entry.end : place.end]):
            break
        found = where
    return found


FOLDER: Final = "installed"
RECORD_BYTES_MAX: Final = 16 * 1024 * 1024


class InstallRecord(NamedTuple):
    """`created`: there was no file. `edits` in the text that they made, of which `digest` is the SHA-256."""

    created: bool
    digest: str
    edits: tuple[Edit, ...]

    @classmethod
    def of(cls, after: str, edits: tuple[Edit, ...], *, created: bool) -> InstallRecord:
        """Return the record of edits, whose places are those in the text before."""
        moved, grown = [], 0
        for edit in sorted(edits):
            moved.append(edit._replace(at=edit.at + grown))
            grown += len(edit.inserted) - len(edit.removed)
        return cls(created, digest_of(after), tuple(moved))

    def undone(self, text: str) -> str | None:
        """Return the text without the edits, wherever they stand now; None if one of them was changed."""
        if digest_of(text) == self.digest:
            for edit in reversed(self.edits):
                text = text[: edit.at] + edit.removed + text[edit.at + len(edit.inserted) :]
            return text
        for (removed, inserted), count in Counter((edit.removed, edit.inserted) for edit in self.edits).items():
            if text.count(inserted) != count:
                return None
            text = text.replace(inserted, removed)
        return text


def digest_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def load(path: Path) -> InstallRecord | None:
    """Return the record of a file; None without a readable one."""
    try:
        kept: dict[str, Any] = json.loads(read_regular(str(_file(path)), RECORD_BYTES_MAX))
        edits = tuple(Edit(int(at), str(removed), str(inserted)) for at, removed, inserted in kept["edits"])
        return InstallRecord(kept["created"] is True, str(kept["digest"]), edits)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def save(path: Path, record: InstallRecord) -> None:
    """Write the record. Raises BridgeError."""
    file = _file(path)
    said = {"path": str(path.resolve()), "created": record.created, "digest": record.digest, "edits": record.edits}
    try:
        # Each by itself: `parents` would make the data folder open to others, and a server refuses such a folder.
        file.parent.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file.parent.mkdir(exist_ok=True, mode=0o700)
        file.write_text(json.dumps(said), encoding="utf-8")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise BridgeError(f"`{file}` cannot be written, and uninstalling needs it: {why}") from error


def forget(path: Path) -> None:
    _file(path).unlink(missing_ok=True)


def _file(path: Path) -> Path:
    return Path(data_folder()) / FOLDER / f"{digest_of(str(path.resolve()))[:32]}.json"


def installed_paths() -> list[Path]:
    """Return the files that hold hooks of ours, by the records of this data folder."""
    found = []
    for file in sorted((Path(data_folder()) / FOLDER).glob("*.json")):
        with suppress(OSError, ValueError, KeyError, TypeError):
            found.append(Path(json.loads(read_regular(str(file), RECORD_BYTES_MAX))["path"]))
    return found


SETTINGS_BYTES_MAX: Final = 16 * 1024 * 1024


class SettingsChange(NamedTuple):
    """A file's text before and after; None is no file. `record` is the information to undo it."""

    path: Path
    before: str | None
    after: str | None
    record: InstallRecord | None = None

    @property
    def is_needed(self) -> bool:
        return self.before != self.after

    def diff(self) -> str:
        before, after = (self.before or "").splitlines(), (self.after or "").splitlines()
        name = str(self.path)
        return "\n".join(difflib.unified_diff(before, after, name, name, lineterm=""))


def planned(
    path: Path, agent: str, entries: Entries | None, *, comments: bool = False, token: str | None = None
) -> SettingsChange:
    """Return the change that installs these hooks instead of older ones of ours, or removes all (`entries` None).

    `comments`: the agent accepts comments in its settings. Nothing is written. Raises BridgeError for a file that
    cannot be read as the agent's settings.
    """
    before = read_text(path)
    settings = _settings(path, before, comments=comments)
    wanted = without_entries(settings, agent) if entries is None else with_entries(settings, agent, entries, token)
    if wanted == settings:
        return SettingsChange(path, before, before, load(path))
    record = load(path) if events_of_ours(settings, agent) else None
    created = before is None or (record is not None and record.created)
    bare = "" if before is None else _without_ours(before, agent, record)
    if entries is None:
        return SettingsChange(
            path, before, None if created and bare.removeprefix(_MARK).split() in ([], ["{}"], ["{", "}"]) else bare
        )
    after, edits = installed(bare, agent, entries, token)
    return SettingsChange(path, before, after, InstallRecord.of(after, edits, created=created))


def apply(change: SettingsChange) -> None:
    """Write beside, then rename: a concurrent reader finds the old file or the new one. Raises BridgeError."""
    if read_text(change.path) != change.before:
        raise BridgeError(f"`{change.path}` was changed by another program meanwhile; try again")
    if change.record is not None:
        save(change.path, change.record)
    write_text(change.path, change.after)
    if change.record is None:
        forget(change.path)


def installed_in(path: Path, agent: str) -> list[str]:
    """Return the events for which a file has hooks of ours. Raises BridgeError."""
    return events_of_ours(read_settings(path), agent)


def read_settings(path: Path) -> Settings:
    """Return the settings of an agent. Raises BridgeError."""
    return _settings(path, read_text(path), comments=True)


def read_text(path: Path) -> str | None:
    """Return a file's text with its own line ends; None without a file. Raises BridgeError."""
    try:
        return read_regular(path, SETTINGS_BYTES_MAX).decode()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise BridgeError(f"`{path}` cannot be read: {error}") from error


def write_text(path: Path, text: str | None) -> None:
    """Replace a file atomically, with its permissions; a link stays one. None removes it. Raises BridgeError."""
    target = path.resolve()
    try:
        if text is None:
            target.unlink(missing_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        mode = target.stat().st_mode & 0o7777 if target.exists() else 0o600
        descriptor, beside = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            Path(beside).replace(target)
        except BaseException:
            with suppress(OSError):
                Path(beside).unlink()
            raise
    except OSError as error:
        raise BridgeError(f"`{path}` cannot be written: {(error.strerror or str(error)).lower()}") from error


def _without_ours(text: str, agent: str, record: InstallRecord | None) -> str:
    """Return the original text if the record holds it and no other hook of ours is there; else remove our hooks."""
    bare = removed(text, agent)
    undone = None if record is None else record.undone(text)
    if undone is None:
        return bare
    try:
        found = read(undone, comments=True)
    except (JsonSyntaxError, TypeError):
        return bare
    if comments_in(undone) != comments_in(text):
        return bare
    same = essence(found) == essence(read(bare, comments=True))
    return undone if same else bare


def _settings(path: Path, text: str | None, *, comments: bool) -> Settings:
    try:
        return read(text or "", comments=comments)
    except JsonSyntaxError as error:
        hint = "the agent accepts no comments in it" if "comments are allowed" in error.text else error.text
        raise BridgeError(f"`{path}`, line {error.line}, is not JSON: {hint}; correct it first") from error
    except TypeError as error:
        raise BridgeError(f"`{path}` must hold a JSON object") from error

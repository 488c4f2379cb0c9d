"""Streams as a file, and back: every entry under its own id, byte for byte, so that the chain holds there as here.

{"file": "permission-ledger export", "format": 1}
…                                                       the lines of each stream (`ledger.log.exported`)
{"complete": true, "streams": 1}
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from hashlib import sha256
from io import BytesIO
from typing import IO, Any, Final, NamedTuple

import msgspec
from msgspec import to_builtins

from ledger import Ledger
from ledger.client.results import Approved
from ledger.core import codec
from ledger.core.commitments import after_entry
from ledger.core.errors import DamageError, InputError
from ledger.core.events import Actor, GrantBounds, Imported
from ledger.core.grants import StandingGrant, in_force
from ledger.core.ids import new_event_id, new_salt
from ledger.core.regular_files import open_regular
from ledger.log.due_index import hint_of
from ledger.log.exported import (
    FORMAT,
    HEADER,
    BeginLine,
    CompleteLine,
    EndLine,
    EntryLine,
    HeaderLine,
    end_line,
    entry_line,
)
from ledger.log.rulesets import read_ruleset
from ledger.log.surveys import StreamProblem, problem_of
from ledger.log.tail import fold_entries, nothing_folded
from ledger.log.verify import Head, Problem, head_of, verify_entries
from ledger.project import ProjectState
from ledger.session.state import SessionState, Settled
from ledger.stores.port import START, Due, Entry, Position, RawEntry, StreamKey
from ledger.stores.store import Store
from projections.views import approved_of
from workers.presentation.text import json_line
from workers.upkeep.stream_checks import Checked, StreamChecker, check_stream, plain, raw_entries, rules_problems

State = SessionState | ProjectState

NAMED_MAX: Final = 10
"""The number of grants that a refusal names; a dry run lists them all."""


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of one stream's entries that are not on the server yet."""

    key: StreamKey
    entries: int
    added: int
    grants: list[Approved] = []
    answers: int = 0
    """The number of people's replies among them that allowed something."""
    made_by_replies: dict[str, Approved] = {}
    """Grants of the project that its replies made, by id: a projector writes those that the project lacks."""
    known_grants: frozenset[str] = frozenset()
    """Of a project: the ids of all its grants, revoked ones too."""


def arrival_of(key: StreamKey, entries: list[Entry], there: int, now_ms: int) -> Arrival:
    """Fold a stream of a file whose first `there` entries are on the server. Raises DamageError."""
    if not key.has_calls:
        # Rules allow nothing until a session names them.
        return Arrival(key=key, entries=len(entries), added=len(entries) - there)
    before, after = _folded(key, entries, there)
    known = {grant.grant_id for grant in in_force(before.grants, now_ms)}
    grants = [one for one in in_force(after.grants, now_ms) if one.grant_id not in known]
    replies = _replies_since(before, after)
    return Arrival(
        key=key,
        entries=len(entries),
        added=len(entries) - there,
        grants=[approved_of(key, after, one) for one in grants],
        answers=sum(one.reply is not None and one.outcome == "allowed" for one in replies),
        made_by_replies={
            one.grant.grant_id: one
            for settled in replies
            for one in _made_by(after, settled)
            if one.grant.in_force(now_ms)
        },
        known_grants=frozenset(after.grants) if key.kind == "project" else frozenset(),
    )


async def in_force_by(ledger: Ledger, arrivals: Iterable[Arrival]) -> list[Approved]:
    """Return the grants that would be in force after an import and are not now, in the order of their making."""
    arrivals = list(arrivals)
    found = [one for arrival in arrivals for one in arrival.grants]
    in_file = {arrival.key.id: arrival.known_grants for arrival in arrivals if arrival.key.kind == "project"}
    for arrival in arrivals:
        for grant_id, made in arrival.made_by_replies.items():
            project = made.project or ""
            here = (await ledger.streams.project(project).refresh()).grants
            if grant_id not in here and grant_id not in in_file.get(project, frozenset()):
                found.append(made)
    return sorted(found, key=lambda one: (one.grant.at_ms, one.grant.grant_id))


def refusal(file: str, found: list[Approved]) -> InputError:
    """Return the error for an import that would bring grants in force unasked."""
    named = ", ".join(_named(one) for one in found[:NAMED_MAX])
    more = f" and {len(found) - NAMED_MAX} more" if len(found) > NAMED_MAX else ""
    count = "1 grant" if len(found) == 1 else f"{len(found)} grants"
    return InputError(
        f"`{file}` would bring {count} in force, so nothing was imported: {named}{more}",
        hint="`--dry-run` lists what would be in force; `--with-grants` imports it",
        grants=[one.as_json() for one in found],
    )


def mark(entries: list[Entry], actor: Actor, in_force_count: int, now_ms: int) -> Entry:
    """Return the entry that follows an imported stream and marks it as imported."""
    last = entries[-1]
    event = Imported(versions=last.version, hash=head_of(last).hash, in_force_count=in_force_count)
    prev = after_entry(last.ms, last.version, last.payload)
    fields = codec.encode(event, event_id=new_event_id(), prev=prev, actor=actor, salt=new_salt())
    return Entry(max(now_ms, last.ms), last.version + 1, *fields)


def _folded(key: StreamKey, entries: list[Entry], there: int) -> tuple[State, State]:
    """Return the state after the first `there` entries, and after all."""
    before = fold_entries(key, nothing_folded(key), entries[:there])
    return before.state, fold_entries(key, before, entries[there:]).state


def _replies_since(before: State, after: State) -> list[Settled]:
    if not isinstance(after, SessionState):
        return []
    return [one for one in after.settled.values() if one.version > before.version]


def _made_by(state: State, settled: Settled) -> list[Approved]:
    if not isinstance(state, SessionState) or state.project is None or not settled.granted_to_project:
        return []
    bounds = settled.bounds or GrantBounds()
    return [
        Approved(
            grant=StandingGrant(
                grant_id=grant_id,
                permission=settled.request.permission,
                pattern=pattern,
                scope="project",
                by=settled.by,
                at_ms=settled.at_ms,
                version=settled.version,
                expires_ms=None if bounds.expires_in_ms is None else settled.at_ms + bounds.expires_in_ms,
                uses=bounds.uses,
                wider=grant_id in settled.wider,
                session=state.session_id,
                request_id=settled.request.request_id,
            ),
            session=state.session_id,
            project=state.project,
        )
        for grant_id, pattern in zip(settled.grants, settled.granted_patterns, strict=False)
    ]


def _named(one: Approved) -> str:
    place = f"project `{one.project}`" if one.grant.scope == "project" else f"session `{one.session}`"
    return f"{one.grant.permission} `{one.grant.pattern}` in {place} by {one.grant.by.name}"


RESTORED_AT_ONCE_EVENTS: Final = 500
RESTORED_AT_ONCE_BYTES: Final = 1024 * 1024


class Exported(NamedTuple):
    """A stream in a file; `line` is the number of its first line."""

    key: StreamKey
    entries: list[Entry]
    line: int


# --- to a file -------------------------------------------------------------------------------------------------------


def header() -> dict[str, Any]:
    return to_builtins(HeaderLine())  # type: ignore[no-any-return]


def footer(streams: int) -> dict[str, Any]:
    return to_builtins(CompleteLine(complete=True, streams=streams))  # type: ignore[no-any-return]


async def export_stream(
    store: Store, checked: Checked, entries: Sequence[Entry] | None = None
) -> AsyncIterator[dict[str, Any]]:
    """Yield the lines of one stream; `entries` are those that were checked, where they are at hand.

    Raises DamageError for a damaged one: damage is not exported.
    """
    key = checked.key
    if not checked.ok:
        raise not_exported(checked)
    yield to_builtins(BeginLine(key.name))
    last: Entry | None = None
    async for last in _entries_to_export(store, checked) if entries is None else _each(entries):
        yield to_builtins(entry_line(key, last))
    assert last is not None, "a stream that is whole has entries"
    if head_of(last) != checked.head:
        raise DamageError(f"stream `{key.name}` was changed while it was exported", stream=key.name)
    yield to_builtins(end_line(key, last))


async def _entries_to_export(store: Store, checked: Checked) -> AsyncIterator[Entry]:
    """Yield the entries that were checked, read again: a long stream is not kept in memory."""
    async for raw in raw_entries(store, checked.key):
        position = Position.parse(raw.id)
        if position.version > checked.versions:
            return
        yield Entry(*position, *[value for _, value in raw.fields])


async def _each(entries: Sequence[Entry]) -> AsyncIterator[Entry]:
    for entry in entries:
        yield entry


def not_exported(checked: Checked) -> DamageError:
    name = checked.key.name
    return DamageError(f"stream `{name}` is damaged and is not exported: {checked.problems[0].text}", stream=name)


# --- from a file -----------------------------------------------------------------------------------------------------


def read_export(file: IO[bytes], name: str) -> Iterator[Exported]:
    """Yield the streams of a file, each verified as a whole. Raises InputError with the number of the wrong line."""
    lines = _Lines(file, name)
    head = lines.next(HeaderLine)
    if head.file != HEADER or head.format != FORMAT:
        raise lines.wrong("this is not an export that this version can read")
    count = 0
    while isinstance(line := lines.next(BeginLine | CompleteLine), BeginLine):
        yield _read_stream(lines, StreamKey.parse(line.stream))
        count += 1
    if not line.complete or line.streams != count:
        raise lines.wrong(f"the file should hold {line.streams} streams and holds {count}")
    if lines.more():
        raise lines.wrong("something follows the end of the export")


def read_streams(file: IO[bytes], name: str, line: int, count: int) -> Iterator[Exported]:
    """Yield streams of a part of a file that begins with line number `line`, each verified. Raises InputError."""
    lines = _Lines(file, name, line)
    for _ in range(count):
        yield _read_stream(lines, StreamKey.parse(lines.next(BeginLine).stream))


def _read_stream(lines: _Lines, key: StreamKey) -> Exported:
    began = lines.number
    entries: list[Entry] = []
    while isinstance(line := lines.next(EntryLine | EndLine), EntryLine):
        entries.append(line.entry())
    problems = verify_entries(key, entries) or rules_problems(key, entries)
    if problems:
        raise lines.wrong(problems[0].text, began + (problems[0].version or 0))
    if line.end != key.name or line.entries != len(entries) or not entries or line.hash != head_of(entries[-1]).hash:
        raise lines.wrong(f"`{key.name}` does not end here as it did when it was exported")
    return Exported(key, entries, began)


class _Lines:
    """A file's lines, decoded one after the other, with the error text for the line read last."""

    def __init__(self, file: IO[bytes], name: str, first: int = 1) -> None:
        self._file = file
        self._name = name
        self.number = first - 1

    def next(self, wanted: Any) -> Any:
        text = self._file.readline()
        self.number += 1
        if not text:
            raise self.wrong("the file ends too early: it was cut off")
        try:
            return _decode(text, wanted)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            if wanted is HeaderLine:
                raise self.wrong("this is not a file that `permission-ledger export` wrote") from error
            raise self.wrong(str(error)) from error

    def more(self) -> bool:
        self.number += 1
        return bool(self._file.readline())

    def wrong(self, text: str, number: int | None = None) -> InputError:
        at = self.number if number is None else number
        return InputError(f"`{self._name}` line {at}: {text}", line=at)


def _decode(text: bytes, wanted: Any) -> Any:
    """Decode one of several shapes, told apart by their members."""
    members = msgspec.json.decode(text, type=dict[str, Any])
    shapes: Sequence[Any] = getattr(wanted, "__args__", (wanted,))
    shape = next((one for one in shapes if one.__struct_fields__[0] in members), shapes[0])
    return msgspec.convert(members, shape)


# --- into a ledger ---------------------------------------------------------------------------------------------------


async def already_there(store: Store, exported: Exported) -> int:
    """Return the number of a stream's first entries that the server holds. Raises InputError when it holds others.

    Rules that the server holds are those of the file, whoever wrote them there: their digest is their name.
    """
    if await _has_rules(store, exported.key):
        return len(exported.entries)
    count = 0
    async for raw in raw_entries(store, exported.key):
        if count == len(exported.entries):
            # The server has more than the file: all of the export is there.
            break
        entry = exported.entries[count]
        if raw.id != str(entry.position) or dict(raw.fields).get(b"d") != entry.payload:
            raise InputError(
                f"stream `{exported.key.name}` is there already and differs from version {entry.version} on"
                f"{_why(raw)}; nothing was imported",
                stream=exported.key.name,
                version=entry.version,
            )
        count += 1
    if count == 0 and await store.info(exported.key) is not None:
        raise InputError(f"stream `{exported.key.name}` is there already, emptied; nothing was imported")
    return count


def _why(raw: RawEntry) -> str:
    """Return why a stream that was imported before may differ from a newer file of it."""
    entry = plain(raw)
    try:
        is_mark = entry is not None and isinstance(codec.decode(entry.payload, entry.content).event, Imported)
    except DamageError:
        return ""
    return ", where it was imported before and went on by itself" if is_mark else ""


async def restore_stream(store: Store, exported: Exported, mark: Entry) -> int:
    """Write the missing entries, and `mark` after them; return their number.

    The mark is in the last append: a stream is never complete without it. Raises InputError, DamageError, StoreError.
    """
    if await _has_rules(store, exported.key):
        return 0
    there = await already_there(store, exported)
    missing = exported.entries[there:]
    before = exported.entries[there - 1].position if there else START
    due = _due_of(exported)
    for some in _portions([*missing, mark] if missing else []):
        if not await store.restore(exported.key, before, some, due):
            raise InputError(f"stream `{exported.key.name}` was written by others while it was imported; try again")
        before = some[-1].position
    problems = await _problems_there(store, exported)
    if problems:
        raise DamageError(
            f"stream `{exported.key.name}` is not on the server as it was imported: {problems[0].text}",
            stream=exported.key.name,
        )
    return len(missing)


async def _has_rules(store: Store, key: StreamKey) -> bool:
    """Return whether a stream of rules is on the server, whole. Raises StoreError, DamageError."""
    return key.kind == "policy" and (await read_ruleset(store, key.id)).source is not None


async def _problems_there(store: Store, exported: Exported) -> list[Problem]:
    return (await check_stream(store, exported.key, head_of(exported.entries[-1]))).problems


def _portions(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """Yield appends of a bounded size; the last two entries are in one append."""
    portion: list[Entry] = []
    size_bytes = 0
    for number, entry in enumerate(entries, 2):
        portion.append(entry)
        size_bytes += len(entry.payload) + len(entry.content or b"")
        is_full = len(portion) >= RESTORED_AT_ONCE_EVENTS or size_bytes >= RESTORED_AT_ONCE_BYTES
        if is_full and number != len(entries):
            yield portion
            portion, size_bytes = [], 0
    if portion:
        yield portion


def _due_of(exported: Exported) -> Due | None:
    """Return the hint for the expiry worker, as the session stands at its end."""
    if exported.key.kind != "session":
        return None
    hint = hint_of(fold_entries(exported.key, nothing_folded(exported.key), exported.entries).state)
    return hint if isinstance(hint, Due) else None


EXPORTED_AT_ONCE_COUNT: Final = 64
"""Streams of a portion that is exported."""

EXPORTED_AT_ONCE_BYTES: Final = 32 * 1024 * 1024
"""Size of a portion's lines; streams beyond it are left to the command, which writes them line by line."""

IMPORTED_AT_ONCE_COUNT: Final = 100
IMPORTED_AT_ONCE_BYTES: Final = 8 * 1024 * 1024
"""Size of a portion of a file; one stream alone may be larger."""


ExportedStream = tuple[StreamKey, bytes | StreamProblem | None]
"""The lines of a stream, or its problem; neither for one that is too long to be sent."""


async def export_streams(ledger: Ledger, keys: Sequence[StreamKey]) -> list[ExportedStream]:
    """Check streams, and return their lines, in this order. Raises StoreError, MissingExtraError, DamageError."""
    found: list[ExportedStream] = []
    room_bytes = EXPORTED_AT_ONCE_BYTES
    async for checked, entries in StreamChecker(ledger.store).read_all(keys):
        if checked.ok:
            lines = await _lines_of(ledger.store, checked, entries, room_bytes)
            room_bytes -= len(lines or b"")
            found.append((checked.key, lines))
        else:
            found.append((checked.key, problem_of(checked.key, not_exported(checked))))
    return found


async def _lines_of(store: Store, checked: Checked, entries: Sequence[Entry] | None, room_bytes: int) -> bytes | None:
    """Return the lines of a stream; None if they take more room."""
    lines: list[bytes] = []
    async for line in export_stream(store, checked, entries):
        lines.append(f"{json_line(line)}\n".encode())
        room_bytes -= len(lines[-1])
        if room_bytes < 0:
            return None
    return b"".join(lines)


class FilePortion(NamedTuple):
    """Whole streams of a file: the place of their first byte, their size, the number of their first line, their names."""

    start: int
    size: int
    line: int
    keys: list[StreamKey]


class FileToImport(NamedTuple):
    """The path of a file, and its name in errors."""

    path: str
    name: str


class CheckedPortion(NamedTuple):
    """A portion that was checked: what it would bring, and the SHA-256 of its bytes."""

    portion: FilePortion
    arrivals: list[Arrival]
    digest: str


class ImportedStream(NamedTuple):
    """A stream that is on the server whole; `added` are its entries that were not there before."""

    key: StreamKey
    entries: int
    added: int
    head: Head


async def check_import(file: FileToImport, ledger: Ledger, portion: FilePortion) -> CheckedPortion:
    """Check a portion against the server. Raises InputError, DamageError, StoreError."""
    text = _bytes_of(file, portion)
    now_ms = ledger.store.clock.now_ms()
    arrivals = []
    for exported in _streams(text, file, portion):
        there = await already_there(ledger.store, exported)
        arrivals.append(arrival_of(exported.key, exported.entries, there, now_ms))
    return CheckedPortion(portion, arrivals, sha256(text).hexdigest())


async def write_import(
    file: FileToImport, actor: Actor, ledger: Ledger, checked: tuple[FilePortion, str, Sequence[int]]
) -> list[ImportedStream]:
    """Write the missing entries of each stream of a portion that was checked; `actor` imports it.

    With the portion come its SHA-256, and the number of grants that each stream brings in force.
    Raises InputError, DamageError, StoreError, InDoubtError.
    """
    portion, digest, in_force = checked
    text = _bytes_of(file, portion)
    if sha256(text).hexdigest() != digest:
        raise InputError(f"`{file.name}` changed while it was imported; import it again")
    found = []
    for exported, in_force_count in zip(_streams(text, file, portion), in_force, strict=True):
        marked = mark(exported.entries, actor, in_force_count, ledger.store.clock.now_ms())
        added = await restore_stream(ledger.store, exported, marked)
        found.append(ImportedStream(exported.key, len(exported.entries), added, head_of(exported.entries[-1])))
    return found


def _bytes_of(file: FileToImport, portion: FilePortion) -> bytes:
    try:
        with open_regular(file.path) as opened:
            opened.seek(portion.start)
            text = opened.read(portion.size)
    except OSError as error:
        raise InputError(f"`{file.name}` cannot be read: {error.strerror}") from error
    if len(text) < portion.size:
        raise InputError(f"`{file.name}` became shorter while it was imported; import it again")
    return text


def _streams(text: bytes, file: FileToImport, portion: FilePortion) -> Iterator[Exported]:
    return read_streams(BytesIO(text), file.name, portion.line, len(portion.keys))

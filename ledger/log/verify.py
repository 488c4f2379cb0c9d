"""Verification of a stream against its hash chain and metadata. Pure: entries and metadata are arguments.

Limits of the chain: a stream that was truncated, or rewritten from some entry to its end, is again a valid stream; and
the time of the newest append is only covered by the next one. A `Head` that was saved elsewhere reveals all three.

`is_whole` is the quick half: versions, times, hashes and commitments, without reading JSON. A stream that does not pass
is read by `verify_entries`, which names each problem. What the newest entry says is read as an event, because no other
entry bears it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from ledger.core import codec
from ledger.core.commitments import after_entry, follows, genesis, is_commitment_to, within_append
from ledger.core.errors import DamageError
from ledger.core.events import Redacted
from ledger.core.late_patterns import late_pattern
from ledger.core.limits import ENTRY_MS_MAX, PAGE_COUNT
from ledger.log.tail import WITHOUT_CONTENT
from ledger.stores.port import START, Entry, Position, RawEntry, StreamInfo, StreamKey

ProblemKind: TypeAlias = Literal[
    "altered",
    "deleted",
    "edited",
    "foreign",
    "gap",
    "miscounted",
    "missing",
    "newer",
    "redated",
    "reordered",
    "repeated",
    "restored",
    "rewritten",
    "truncated",
    "unbacked",
    "undecodable",
    "unproven",
]

KINDS: Final[tuple[ProblemKind, ...]] = get_args(ProblemKind)
"""The kinds of problems; `docs/reference/log-format.md` explains each."""

_ENTRY_ID: Final = late_pattern(r"(0|[1-9]\d{0,19})-([1-9]\d{0,19})", re.ASCII)


class Problem(msgspec.Struct, frozen=True):
    """One finding. `version` is its entry's, None where it concerns the whole stream."""

    version: int | None
    kind: ProblemKind
    text: str


class Head(NamedTuple):
    """A position in a stream, and the lower-case hex SHA-256 that the next entry has as `prev`."""

    position: Position
    hash: str


def head_of(entry: Entry) -> Head:
    """Return the head to save elsewhere, which reveals a later truncation or rewrite up to here."""
    return Head(entry.position, after_entry(entry.ms, entry.version, entry.payload))


def verify_entries(
    key: StreamKey,
    entries: Iterable[Entry | RawEntry],
    info: StreamInfo | None = None,
    head: Head | None = None,
) -> list[Problem]:
    """Return all problems of a stream: those of its entries in their order, then those of the whole.

    `entries` are all entries from the first, as stored. `info` is the stream's metadata from before they were read;
    later entries are no problem. `head` is a position that was saved earlier.
    """
    return read_entries(key, entries, info, head).problems


def read_entries(
    key: StreamKey,
    entries: Iterable[Entry | RawEntry],
    info: StreamInfo | None = None,
    head: Head | None = None,
) -> StreamReading:
    """As `verify_entries`; the result also counts the redacted entries."""
    reading = StreamReading(key, head)
    for entry in entries:
        reading.take(entry)
    reading.compare_with_redactions()
    if info is not None:
        reading.compare_with_server(info)
    if head is not None:
        reading.compare_with_head(head)
    return reading


class StreamReading:
    """One pass over a stream. After a problem it continues from the present entry."""

    def __init__(self, key: StreamKey, head: Head | None) -> None:
        self.problems: list[Problem] = []
        self._key = key
        self._with_content: set[int] = set()
        self._without_content: set[int] = set()
        self._redacted: set[int] = set()
        self._before: Entry | None = None
        self._count = 0
        self._event_ids: dict[str, int] = {}
        self._head_version = None if head is None else head.position.version
        self._at_head: Entry | None = None

    def _report(self, version: int | None, kind: ProblemKind, text: str) -> None:
        self.problems.append(Problem(version, kind, text))

    # --- entry by entry ---------------------------------------------------------------------------------------------

    def take(self, one: Entry | RawEntry) -> None:
        self._count += 1
        entry = one if isinstance(one, Entry) else self._unwrap(one)
        if entry is None:
            return
        before = self._before
        if before is not None and entry.version <= before.version:
            self._report(entry.version, "reordered", f"version {entry.version} stands after version {before.version}")
            return
        if entry.ms > ENTRY_MS_MAX:
            text = f"version {entry.version} is dated {entry.ms} ms, after the year 9989"
            self._report(entry.version, "redated", text)
        envelope = self._decode(entry)
        if envelope is not None:
            self._check_event_id(entry, envelope.id)
            self._check_content(entry, envelope)
        self._check_place(entry, None if envelope is None else envelope.prev)
        self._before = entry
        if entry.version == self._head_version:
            self._at_head = entry

    def _unwrap(self, raw: RawEntry) -> Entry | None:
        """Return the entry in the ledger's format; None where it has no payload from which the chain could continue."""
        written = _ENTRY_ID.fullmatch(raw.id)
        version = int(written[2]) if written else None
        if [name for name, _ in raw.fields] not in ([b"d"], [b"d", b"x"]):
            text = f"entry {raw.id} has other fields than `d`, or `d` and `x`: the ledger did not write it"
            self._report(version, "foreign", text)
        elif written is None:
            self._report(version, "foreign", f"entry {raw.id} has no version in its id: the ledger did not write it")
        payloads = [value for name, value in raw.fields if name == b"d"]
        if written is None or len(payloads) != 1:
            return None
        content = next((value for name, value in raw.fields if name == b"x"), None)
        return Entry(int(written[1]), int(written[2]), payloads[0], content)

    def _decode(self, entry: Entry) -> codec.Envelope | codec.Decoded | None:
        try:
            envelope = codec.decode(entry.payload)
        except DamageError as error:
            self._report(entry.version, "undecodable", f"version {entry.version}: {error.text}")
            return None
        if isinstance(envelope, codec.Decoded):
            text = f"version {entry.version} is of schema {envelope.v}; upgrade this program to read it"
            self._report(entry.version, "newer", text)
        return envelope

    def _check_content(self, entry: Entry, envelope: codec.Envelope | codec.Decoded) -> None:
        if isinstance(envelope.event, Redacted):
            self._redacted.update(envelope.event.versions)
        if codec.is_redacted(envelope, entry.content):
            self._without_content.add(entry.version)
        if entry.content is None or isinstance(envelope, codec.Decoded):
            return
        self._with_content.add(entry.version)
        try:
            codec.attach(envelope, entry.content)
        except DamageError as error:
            kind: ProblemKind = "altered" if error.data.get("altered") else "undecodable"
            self._report(entry.version, kind, f"version {entry.version}: {error.text}")

    def _check_event_id(self, entry: Entry, event_id: str) -> None:
        first = self._event_ids.setdefault(event_id, entry.version)
        if first != entry.version:
            text = f"version {entry.version} has the event id of version {first}: it was copied, or written twice"
            self._report(entry.version, "repeated", text)

    def _check_place(self, entry: Entry, prev: str | None) -> None:
        before = self._before
        expected = 1 if before is None else before.version + 1
        if entry.version != expected:
            last = entry.version - 1
            missing = f"version {expected} is" if last == expected else f"versions {expected} to {last} are"
            self._report(expected, "gap", f"{missing} missing")
        elif before is None:
            self._check_beginning(prev)
        else:
            self._check_link(before, entry, prev)

    def _check_beginning(self, prev: str | None) -> None:
        if prev not in (None, genesis(self._key.kind, self._key.id)):
            text = f"version 1 does not begin `{self._key.name}`: it was changed, or is of another stream"
            self._report(1, "edited", text)

    def _check_link(self, before: Entry, entry: Entry, prev: str | None) -> None:
        if entry.ms < before.ms:
            text = f"version {entry.version} is dated before version {before.version}"
            self._report(entry.version, "redated", text)
        elif prev == within_append(before.version, before.payload) and entry.ms != before.ms:
            text = (
                f"versions {before.version} and {entry.version} are of one append and bear different times: "
                "one of them was re-dated"
            )
            self._report(entry.version, "redated", text)
        elif prev is not None and not follows(prev, entry.ms, before.ms, before.version, before.payload):
            text = (
                f"version {before.version} is not what version {entry.version} was written after: "
                "the content or the time of one of them was changed"
            )
            self._report(before.version, "edited", text)

    # --- against redactions ------------------------------------------------------------------------------------------

    @property
    def redacted_count(self) -> int:
        """Return the number of entries whose content was redacted, by a recorded event."""
        return len(self._without_content & self._redacted)

    def compare_with_redactions(self) -> None:
        for version in sorted(self._without_content - self._redacted):
            self._report(version, "missing", f"version {version} {WITHOUT_CONTENT}")
        for version in sorted(self._with_content & self._redacted):
            text = f"version {version} was redacted, and its content is there again: somebody restored it"
            self._report(version, "restored", text)

    # --- against metadata and the saved head ------------------------------------------------------------------------

    def compare_with_server(self, info: StreamInfo) -> None:
        last = START if self._before is None else self._before.position
        if info.length == 0:
            self._report(None, "deleted", "the stream exists but is empty: its entries were deleted")
        if info.max_deleted != START:
            text = f"entry {info.max_deleted} was deleted, as the server says"
            self._report(info.max_deleted.version, "deleted", text)
        if not info.length == info.entries_added == info.last.version:
            text = (
                f"the server counts {info.length} entries, {info.entries_added} added and a last version of "
                f"{info.last.version}: these must be the same"
            )
            self._report(None, "miscounted", text)
        if self._count < info.length:
            text = f"the server counts {info.length} entries, and {self._count} are there"
            self._report(None, "miscounted", text)
        if last.version < info.last.version:
            text = f"the server's last entry was {info.last}, but the stream ends with {last}"
            self._report(info.last.version, "truncated", text)
        elif last.version == info.last.version and last.ms != info.last.ms:
            text = f"the server's last entry was {info.last}, but version {last.version} is dated {last.ms}"
            self._report(last.version, "redated", text)

    def compare_with_head(self, head: Head) -> None:
        version = head.position.version
        last_version = 0 if self._before is None else self._before.version
        if version > last_version:
            text = f"the stream had {version} versions and ends with version {last_version}: its end was cut off"
            self._report(version, "truncated", text)
        elif self._at_head is not None and head_of(self._at_head) != head:
            text = f"version {version} is not the entry that was known before: history up to here was rewritten"
            self._report(version, "rewritten", text)


_SCHEMAS: Final = "|".join(str(schema) for schema in range(codec.FIRST_SCHEMA, codec.SCHEMA_VERSION + 1))

_BEGINNING: Final = late_pattern(
    rf'\{{"v":({_SCHEMAS}),"id":"([^"\\]+)","prev":"(.{{64}})","actor":\{{[^{{}}\\]*\}},'
    r'(?:"x":"(.{43})",)?"event":\{"type":"([a-z_]+)"'.encode(),
    re.DOTALL,
)
"""The members of a payload before those of its event, as `ledger.core.codec` writes them.

Texts in JSON have a backslash before a quotation mark, so that without any backslash no text can look like a member.
`prev` and commitment are compared with those computed, so their characters are not looked at here.
"""

_EVENT: Final = b'"event"'
_WITH_RULES: Final = frozenset((b"session_opened", b"policy_changed", b"rules_stored"))

PayloadBeginning: TypeAlias = tuple[bytes, bytes, bytes, bytes | None, bytes]
"""The beginning of a payload: schema, event id, `prev`, commitment (None without one), and type of the event."""


def may_spell_otherwise(text: bytes) -> bool:
    """Return whether JSON has characters by number, with which a member's name can be spelt in another way."""
    # One character is found ten times as fast as two.
    return b"\\" in text and b"\\u" in text


def beginnings_of(entries: Sequence[Entry]) -> list[PayloadBeginning] | None:
    """Return how each payload begins; None if one begins in another way, or may have a second event."""
    match = _BEGINNING.match
    found: list[Any] = []
    for start in range(0, len(entries), PAGE_COUNT):
        payloads = [entry.payload for entry in entries[start : start + PAGE_COUNT]]
        text = b"\n".join(payloads)
        # Of two members of one name, readers take the last one.
        if may_spell_otherwise(text) or text.count(_EVENT) != len(payloads):
            return None
        for payload in payloads:
            if (beginning := match(payload)) is None:
                return None
            found.append(beginning.groups())
    return found


def with_rules(entries: Sequence[Entry], beginnings: Sequence[PayloadBeginning]) -> list[Entry]:
    """Return the entries of events that may have rules, or name them."""
    return [entry for entry, begun in zip(entries, beginnings, strict=True) if begun[4] in _WITH_RULES]


_CONCERNING_OTHERS: Final = frozenset((b"redacted", b"imported"))
"""Events that say something about other entries: such a stream is read in full."""


def is_whole(
    key: StreamKey,
    entries: Sequence[Entry],
    info: StreamInfo,
    head: Head | None,
    *,
    beginnings: Sequence[PayloadBeginning] | None = None,
) -> bool:
    """Return whether a stream has certainly no problem of its chain; the arguments are those of `verify_entries`.

    `beginnings` are those of the payloads, from a caller that has them. False says nothing: the stream may be damaged,
    or only be written in another way.
    """
    begun = beginnings or beginnings_of(entries)
    if not begun:
        return False
    return (
        _is_linked(key, entries, begun)
        and _is_as_the_server_says(entries, info)
        and (head is None or _has_head(entries, head))
        and _is_event(entries[-1])
    )


class WholeEntries(tuple[Entry, ...]):
    """All entries of a stream, in which verification found no problem. Only `whole_entries` makes them."""

    __slots__ = ()


def whole_entries(key: StreamKey, entries: Sequence[Entry], info: StreamInfo) -> WholeEntries | Problem:
    """Return a stream's entries if they have no problem, else the first problem; the arguments are as of `is_whole`."""
    if not is_whole(key, entries, info, None):
        problems = verify_entries(key, entries, info)
        if problems:
            return problems[0]
    return WholeEntries(entries)


def _is_linked(key: StreamKey, entries: Sequence[Entry], beginnings: Sequence[PayloadBeginning]) -> bool:
    before_ms = before_version = 0
    before_payload = b""
    event_ids: set[bytes] = set()
    for (ms, version, payload, content), begun in zip(entries, beginnings, strict=True):
        _, event_id, written_prev, commitment, event_type = begun
        if version != before_version + 1:
            return False
        prev = written_prev.decode("latin-1")  # never fails; other characters than those of a hash only differ from it
        if version == 1:
            linked = prev == genesis(key.kind, key.id)
        else:
            linked = ms >= before_ms and follows(prev, ms, before_ms, before_version, before_payload)
        if not linked or event_type in _CONCERNING_OTHERS or not _is_committed(content, commitment):
            return False
        event_ids.add(event_id)
        before_ms, before_version, before_payload = ms, version, payload
    return len(event_ids) == len(entries) and before_ms <= ENTRY_MS_MAX


def _is_committed(content: bytes | None, commitment: bytes | None) -> bool:
    """Return whether an entry has exactly the content to which its payload commits."""
    if content is None or commitment is None:
        return content is commitment
    return is_commitment_to(commitment, content)


def _is_as_the_server_says(entries: Sequence[Entry], info: StreamInfo) -> bool:
    """Return whether nothing was deleted or cut off; entries that came since the metadata was read are no problem."""
    last = info.last
    return (
        info.length == info.entries_added == last.version
        and info.max_deleted == START
        and 0 < info.length <= len(entries)
        and entries[last.version - 1].ms == last.ms
    )


def _has_head(entries: Sequence[Entry], head: Head) -> bool:
    version = head.position.version
    return 0 < version <= len(entries) and head_of(entries[version - 1]) == head


def _is_event(entry: Entry) -> bool:
    """Return whether an entry reads as an event of a known schema, with its content."""
    try:
        return isinstance(codec.decode(entry.payload, entry.content), codec.Envelope)
    except DamageError:
        return False

"""Redaction of a stream: the entries whose content is to go, those that hold what is looked for and cannot, and the step."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Literal, NamedTuple

import msgspec

from ledger.core import codec
from ledger.core.codec import NewerEvent
from ledger.core.commitments import after_entry
from ledger.core.errors import InputError, StoreError
from ledger.core.events import Actor, Asked, Granted, ReasonDetail, Redacted, ToolFinished, event_type
from ledger.core.grants import Recorded
from ledger.core.ids import new_event_id, new_salt
from ledger.core.limits import REDACTED_COUNT
from ledger.log.tail import Folded, nothing_folded, read_pages
from ledger.stores.port import Append, Appended, AppendResult, Entry, Position, StreamKey
from ledger.stores.store import Store

PATTERN_CHARS_MIN: Final = 4
PATTERN_CHARS_MAX: Final = 1000
REGEX: Final = "regex:"

SALT: Final = "salt"

ChosenFor = Literal["named", "matches", "same_request"]
LeftFor = Literal["payload", "access", "rules"]


class Redactable(msgspec.Struct, frozen=True, kw_only=True):
    """An entry whose content goes. `members` are those of its content, `matched` those with what is looked for.

    `why`: it was named, it matches, or it is of the same request as such an entry.
    """

    version: int
    type: str
    members: tuple[str, ...]
    matched: tuple[str, ...] = ()
    request_id: str | None = None
    why: ChosenFor = "named"


class NotRedactable(msgspec.Struct, frozen=True, kw_only=True):
    """An entry with what was named or is looked for, which stays.

    `why`: ids and names of tools, permissions and people are in every payload;
    the streams of access are not rewritten, nor are those of rules, by which sessions are judged.
    """

    version: int
    type: str
    members: tuple[str, ...]
    why: LeftFor


class _Noted(NamedTuple):
    version: int
    type: str
    request_id: str | None
    members: tuple[str, ...]
    matched: tuple[str, ...]
    has_content: bool


class Pattern:
    """The text that is looked for: literally, or a regular expression behind `regex:`. Raises InputError."""

    def __init__(self, text: str) -> None:
        if len(text) > PATTERN_CHARS_MAX:
            raise InputError(f"the pattern has {len(text)} characters; at most {PATTERN_CHARS_MAX} are accepted")
        written = text.removeprefix(REGEX) if text.startswith(REGEX) else re.escape(text)
        if len(text) < PATTERN_CHARS_MIN:
            raise InputError(f"a pattern of fewer than {PATTERN_CHARS_MIN} characters is in too many entries")
        try:
            self._regex = re.compile(written)
        except re.error as error:
            raise InputError(f"the pattern is no regular expression: {error}") from error
        if self._regex.search("") is not None:
            raise InputError("the pattern matches every text; name what is to go")

    def is_in(self, text: str) -> bool:
        return self._regex.search(text) is not None

    def members_of(self, value: object) -> tuple[str, ...]:
        """Return the members of an object in which it is found, at any depth, in texts, numbers or names."""
        if not isinstance(value, Mapping):
            return ()
        return tuple(
            name for name, one in value.items() if name != SALT and any(self.is_in(text) for text in _texts(one))
        )


class Selection:
    """The entries of one stream that were named, match a pattern, or are of given requests; taken in their order.

    A pattern is looked for in entries from `since_ms` (server ms) on. `requests` are requests by session and id: all of
    their entries go, and those of requests of which an entry was chosen.
    """

    def __init__(
        self,
        key: StreamKey,
        *,
        versions: Iterable[int] = (),
        pattern: Pattern | None = None,
        since_ms: int = 0,
        requests: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._key = key
        self._named = frozenset(versions)
        self._pattern = pattern
        self._since_ms = since_ms
        self._requests = frozenset(requests)
        self._calls: dict[str, str] = {}
        self._noted: list[_Noted] = []
        self.stays: list[NotRedactable] = []
        """The entries that cannot lose what was named or is looked for, in their order."""

    def take(self, entry: Entry, recorded: Recorded) -> None:
        """Note an entry."""
        event = recorded.event
        if isinstance(event, NewerEvent):
            return
        payload = msgspec.json.decode(entry.payload)
        in_clear = payload["event"]
        detail = None if entry.content is None else msgspec.json.decode(entry.content)
        members = tuple(name for name in detail or () if name != SALT)
        matched, in_payload = self._matches(entry, detail, {**in_clear, **payload["actor"]})
        kind = event_type(event)
        if detail is not None and not self._key.has_calls:
            if matched:
                self._stay(entry.version, kind, matched, "rules" if self._key.kind == "policy" else "access")
        else:
            request_id = self._request_of(event)
            self._noted.append(_Noted(entry.version, kind, request_id, members, matched, detail is not None))
        if in_payload:
            self._stay(entry.version, kind, in_payload, "payload")

    def _stay(self, version: int, kind: str, members: tuple[str, ...], why: LeftFor) -> None:
        self.stays.append(NotRedactable(version=version, type=kind, members=members, why=why))

    def _matches(
        self, entry: Entry, detail: object, in_clear: Mapping[str, Any]
    ) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self._pattern is None or entry.ms < self._since_ms:
            return (), ()
        return self._pattern.members_of(detail), self._pattern.members_of(in_clear)

    def _request_of(self, event: Any) -> str | None:
        """Return the request that an event is of; in a project's stream only if it is one of the given ones."""
        request_id: str | None = getattr(event, "request_id", None)
        if self._key.kind == "project":
            is_given = isinstance(event, Granted) and (event.session, request_id) in self._requests
            return request_id if is_given else None
        if isinstance(event, Asked) and event.tool is not None:
            self._calls[event.tool.call_id] = event.request_id
        if request_id is None and isinstance(event, ToolFinished) and event.call_id is not None:
            return self._calls.get(event.call_id)
        return request_id

    # --- the result -------------------------------------------------------------------------------------------------

    @property
    def requests(self) -> frozenset[str]:
        """Return the ids of the requests that lose all of their content."""
        given = {
            request_id
            for session, request_id in self._requests
            if self._key.kind == "project" or session == self._key.id
        }
        chosen = {one.request_id for one in self._noted if one.request_id is not None and self._is_chosen(one)}
        return frozenset(given | chosen)

    def _is_chosen(self, one: _Noted) -> bool:
        return bool(one.matched) or one.version in self._named

    @property
    def goes(self) -> list[Redactable]:
        """Return the entries whose content goes, in their order."""
        requests = self.requests
        return [
            Redactable(
                version=one.version,
                type=one.type,
                members=one.members,
                matched=one.matched,
                request_id=one.request_id,
                why="named" if one.version in self._named else "matches" if one.matched else "same_request",
            )
            for one in self._noted
            if one.has_content and (self._is_chosen(one) or one.request_id in requests)
        ]

    @property
    def without_content(self) -> list[int]:
        """Return the named versions that have no content: it was redacted, or there never was any."""
        return [one.version for one in self._noted if one.version in self._named and not one.has_content]


def _texts(value: object) -> Iterator[str]:
    """Iterate over all texts in a JSON value, names of members and numbers included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, one in value.items():
            yield str(name)
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


ROUNDS_MAX = 64
"""Retries after other writers were first; each has seen more than the one before."""


class StreamPlan:
    """The redaction of one stream as planned; `folded` is the stream as of the last entry read."""

    def __init__(self, key: StreamKey, selection: Selection) -> None:
        self.key = key
        self.selection = selection
        self.folded: Folded[object] = nothing_folded(key)
        self._redactions: set[str] = set()

    @property
    def versions(self) -> list[int]:
        return [one.version for one in self.selection.goes]

    @property
    def is_empty(self) -> bool:
        return not self.selection.goes and not self.selection.stays

    async def read(self, store: Store) -> None:
        """Read the entries that are new. Raises StoreError, DamageError."""
        async for page in read_pages(store, self.key, self.folded.last):
            for entry in page:
                recorded, self.folded = self.folded.next(self.key, entry)
                self.selection.take(entry, recorded)
                if isinstance(recorded.event, Redacted):
                    self._redactions.add(recorded.event_id)

    @property
    def is_redacted(self) -> bool:
        """Return whether something was taken out of the stream already."""
        return bool(self._redactions)

    def has(self, event_id: str) -> bool:
        """Return whether a redaction with this event id was read."""
        return event_id in self._redactions


async def redact(store: Store, plan: StreamPlan, *, actor: Actor, reason: str) -> list[int]:
    """Take out what is planned, and record it; return the redacted versions.

    What other writers add meanwhile is looked at, too. Raises StoreError, InDoubtError, DamageError, SetupError.
    """
    done: set[int] = set()
    while left := [version for version in plan.versions if version not in done]:
        done.update(await _redact_some(store, plan, left[:REDACTED_COUNT], done, actor=actor, reason=reason))
    return sorted(done)


async def _redact_some(
    store: Store, plan: StreamPlan, versions: list[int], done: set[int], *, actor: Actor, reason: str
) -> list[int]:
    """Return the redacted versions: these, or none if others are to be taken out by now."""
    event_id, salt = new_event_id(), new_salt()
    is_done, rounds = False, 0

    async def following(result: AppendResult | None) -> Append | None:
        nonlocal is_done, rounds
        if result is not None:
            await plan.read(store)
            is_done = isinstance(result, Appended) or plan.has(event_id)
            if is_done or [one for one in plan.versions if one not in done][:REDACTED_COUNT] != versions:
                return None
        if rounds == ROUNDS_MAX:
            raise StoreError(
                f"stream `{plan.key.name}` was written by others {ROUNDS_MAX} times in a row; try again",
                stream=plan.key.name,
            )
        rounds += 1
        event = Redacted(versions=tuple(versions), detail=ReasonDetail(reason))
        last = plan.folded.last
        prev = after_entry(last.ms, last.version, last.payload)
        fields = codec.encode(event, event_id=event_id, prev=prev, actor=actor, salt=salt)
        return Append(key=plan.key, after=last.position, payloads=(fields,))

    await store.rewrite(plan.key, versions, following)
    if not is_done:
        return []
    await _confirm(store, plan.key, Position(*plan.folded.last[:2]))
    return versions


async def _confirm(store: Store, key: StreamKey, at: Position) -> None:
    """Wait for the replication that `Durability` asks for. Raises InDoubtError."""
    if store.durability.is_demanding and await store.confirm(key, at) is None:
        raise StoreError(f"the server lost the redaction of stream `{key.name}`; repeat the command", stream=key.name)

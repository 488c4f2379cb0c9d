"""The fold of `Granted` and `Revoked`, for sessions' and projects' streams alike."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec.structs import replace
from rpds import HashTrieMap

from ledger.core.codec import NewerEvent
from ledger.core.event_shapes import Proof
from ledger.core.events import Actor, Event, Granted, Revoked, Scope, Value
from ledger.core.late_patterns import late_pattern
from ledger.core.packed_records import IndexedMap, SortedKeys
from ledger.core.policy import Grant

PREFIX_CHARS_MAX: Final = 16

_WORD: Final = late_pattern(r"[A-Za-z0-9]+")
_WILD: Final = frozenset("*?")
_UNSURE: Final = frozenset("\\[]{}")
"""Characters that make some dialects read the letters beside them as something else than themselves."""

_ANY: Final = ""
_BEGINS: Final = "^"
"""Marks the beginning of a word; a whole word has no mark."""


class PatternIndex:
    """The ids of patterns by a word."""

    __slots__ = ("_by_word", "_has_prefixes", "_word_of")

    def __init__(
        self,
        by_word: HashTrieMap[str, tuple[str, ...]] | None = None,
        word_of: HashTrieMap[str, str] | None = None,
        *,
        has_prefixes: bool = False,
    ) -> None:
        self._by_word: HashTrieMap[str, tuple[str, ...]] = HashTrieMap() if by_word is None else by_word
        self._word_of: HashTrieMap[str, str] = HashTrieMap() if word_of is None else word_of
        self._has_prefixes = has_prefixes

    def __contains__(self, pattern_id: str) -> bool:
        return pattern_id in self._word_of

    def __len__(self) -> int:
        return len(self._word_of)

    def add(self, pattern_id: str, pattern: str) -> PatternIndex:
        """Return the index with one more pattern, whose id it must not have."""
        word = min(_words_of(pattern), key=lambda one: (len(self._by_word.get(one, ())), -len(one)), default=_ANY)
        known = self._by_word.get(word, ())
        return PatternIndex(
            self._by_word.insert(word, (*known, pattern_id)),
            self._word_of.insert(pattern_id, word),
            has_prefixes=self._has_prefixes or word.startswith(_BEGINS),
        )

    def discard(self, pattern_id: str) -> PatternIndex:
        """Return the index without a pattern, which it may lack."""
        word = self._word_of.get(pattern_id)
        if word is None:
            return self
        left = tuple(one for one in self._by_word[word] if one != pattern_id)
        return PatternIndex(
            self._by_word.insert(word, left) if left else self._by_word.remove(word),
            self._word_of.remove(pattern_id),
            has_prefixes=self._has_prefixes,
        )

    def with_same_word(self, pattern_id: str) -> tuple[str, ...]:
        """Return the ids of the patterns under the same word."""
        word = self._word_of.get(pattern_id)
        return () if word is None else self._by_word[word]

    def about(self, texts: Iterable[str]) -> Iterator[str]:
        """Iterate over the ids of the patterns that may match one of these texts, each once."""
        by_word = self._by_word
        if not by_word:
            return
        yield from by_word.get(_ANY, ())
        for word in _words_in(texts, prefixes=self._has_prefixes):
            found = by_word.get(word)
            if found is not None:
                yield from found


def _words_of(pattern: str) -> Iterator[str]:
    """Yield the words that every match of a pattern contains; those of its members if it is a flat object of JSON."""
    if pattern.startswith("{"):
        for value in _members_of(pattern):
            yield from _words_of_text(value)
    else:
        yield from _words_of_text(pattern)


def _members_of(pattern: str) -> tuple[str, ...]:
    """Return the texts in a flat object; nothing for another value, with an escape, or with a member twice."""
    if "\\" in pattern:
        return ()
    try:
        members = json.loads(pattern, object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return ()
    if len({name for name, _ in members}) < len(members):
        return ()
    return tuple(value for _, value in members if isinstance(value, str))


def _words_of_text(pattern: str) -> Iterator[str]:
    if not _UNSURE.isdisjoint(pattern):
        return
    for found in _WORD.finditer(pattern):
        before = pattern[found.start() - 1] if found.start() else " "
        after = pattern[found.end()] if found.end() < len(pattern) else " "
        if before in _WILD or not before.isascii() or not after.isascii():
            continue
        word = found[0].lower()
        if after in _WILD or len(word) > PREFIX_CHARS_MAX:
            yield _BEGINS + word[:PREFIX_CHARS_MAX]
        else:
            yield word


def _words_in(texts: Iterable[str], *, prefixes: bool) -> set[str]:
    words: set[str] = set()
    for text in texts:
        words.update(map(str.lower, _WORD.findall(text)))
        if not text.isascii():  # some dialects ignore case, and other letters are ASCII letters without theirs
            words.update(_WORD.findall(text.casefold()))
    if not prefixes:
        return words
    begun = (_BEGINS + word[:length] for word in words for length in range(1, min(len(word), PREFIX_CHARS_MAX) + 1))
    return words.union(begun)


_CLOCKS_AGREE_MS: Final = 24 * 60 * 60 * 1000
"""The clocks of two servers differ by less than this; the streams of a session and of its project may lie on two."""

_NO_ENTRIES: Final[HashTrieMap[Any, Any]] = HashTrieMap()
_NO_PATTERNS: Final = PatternIndex()
_NO_KEYS: Final[SortedKeys[tuple[int, str]]] = SortedKeys()


class Recorded(msgspec.Struct, frozen=True, gc=False):
    """An event as stored in the log, with its author, time (server ms) and version.

    `redacted`: its detail was taken out of the log.
    """

    event: Event | NewerEvent
    actor: Actor
    ms: int
    version: int
    event_id: str
    redacted: bool = False


class Taker(Value, frozen=True):
    """A call that takes uses of grants: its request, and its claims. Without a claim, an ask or a release takes them.

    The session and the request are part of it, because claims of different agents may have the same id.
    """

    session: str
    request_id: str
    claim_ids: tuple[str, ...] = ("",)


class TakenUse(Value, frozen=True):
    """One use of a grant, and its time (server ms)."""

    session: str
    request_id: str
    claim_id: str
    ms: int


class StandingGrant(Value, kw_only=True, frozen=True):
    """A grant in state. `expires_ms` and `revoked_ms` are server times; None means never and not revoked.

    `uses` is the limit on the calls that it lifts, None without one; `taken` are those of which it is known.
    """

    grant_id: str
    permission: str
    pattern: str
    scope: Scope
    by: Actor
    at_ms: int
    version: int
    expires_ms: int | None = None
    revoked_ms: int | None = None
    session: str | None = None
    request_id: str | None = None
    reason: str | None = None
    imported: bool = False
    redacted: bool = False
    """True when its pattern was taken out of the log: it lifts nothing any more."""
    proof: Proof | None = None
    """The proof of a passkey's signature on the answer that made the grant."""
    uses: int | None = None
    taken: tuple[TakenUse, ...] = ()
    wider: bool = False
    """True for a person's own pattern, which allows more than was offered."""

    @property
    def uses_left(self) -> int | None:
        """Return the number of uses left; None without a limit."""
        return None if self.uses is None else max(self.uses - len(self.taken), 0)

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the grant was revoked, redacted, or has expired at a server time (ms)."""
        ended = self.revoked_ms is not None or self.redacted
        return ended or (self.expires_ms is not None and now_ms >= self.expires_ms)

    def in_force(self, now_ms: int) -> bool:
        """Return whether the grant may lift a new call at a server time (ms)."""
        return not self.has_ended(now_ms) and (self.uses is None or len(self.taken) < self.uses)

    def counts(self, now_ms: int, taker: Taker | None) -> bool:
        """Return whether the grant is in force, or this call holds a use of it and it has not ended."""
        if self.uses is None or taker is None or not self.taken:
            return self.in_force(now_ms)
        return not self.has_ended(now_ms) and (len(self.taken) < self.uses or self.is_held(taker))

    def is_held(self, taker: Taker) -> bool:
        """Return whether this call has taken a use already."""
        return any(
            one.request_id == taker.request_id and one.session == taker.session and one.claim_id in taker.claim_ids
            for one in self.taken
        )

    def as_policy_grant(self) -> Grant:
        return Grant(self.grant_id, self.permission, self.pattern, self.scope)


class Grants(IndexedMap[StandingGrant]):
    """The grants of a stream by id, those that were revoked or have expired among them. Immutable.

    `_index` finds those that may lift a new call by their patterns, and `_held` those of which a request took a use.
    """

    __slots__ = ("_expiries", "_held", "_index", "_limited_count")

    def __init__(
        self,
        by_id: HashTrieMap[str, StandingGrant] = _NO_ENTRIES,
        index: PatternIndex = _NO_PATTERNS,
        held: HashTrieMap[str, tuple[str, ...]] = _NO_ENTRIES,
        expiries: SortedKeys[tuple[int, str]] = _NO_KEYS,
        limited_count: int = 0,
    ) -> None:
        self._by_id, self._index, self._held, self._expiries = by_id, index, held, expiries
        self._limited_count = limited_count

    @classmethod
    def of(cls, grants: Iterable[StandingGrant]) -> Grants:
        """Return these grants by id."""
        found = cls()
        for grant in sorted(grants, key=_in_order):
            found = found.insert(grant.grant_id, grant)
        return found

    @property
    def has_limited(self) -> bool:
        """Return whether a grant has a limit of uses."""
        return self._limited_count > 0

    def insert(self, grant_id: str, grant: StandingGrant) -> Grants:
        """Return the grants with one more, or with one changed."""
        known = self._by_id.get(grant_id)
        index, held, expiries = self._index, self._held, self._expiries
        if known is None or known.pattern != grant.pattern or _may_lift(known) != _may_lift(grant):
            index = index.discard(grant_id)
            if _may_lift(grant):
                index = self._without_expired(index.add(grant_id, grant.pattern), grant)
        for use in grant.taken[len(known.taken) if known is not None else 0 :]:
            before = held.get(use.request_id, ())
            if grant_id not in before:
                held = held.insert(use.request_id, (*before, grant_id))
        if grant.expires_ms is not None and (known is None or known.expires_ms != grant.expires_ms):
            expiries = expiries.add((grant.expires_ms, grant_id))
        was_limited = known is not None and known.uses is not None
        limited_count = self._limited_count + (grant.uses is not None) - was_limited
        return Grants(self._by_id.insert(grant_id, grant), index, held, expiries, limited_count)

    def _without_expired(self, index: PatternIndex, new: StandingGrant) -> PatternIndex:
        """Return an index without the grants beside a new one that expired so long ago that no clock doubts it."""
        for grant_id in index.with_same_word(new.grant_id):
            grant = self._by_id.get(grant_id)
            expires_ms = None if grant is None else grant.expires_ms
            if expires_ms is not None and expires_ms + _CLOCKS_AGREE_MS < new.at_ms:
                index = index.discard(grant_id)
        return index

    def about(self, texts: Iterable[str], now_ms: int, taker: Taker | None = None) -> list[StandingGrant]:
        """Return the grants of `in_force` whose pattern may match one of these texts, in order of creation."""
        by_id = self._by_id
        found = {grant_id: by_id[grant_id] for grant_id in self._index.about(texts)}
        if taker is not None and self._held:
            found.update((grant_id, by_id[grant_id]) for grant_id in self._held.get(taker.request_id, ()))
        return sorted((grant for grant in found.values() if grant.counts(now_ms, taker)), key=_in_order)

    def expires_between(self, after_ms: int, until_ms: int) -> bool:
        """Return whether a grant, revoked or not, expires after one server time (ms) and not after another."""
        first = next(self._expiries.since((after_ms + 1,)), None)
        return first is not None and first[0] <= until_ms


def _in_order(grant: StandingGrant) -> tuple[int, str]:
    return grant.version, grant.grant_id


def _may_lift(grant: StandingGrant) -> bool:
    """Return whether a grant may lift a new call as long as it has not expired."""
    is_used_up = grant.uses is not None and len(grant.taken) >= grant.uses
    return grant.revoked_ms is None and not grant.redacted and not is_used_up


def no_grants() -> Grants:
    return Grants()


def add_granted(grants: Grants, recorded: Recorded, event: Granted, scope: Scope) -> Grants:
    """Fold a `Granted` of a stream of this scope, which alone tells where uses are counted.

    A known id is unchanged, so that a repeated event never revives a revoked grant.
    """
    if event.grant_id in grants:
        return grants
    expires_ms = None if event.expires_in_ms is None else recorded.ms + event.expires_in_ms
    return grants.insert(
        event.grant_id,
        StandingGrant(
            grant_id=event.grant_id,
            permission=event.permission,
            pattern=event.detail.pattern if event.detail else "",
            scope=scope,
            by=recorded.actor,
            at_ms=recorded.ms,
            version=recorded.version,
            expires_ms=expires_ms,
            session=event.session,
            request_id=event.request_id,
            reason=event.detail.reason if event.detail else None,
            redacted=recorded.redacted,
            proof=event.proof,
            uses=event.uses,
            wider=event.wider,
        ),
    )


def mark_revoked(grants: Grants, recorded: Recorded, event: Revoked) -> Grants:
    grant = grants.get(event.grant_id)
    if grant is None or grant.revoked_ms is not None:
        return grants
    return grants.insert(event.grant_id, replace(grant, revoked_ms=recorded.ms))


def add_uses(grants: Grants, grant_ids: Iterable[str], use: TakenUse) -> Grants:
    """Fold the use of each of these grants; a known use, or a grant without a limit, changes nothing."""
    for grant_id in grant_ids:
        grant = grants.get(grant_id)
        if grant is not None and grant.uses is not None:
            grants = grants.insert(grant_id, with_use(grant, use))
    return grants


def with_use(grant: StandingGrant, use: TakenUse) -> StandingGrant:
    """Return a grant of which one more use was taken, at most once by the same call under the same claim."""
    if grant.is_held(Taker(use.session, use.request_id, (use.claim_id,))):
        return grant
    return replace(grant, taken=(*grant.taken, use))


def mark_imported(grants: Grants) -> Grants:
    """Fold an `Imported`, which marks every earlier grant as imported."""
    for grant in list(grants.values()):
        grants = grants.insert(grant.grant_id, replace(grant, imported=True))
    return grants


def mark_redacted(grants: Grants, versions: frozenset[int]) -> Grants:
    """Fold a `Redacted`, which takes patterns and reasons out of the grants of these versions."""
    for grant in list(grants.values()):
        if grant.version in versions:
            grants = grants.insert(grant.grant_id, replace(grant, pattern="", reason=None, redacted=True))
    return grants


def in_force(grants: Grants, now_ms: int, taker: Taker | None = None) -> Iterator[StandingGrant]:
    """Iterate over the grants in force at a server time (ms), in order of creation.

    A used-up grant counts for a `taker` that holds one of its uses.
    """
    live = [grant for grant in grants.values() if grant.counts(now_ms, taker)]
    live.sort(key=_in_order)
    return iter(live)


def earliest_expiry(grants: Iterable[StandingGrant]) -> int | None:
    """Return the earliest expiry (server ms) of these grants, or None."""
    return min((grant.expires_ms for grant in grants if grant.expires_ms is not None), default=None)


def derived_grant_id(session: str, request_id: str, index: int) -> str:
    """Return the id of a grant made by the winning reply to a request; deterministic, so that writing is idempotent."""
    return "grn_" + sha256(f"{session}\n{request_id}\n{index}".encode()).hexdigest()[:26]


def derived_event_id(grant_id: str) -> str:
    """Return the event id of a reply's `Granted` in a project's stream, by which a repeated one is recognised."""
    return "evt_" + sha256(f"granted\n{grant_id}".encode()).hexdigest()[:32]

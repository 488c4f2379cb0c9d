"""Checks of streams: every entry as it lies on the server.

The chain of hashes shows that nobody changed a grant, and does not show that a person gave it. So grants and tokens are
compared with the events that made them. A grant names the request whose answer made it; the author of an event names the
token that was used. Those made by a command on the ledger's own machine, after a provider's sign-in, or by an import name
neither, and are counted.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from ledger.access.passkey_checks import Known
from ledger.access.state import ACCESS_ID, AccessState, Token, evolve_access
from ledger.client.passkey_audit import PASSKEYS, Anchors, Demands, anchors_of, readable, unproven
from ledger.core.errors import DamageError, RulesUnreadableError
from ledger.core.events import Actor, Granted, Imported, Replied, TokenCreated
from ledger.core.grants import Recorded
from ledger.core.limits import PAGE_COUNT
from ledger.core.policy import demand_rules
from ledger.core.times import MINUTE_MS
from ledger.log.inboxes import ANSWERING
from ledger.log.rulesets import read_ruleset
from ledger.log.tail import fold_entries, nothing_folded, raw_page, read_short_streams
from ledger.log.verify import (
    Head,
    PayloadBeginning,
    Problem,
    beginnings_of,
    head_of,
    is_whole,
    may_spell_otherwise,
    read_entries,
    with_rules,
)
from ledger.stores.port import START, Entry, Position, RawEntry, StreamInfo, StreamKey
from ledger.stores.store import Store

UNREADABLE: Final = RulesUnreadableError.code
"""The code of an ask in a session whose rules cannot be read, which begins the text of the problem."""

_NAMING: Final = frozenset(("session_opened", "policy_changed"))


class _Event(msgspec.Struct):
    type: str
    policy_digest: str = ""
    project: str | None = None


class _Payload(msgspec.Struct):
    event: _Event
    x: str | None = None


_decoder: Final = msgspec.json.Decoder(_Payload)
_UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def named_rules(key: StreamKey, entries: Sequence[Entry]) -> dict[str, int]:
    """Return the digests of the rules that a session names, each with its first version.

    `entries` are those that may name rules, or all.
    """
    named: dict[str, int] = {}
    for entry in entries if key.kind == "session" else ():
        try:
            parsed = _decoder.decode(entry.payload)
        except _UNREADABLE:
            continue
        is_redacted = parsed.x is not None and entry.content is None
        if parsed.event.type in _NAMING and parsed.event.policy_digest and not is_redacted:
            named.setdefault(parsed.event.policy_digest, entry.version)
    return named


class NamedRules:
    """The demands of rules by digest, read once; None for rules that are missing or damaged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._demands: dict[str, Demands | None] = {}

    async def read(self, digests: Mapping[str, int]) -> dict[str, Demands | None]:
        """Return the demands of some rules. Raises StoreError."""
        for one in digests:
            if one not in self._demands:
                self._demands[one] = await self._read(one)
        return {one: self._demands[one] for one in digests}

    async def _read(self, policy_digest: str) -> Demands | None:
        try:
            source = (await read_ruleset(self._store, policy_digest)).source
        except DamageError:
            return None
        return None if source is None else demand_rules(source)


def missing_rules(named: Mapping[str, int], demands: Mapping[str, Demands | None]) -> list[Problem]:
    """Return the problems of a session whose rules are not there."""
    return [
        Problem(
            version, "missing", f"{UNREADABLE}: the rules of version {version} cannot be read: stream `policy:{one}`"
        )
        for one, version in named.items()
        if demands.get(one, ()) is None
    ]


TOKENS: Final = StreamKey("access", ACCESS_ID)

LATE_MS: Final = MINUTE_MS
"""The time after the end of a token in which a gateway may write what it had let in before."""

_GRANTED: Final = b'"granted"'
_REPLIED: Final = b'"replied"'


class Backing(NamedTuple):
    """Grants and tokens that nothing stands behind although they name it, and the number of those that name nothing."""

    problems: Sequence[Problem] = ()
    unnamed_count: int = 0


NOTHING: Final = Backing()


class Makers:
    """Reads what stands behind the grants and the tokens of a store's streams. The tokens are read once.

    What cannot be read is a problem of its own stream, and none here.
    """

    def __init__(self, read: Callable[[StreamKey], Awaitable[Sequence[Entry] | None]]) -> None:
        """`read` returns the entries of a stream in the ledger's own form; None where they cannot be read."""
        self._read = read
        self._tokens: AccessState | None = None

    async def of(self, key: StreamKey, entries: Sequence[Entry]) -> Backing:
        """Return what stands behind the grants or tokens in a stream. Raises StoreError."""
        if key == TOKENS:
            return _behind_tokens(readable(entries))
        if key.kind not in ("session", "project"):
            return NOTHING
        granted = [entry for entry in entries if _may_be(entry, _GRANTED)]
        if not granted:
            return NOTHING
        imported = max((one.event.versions for one in readable(entries) if isinstance(one.event, Imported)), default=0)
        problems, unnamed_count, answers = [], 0, dict[str, _Answers]()
        for one in readable(granted):
            event = one.event
            if not isinstance(event, Granted):
                continue
            if one.version <= imported or not (event.request_id or one.actor.token_id):
                unnamed_count += 1
            elif (why := await self._why_nobody(one, event, answers)) is not None:
                problems.append(
                    Problem(one.version, "unbacked", f"version {one.version}: grant `{event.grant_id}` {why}")
                )
        return Backing(problems, unnamed_count)

    async def _why_nobody(self, one: Recorded, event: Granted, answers: dict[str, _Answers]) -> str | None:
        if event.request_id is None:
            tokens = await self._tokens_read()
            return None if tokens is None else _why_not_in_force(tokens, one, ANSWERING)
        session = event.session or ""
        if session not in answers:
            answers[session] = await self._answers_in(session)
        known = answers[session]
        if known is None or (event.request_id, one.actor.name, event.grant_id) in known:
            return None
        return f"names request `{event.request_id}` of session `{session}`, which has no answer of `{one.actor.name}` that made it"

    async def _answers_in(self, session: str) -> _Answers:
        """Return the grants that the answers of a session name; None where it cannot be read."""
        entries = await self._read(StreamKey("session", session)) if session else ()
        if entries is None:
            return None
        return {
            (one.event.request_id, one.actor.name, grant_id)
            for one in readable(entry for entry in entries if _may_be(entry, _REPLIED))
            if isinstance(one.event, Replied)
            for grant_id in one.event.grants
        }

    async def _tokens_read(self) -> AccessState | None:
        if self._tokens is None:
            entries = await self._read(TOKENS)
            if entries is None:
                return None
            self._tokens = AccessState()
            for one in readable(entries):
                self._tokens = evolve_access(self._tokens, one)
        return self._tokens


_Answers = set[tuple[str, str, str]] | None


def _behind_tokens(recorded: Iterable[Recorded]) -> Backing:
    state, problems, unnamed_count = AccessState(), [], 0
    for one in recorded:
        before, event = state, one.event
        state = evolve_access(state, one)
        if not isinstance(event, TokenCreated) or event.token_id in before.tokens:
            continue
        token = state.tokens[event.token_id]
        if token.made_from is None and one.actor.token_id is None:
            unnamed_count += 1
        elif (why := _why_nobody_made(before, one, token)) is not None:
            problems.append(Problem(one.version, "unbacked", f"version {one.version}: token `{token.token_id}` {why}"))
    return Backing(problems, unnamed_count)


def _why_nobody_made(state: AccessState, one: Recorded, token: Token) -> str | None:
    if token.made_from is not None:
        root = state.tokens.get(token.made_from)
        if root is None:
            return f"is made from token `{token.made_from}`, which there was not"
        own, its = ((it.name, it.role, it.projects, it.sessions) for it in (token, root))
        return (
            None
            if own == its and not token.brings_rules
            else f"has other rights than `{root.token_id}`, of which it is made"
        )
    why = _why_not_in_force(state, one, ("admin",))
    maker = state.tokens.get(one.actor.token_id or "")
    if why is not None or maker is None:
        return why
    is_within = _is_within(token.projects, maker.projects) and _is_within(token.sessions, maker.sessions)
    return None if is_within else f"reaches further than token `{maker.token_id}`, with which it was made"


def _why_not_in_force(state: AccessState, one: Recorded, roles: Iterable[str]) -> str | None:
    """Return why the token of an event's author is not one of these roles that was in force then."""
    actor: Actor = one.actor
    token = state.tokens.get(actor.token_id or "")
    if token is None or token.at_ms > one.ms:
        return f"was made with token `{actor.token_id}`, which there was not"
    if token.name != actor.name or token.role not in roles:
        return f"was made by `{actor.name}` with token `{token.token_id}`, which is one of `{token.name}` with role {token.role}"
    ends = (one for one in (token.expires_ms, token.revoked_ms, token.redeemed_ms) if one is not None)
    if min(ends, default=one.ms) < one.ms - LATE_MS:
        return f"was made with token `{token.token_id}`, which had ended"
    return None


def _may_be(entry: Entry, type_of_event: bytes) -> bool:
    return type_of_event in entry.payload or may_spell_otherwise(entry.payload)


def _is_within(wanted: Sequence[str], own: Sequence[str]) -> bool:
    return not own or (bool(wanted) and set(wanted) <= set(own))


Depth = Literal["chain", "events", "folds"]
"""The depth to which a stream is read.

`chain`: bytes, versions, times, hashes, and commitments to content; a stream that does not pass is read in full.
`events`: every event and its content, too. `folds`: the state of the stream as well.
"""

_SIGNS: Final = (b'"demands"', b'"answer_by"', b'"proof', b'"passkey_')
_SIGNS_BESIDE_RULES: Final = (b'"demands"', b'"proof')
"""Those in a payload that a glance found to begin as usual, of an event without rules, and not of people's passkeys."""


class _Seen(NamedTuple):
    """The entries of a stream that have the ledger's form, and what a glance at them parsed.

    `beginnings` None: some payload begins in a way of its own. `ruling` are the entries that may have rules, or name
    them. `named` are the rules that a session names, each with its first version.
    """

    entries: Sequence[Entry]
    beginnings: Sequence[PayloadBeginning] | None
    ruling: Sequence[Entry]
    named: Mapping[str, int]


class _Related(NamedTuple):
    """Facts from other streams: the demands of the rules that a session names, and the events that made its grants."""

    demands: Mapping[str, Demands | None]
    behind: Backing


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a stream; `head` None is a stream without a readable end, or without entries."""

    key: StreamKey
    versions: int
    head: Head | None
    problems: list[Problem]
    project: str | None = None
    rules: tuple[str, ...] = ()
    """The digests of the rules that a session names and does not hold itself."""
    unreadable_rules: tuple[str, ...] = ()
    """Those of them that are missing or damaged, as streams."""
    is_there: bool = True
    redacted_count: int = 0
    unnamed_count: int = 0
    """Grants and tokens that name no answer and no token with which they were made."""

    @property
    def ok(self) -> bool:
        return not self.problems


class StreamChecker:
    """Checks of the streams of a store.

    `known` are heads kept from before. `anchors` are the passkeys that signed answers are checked against; None skips
    those. With them, or with `reads_rules`, the rules that sessions name must be readable.
    """

    def __init__(
        self,
        store: Store,
        known: Mapping[StreamKey, Head] | None = None,
        anchors: Anchors | None = None,
        depth: Depth = "events",
        *,
        reads_rules: bool = False,
    ) -> None:
        self._reads_rules = reads_rules or anchors is not None
        self._store = store
        self._known = {} if known is None else known
        self._anchors = anchors
        self._depth = depth
        self._rules = NamedRules(store)
        self._makers = Makers(self._entries)

    async def check(self, key: StreamKey) -> Checked:
        """Check a stream from its first entry. Raises StoreError, MissingExtraError."""
        try:
            info = await self._store.info(key)
            entries = [entry async for entry in raw_entries(self._store, key)]
        except DamageError as error:
            return Checked(key=key, versions=0, head=None, problems=[Problem(None, "foreign", error.text)])
        ours = list(map(_own, entries))
        seen = _seen(key, [entry for entry in ours if isinstance(entry, Entry)])
        related = await self._read_related(key, seen)
        # A long stream takes a second, in which a gateway must answer others.
        return await asyncio.to_thread(self._checked, key, ours, info, seen, related)

    async def check_all(self, keys: Sequence[StreamKey]) -> AsyncIterator[Checked]:
        """Check many streams, in this order. Raises StoreError, MissingExtraError."""
        async for checked, _ in self.read_all(keys):
            yield checked

    async def read_all(self, keys: Sequence[StreamKey]) -> AsyncIterator[tuple[Checked, tuple[Entry, ...] | None]]:
        """As `check_all`, with the entries of each stream that is short and whole. Raises StoreError, MissingExtraError."""
        async for key, short in read_short_streams(self._store, keys):
            checked = None
            if short is not None:
                seen = _seen(key, short.entries)
                checked = self._checked(key, short.entries, short.info, seen, await self._read_related(key, seen))
            if checked is not None and short is not None and checked.ok:
                yield checked, short.entries
            else:
                # Read by itself, a damaged stream shows what is foreign in it, too.
                yield await self.check(key), None

    async def _entries(self, key: StreamKey) -> Sequence[Entry] | None:
        """Return the entries of another stream, none where there is no stream; None if it is lost, or empty."""
        try:
            entries = [entry async for entry in raw_entries(self._store, key)]
            if not entries and await self._store.info(key) is not None:
                return None
        except DamageError:
            return None
        return [entry for entry in map(plain, entries) if entry is not None]

    async def _read_related(self, key: StreamKey, seen: _Seen) -> _Related:
        """Read what other streams have; demands only where rules are read."""
        demands = await self._rules.read(seen.named) if self._reads_rules and seen.named else {}
        return _Related(demands, await self._makers.of(key, seen.entries))

    def _checked(
        self,
        key: StreamKey,
        entries: Sequence[Entry | RawEntry],
        info: StreamInfo | None,
        seen: _Seen,
        related: _Related,
    ) -> Checked:
        known, demands = self._known.get(key), related.demands
        problems, redacted_count = self._problems(key, entries, seen, info)
        known_demands = {one: found for one, found in demands.items() if found}
        if self._anchors is not None and (known_demands or _may_be_signed(key, seen)):
            problems = problems + unproven(key, readable(seen.entries), self._anchors, known_demands)
        problems = problems + missing_rules(seen.named, demands) + list(related.behind.problems)
        if info is None and known is None:
            problems = [Problem(None, "deleted", f"there is no stream `{key.name}`")]
        last = entries[-1] if entries else None
        return Checked(
            key=key,
            versions=len(entries),
            head=head_of(last) if isinstance(last, Entry) else None,
            problems=problems,
            project=_project_of(key, entries),
            rules=tuple(seen.named),
            unreadable_rules=tuple(f"policy:{one}" for one in seen.named if demands.get(one, ()) is None),
            is_there=info is not None,
            redacted_count=redacted_count,
            unnamed_count=related.behind.unnamed_count,
        )

    def _problems(
        self, key: StreamKey, entries: Sequence[Entry | RawEntry], seen: _Seen, info: StreamInfo | None
    ) -> tuple[list[Problem], int]:
        """Return the problems of the entries themselves, and the number of those that were redacted."""
        if self._depth == "chain" and info is not None and self._is_whole(key, entries, seen, info):
            return rules_problems(key, seen.entries), 0
        reading = read_entries(key, entries, info, self._known.get(key))
        problems = reading.problems
        if not problems:
            problems = rules_problems(key, seen.entries)
        if self._depth == "folds" and not problems:
            problems = _fold_problems(key, seen.entries)
        return problems, reading.redacted_count

    def _is_whole(self, key: StreamKey, entries: Sequence[Entry | RawEntry], seen: _Seen, info: StreamInfo) -> bool:
        if seen.beginnings is None or len(seen.entries) != len(entries):
            return False
        return is_whole(key, seen.entries, info, self._known.get(key), beginnings=seen.beginnings)


def _seen(key: StreamKey, entries: Sequence[Entry]) -> _Seen:
    beginnings = beginnings_of(entries)
    ruling = entries if beginnings is None else with_rules(entries, beginnings)
    return _Seen(entries, beginnings, ruling, named_rules(key, ruling))


async def check_stream(
    store: Store, key: StreamKey, known: Head | None = None, anchors: Anchors | None = None
) -> Checked:
    """Check every event of one stream; see `StreamChecker`. Raises StoreError, MissingExtraError."""
    return await StreamChecker(store, {} if known is None else {key: known}, anchors).check(key)


async def read_anchors(store: Store, kept: Known | None) -> Anchors:
    """Read the passkeys that signed answers are checked against. Raises StoreError, MissingExtraError."""
    try:
        entries = [entry async for entry in raw_entries(store, PASSKEYS)]
    except DamageError:
        entries = []  # the check of that stream reports the error
    own = [entry for entry in map(plain, entries) if entry is not None]
    return await asyncio.to_thread(anchors_of, list(readable(own)), kept)


def rules_problems(key: StreamKey, entries: Sequence[Entry]) -> list[Problem]:
    """Return the problem of a whole stream of rules that are not those of the digest that names it."""
    if key.kind != "policy" or fold_entries(key, nothing_folded(key), entries).state.source is not None:
        return []
    return [Problem(1, "altered", f"the rules of `{key.name}` are not those of its digest")]


def _fold_problems(key: StreamKey, entries: Sequence[Entry]) -> list[Problem]:
    """Return the problem of a stream whose events cannot be folded, one after the other, to its state."""
    folded = nothing_folded(key)
    for entry in entries:
        try:
            folded = fold_entries(key, folded, (entry,))
        except Exception as error:  # noqa: BLE001 - an event that no version wrote may break the fold in any way
            return [Problem(entry.version, "undecodable", f"version {entry.version} cannot be folded: {error}")]
    return []


def _may_be_signed(key: StreamKey, seen: _Seen) -> bool:
    """Return whether entries may hold a demand, a proof or a passkey: most streams have none, and need no fold."""
    if seen.beginnings is None or key.kind == "access":
        return _has_sign(seen.entries, _SIGNS)
    return _has_sign(seen.ruling, _SIGNS) or _has_sign(seen.entries, _SIGNS_BESIDE_RULES, reads_content=False)


def _has_sign(entries: Sequence[Entry], signs: Sequence[bytes], *, reads_content: bool = True) -> bool:
    for start in range(0, len(entries), PAGE_COUNT):
        some = entries[start : start + PAGE_COUNT]
        texts = [entry.payload for entry in some]
        if reads_content:
            texts += [entry.content for entry in some if entry.content]
        text = b"\n".join(texts)
        if may_spell_otherwise(text) or any(sign in text for sign in signs):
            return True
    return False


async def raw_entries(store: Store, key: StreamKey) -> AsyncIterator[RawEntry]:
    """Yield all entries, including those of other writers."""
    after = START
    while page := await raw_page(store, key, after, PAGE_COUNT):
        for entry in page:
            yield entry
        after = Position.parse(page[-1].id)


def plain(raw: RawEntry) -> Entry | None:
    """Return an entry of the ledger's own form, or None."""
    if [name for name, _ in raw.fields] not in ([b"d"], [b"d", b"x"]):
        return None
    return Entry(*Position.parse(raw.id), *[value for _, value in raw.fields])


def _own(raw: RawEntry) -> Entry | RawEntry:
    """Return an entry in the ledger's own form, if it has that form and a version."""
    entry = plain(raw)
    return raw if entry is None or entry.version == 0 else entry


def _project_of(key: StreamKey, entries: Sequence[Entry | RawEntry]) -> str | None:
    """Return the project of a session, if its first entry can be read."""
    first = entries[0] if entries and key.kind == "session" else None
    if not isinstance(first, Entry):
        return None
    try:
        event = _decoder.decode(first.payload).event
    except _UNREADABLE:
        return None
    return event.project if event.type == "session_opened" else None

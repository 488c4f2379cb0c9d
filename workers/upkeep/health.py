"""Health checks of a deployment: its server's settings, its streams, and the lateness of its workers."""

from __future__ import annotations

import random
import shutil
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from ledger.access.state import Token
from ledger.core.addresses import split_address
from ledger.core.errors import ArchiveError, DamageError, MissingExtraError
from ledger.core.freezes import Freeze
from ledger.core.times import SECOND_MS
from ledger.log.archive.archive import archive_of
from ledger.log.due_index import is_entry_late, lacking
from ledger.log.surveys import paged
from ledger.log.viewed import are_views_lost
from ledger.stores.durability import Durability, advice
from ledger.stores.keys import PROJECTORS
from ledger.stores.port import StreamKey
from ledger.stores.redis.addresses import OpenDoors
from ledger.stores.store import KEYS_AT_ONCE_COUNT, Store, streams_of
from projections.engine import OUT_OF_REACH
from projections.lag import Overview, lag_counts, overview, place_of_walk
from workers.transport.trusted import TrustListError, load_records, no_longer_trusted
from workers.upkeep.stream_checks import UNREADABLE, StreamChecker

FREE_BYTES_MIN: Final = 64 * 1024 * 1024
"""Less is a full disk, whatever its size."""

FREE_SHARE_MIN: Final = 0.05
FREE_BYTES_WELL: Final = 10 * 1024 * 1024 * 1024
"""This much is enough, whatever the disk's size."""

_LOCAL: Final = frozenset({"", "localhost", "127.0.0.1", "::1"})
_MIB: Final = 1024 * 1024


class DiskSpace(msgspec.Struct, frozen=True):
    """Free and total bytes of the disk of a folder."""

    folder: Path
    free_bytes: int
    total_bytes: int

    @property
    def is_low(self) -> bool:
        share = self.free_bytes / max(self.total_bytes, 1)
        return self.free_bytes < FREE_BYTES_MIN or (share < FREE_SHARE_MIN and self.free_bytes < FREE_BYTES_WELL)

    def __str__(self) -> str:
        used = 100 - 100 * self.free_bytes // max(self.total_bytes, 1)
        free, total = self.free_bytes // _MIB, self.total_bytes // _MIB
        return f"{free} MiB of {total} MiB are free ({used} % used) in {self.folder}"


def is_on_this_machine(url: str) -> bool:
    """Return whether the URL names a server here: embedded, behind a socket, or on loopback."""
    parts = split_address(url.partition(",")[0])
    return parts.scheme in ("embedded", "unix") or (parts.hostname or "") in _LOCAL


def space_of(folder: Path) -> DiskSpace | None:
    """Return the space of a folder's disk; None if the folder cannot be read: on another machine, or in a container."""
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return DiskSpace(folder, usage.free, usage.total)


SAMPLE_COUNT: Final = 100
"""The number of streams verified without `deep`."""

NAMED_COUNT: Final = 5
"""The number of damaged streams named; the rest are counted."""

CLOCK_SKEW_MS: Final = 5 * SECOND_MS
"""The tolerated clock difference. Only the server's clock counts, but people read its times by their own."""

OVERDUE_MS: Final = 30 * SECOND_MS
"""The tolerated lateness: a worker ends a request within milliseconds, and after a lost hint within half this time."""

BEHIND_MS: Final = 60 * SECOND_MS
"""The age of an unprojected event from which the views count as behind."""

MEMORY_SHARE: Final = 0.9


class HealthFinding(msgspec.Struct, frozen=True):
    """The result of one check; `hint` names the remedy of a problem."""

    check: str
    ok: bool
    text: str
    hint: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"check": self.check, "ok": self.ok, "text": self.text, "hint": self.hint}


# --- the server ------------------------------------------------------------------------------------------------------


def check_server_facts(
    facts: Mapping[str, str],
    skew_ms: int,
    durability: Durability,
    space: DiskSpace | None = None,
    doors: OpenDoors = OpenDoors(),  # noqa: B008 - frozen
    *,
    set_back_ms: int = 0,
) -> list[HealthFinding]:
    """Check the server's own reports against the requirements. Pure.

    `skew_ms` is the server's clock minus this machine's; `space` that of its disk, if it can be read; `doors` are
    those found open without credentials; `set_back_ms` is how far the clock is behind the log.
    """
    if facts.get("server_name") == "memory":
        return [HealthFinding("server", True, "this process's own memory: nothing outlives it"), _clock(skew_ms, 0)]
    return [
        _server(facts),
        _access(facts, doors),
        _durability(facts, durability),
        _disk(facts, space),
        _eviction(facts),
        _replication(facts, durability),
        _clock(skew_ms, set_back_ms),
    ]


def _server(facts: Mapping[str, str]) -> HealthFinding:
    name, version = ("valkey", facts["valkey_version"]) if "valkey_version" in facts else ("redis", "")
    version = version or facts.get("redis_version", "?")
    return HealthFinding(
        "server", True, f"{name} {version}, {facts.get('redis_mode', facts.get('server_mode', 'standalone'))}"
    )


def _access(facts: Mapping[str, str], doors: OpenDoors) -> HealthFinding:
    if not doors.without_credentials:
        return HealthFinding("access", True, "the server wants a password or a certificate")
    hint = "give the ledger a user: `permission-ledger server-user`; or take `port 0` and `unixsocketperm 700`"
    port = facts.get("tcp_port", "0")
    if port != "0":
        text = f"no password: whoever reaches port {port} may read and rewrite the ledger, everybody on its machine too"
        return HealthFinding("access", False, text, hint)
    if doors.socket_of_everybody is not None:
        text = (
            f"no password: every user of this machine may read and rewrite the ledger by `{doors.socket_of_everybody}`"
        )
        return HealthFinding("access", False, text, hint)
    return HealthFinding("access", True, "no password, and no way in but a socket that not everybody may open")


def _durability(facts: Mapping[str, str], durability: Durability) -> HealthFinding:
    if facts.get("aof_enabled") == "0":
        return HealthFinding(
            "durability",
            False,
            "no append-only file: a crash loses what came after the last snapshot",
            "set appendonly yes and appendfsync always",
        )
    policy = facts.get("config_appendfsync")
    if policy is None:
        text = "append-only file; the server does not tell this user how often it is synced"
        return HealthFinding("durability", True, text, "see that it says `appendfsync always`; `everysec` loses events")
    if policy == "always":
        return HealthFinding("durability", True, "append-only file, synced before an append is acknowledged")
    if durability.wait_aof:
        text = f"append-only file, appendfsync {policy}; a grant or an allow counts when the disk has it (wait_aof)"
        return HealthFinding("durability", True, text)
    lost = "acknowledged events are lost when the machine crashes, and when the server does while its disk is slow"
    return HealthFinding(
        "durability",
        False,
        f"append-only file, appendfsync {policy}: {lost}",
        "set appendfsync always, or put wait_aof=1 into the URL",
    )


def _disk(facts: Mapping[str, str], space: DiskSpace | None) -> HealthFinding:
    bad = [
        name
        for name in ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
        if facts.get(name, "ok") != "ok"
    ]
    if bad:
        where = "" if space is None else f"; {space}"
        text = f"the last write failed ({', '.join(bad)}){where}"
        return HealthFinding("disk", False, text, "free space on the server's disk")
    if space is None:
        return HealthFinding("disk", True, "the last writes succeeded; how much space is free cannot be seen from here")
    if space.is_low:
        return HealthFinding(
            "disk", False, f"{space}: a full disk ends every append", "free space on the server's disk"
        )
    return HealthFinding("disk", True, f"the last writes succeeded; {space}")


def _eviction(facts: Mapping[str, str]) -> HealthFinding:
    policy = facts.get("maxmemory_policy", "noeviction")
    limit, used = int(facts.get("maxmemory", "0")), int(facts.get("used_memory", "0"))
    if policy != "noeviction":
        return HealthFinding("memory", False, f"maxmemory-policy is {policy}", "set maxmemory-policy noeviction")
    if limit and used > limit * MEMORY_SHARE:
        return HealthFinding(
            "memory", False, f"{used} of {limit} bytes are used: appends will be refused", "raise maxmemory"
        )
    return HealthFinding("memory", True, f"nothing is evicted; {used} bytes used" + (f" of {limit}" if limit else ""))


def _replication(facts: Mapping[str, str], durability: Durability) -> HealthFinding:
    found = advice(facts, durability)
    replicas = facts.get("connected_slaves", "0")
    if found:
        what = "; ".join(one.text for one in found)
        return HealthFinding(
            "replication", False, f"replicas: {replicas}; {what}", "; ".join(one.hint for one in found)
        )
    if durability.wait_replicas:
        text = f"replicas: {replicas}; a grant or an allow counts when {durability.wait_replicas} of them have it"
        return HealthFinding("replication", True, text)
    return HealthFinding(
        "replication",
        True,
        "no replica: the only copy is on this server's disk" if replicas == "0" else f"replicas: {replicas}",
    )


def _clock(skew_ms: int, set_back_ms: int) -> HealthFinding:
    if set_back_ms > CLOCK_SKEW_MS:
        text = f"the server's clock was set back: it is {set_back_ms // SECOND_MS} s behind the newest event"
        hint = "set it right by NTP; until it has caught up, deadlines and the ends of grants come that much later"
        return HealthFinding("clock", False, text, hint)
    where = "ahead of" if skew_ms > 0 else "behind"
    text = f"the server's clock is {abs(skew_ms)} ms {where} this machine's"
    if abs(skew_ms) <= CLOCK_SKEW_MS:
        return HealthFinding("clock", True, text)
    return HealthFinding("clock", False, text, "set both by NTP; deadlines are kept by the server's clock")


# --- the data on it --------------------------------------------------------------------------------------------------


async def check_deployment(store: Store, *, deep: bool) -> list[HealthFinding]:
    """Check the ledger's own state. Raises StoreError."""
    known = await overview(store)
    more = " or more" if known.trimmed else ""
    partitions = HealthFinding("partitions", True, f"{store.partition_count} partitions, {known.streams}{more} streams")
    return [
        partitions,
        *await _check_streams(store, known, deep=deep),
        await _check_projector(store, known),
        await _check_expiry(store),
        await _check_index(store, deep=deep),
        *await _check_archive(store, deep=deep),
    ]


async def _check_streams(store: Store, known: Overview, *, deep: bool) -> list[HealthFinding]:
    """Check streams, and the rules that sessions among them name."""
    checker = StreamChecker(store, reads_rules=True)
    bad: list[str] = []
    sessions: list[str] = []
    rules: set[str] = set()
    count, is_all = 0, True
    async for keys in paged(streams_of(store), KEYS_AT_ONCE_COUNT) if deep else _sample(store):
        for key in keys:
            checked = await checker.check(key)
            bad += [] if all(one.text.startswith(UNREADABLE) for one in checked.problems) else [key.name]
            sessions += [key.name] if checked.unreadable_rules else []
            rules.update(checked.unreadable_rules)
        count += len(keys)
        is_all = deep or len(keys) < SAMPLE_COUNT
    which = "all" if is_all else f"a sample of {count}"
    whole = HealthFinding("streams", True, f"{which} of {count if is_all else known.streams} are whole")
    if bad:
        text = f"{len(bad)} of {count} are damaged: {_some(bad)}"
        whole = HealthFinding("streams", False, text, "`permission-ledger verify --all`")
    if not sessions:
        return [whole, HealthFinding("rules", True, "the rules that sessions name can be read")]
    text = f"{UNREADABLE}: the rules of {len(sessions)} of {count} streams cannot be read: {_some(rules)}"
    hint = "nothing is allowed there: bring them back with `permission-ledger import`, or open the sessions with their rules"
    return [whole, HealthFinding("rules", False, f"{text}, named by {_some(sessions)}", hint)]


def _some(names: Collection[str]) -> str:
    return ", ".join(sorted(names)[:NAMED_COUNT]) + (" …" if len(names) > NAMED_COUNT else "")


async def _sample(store: Store) -> AsyncIterator[list[StreamKey]]:
    """Yield some streams once: others each time, because they begin where the projector's walk is. Few are all."""
    begin = cursor = await place_of_walk(store)
    found: dict[StreamKey, None] = {}
    while len(found) < SAMPLE_COUNT:
        keys, cursor = await store.streams_page(cursor, KEYS_AT_ONCE_COUNT)
        found |= dict.fromkeys(keys)
        if not cursor and not begin:
            break
        begin = begin if cursor else ""
    yield random.sample(list(found), min(len(found), SAMPLE_COUNT))


async def _check_projector(store: Store, known: Overview) -> HealthFinding:
    if not known.viewed and await are_views_lost(store):
        hint = "start `permission-ledger worker projector`, or `permission-ledger rebuild`"
        return HealthFinding("projector", False, "the views are gone, although a projector has made them", hint)
    if known.behind and not known.viewed:
        return HealthFinding("projector", True, "no projector has run yet: there are no views, and commands need none")
    events = sum(one.events for one in known.behind.values())
    feeds = await store.feeds()
    lags = await lag_counts(store, feeds)
    groups = [(one.partition, group) for one in feeds for group in one.groups if group.name == PROJECTORS]
    lag = sum(lags[PROJECTORS, partition] + group.pel_count for partition, group in groups)
    now_ms = await store.now_ms()
    late_ms = now_ms - min((one.head.ms for one in known.behind.values()), default=now_ms)
    more = ", or more: feeds dropped lines that nobody read" if known.trimmed else ""
    if late_ms > BEHIND_MS:
        return HealthFinding(
            "projector",
            False,
            f"the views lack {events} events of {len(known.behind)} streams, the oldest {late_ms // SECOND_MS} s old{more}",
            "start `permission-ledger worker projector`; if it runs, see what it warns of",
        )
    return HealthFinding(
        "projector", True, f"the views lack {events} events{more}; group {PROJECTORS} owes {lag} feed lines"
    )


async def _check_expiry(store: Store) -> HealthFinding:
    now_ms = await store.now_ms()
    overdue = [(session, ms) for session, ms in await store.due(now_ms, 1) if ms is not None]
    if not overdue:
        return HealthFinding("expiry", True, "nothing is overdue")
    session, due_ms = overdue[0]
    late_ms = now_ms - due_ms
    if late_ms <= OVERDUE_MS:
        return HealthFinding("expiry", True, f"the oldest deadline passed {late_ms} ms ago")
    return HealthFinding(
        "expiry",
        False,
        f"session {session} has a deadline that passed {late_ms // SECOND_MS} s ago",
        "start `permission-ledger worker expiry`; the next command in that session settles it too",
    )


async def _check_index(store: Store, *, deep: bool) -> HealthFinding:
    """Compare the index of deadlines with what the pending views name, and with a sample of all sessions."""
    late: set[str] = set()
    async for keys in _suspects(store, deep=deep):
        for key in keys:
            with suppress(DamageError, *OUT_OF_REACH):
                late |= {key.id} if key.kind == "session" and await is_entry_late(store, key) else set()
    if not late:
        return HealthFinding("deadlines", True, "the index of deadlines has what waits, as far as was looked")
    text = f"requests or runs wait that no worker ends, as the index of deadlines lacks their sessions: {_some(late)}"
    hint = "`permission-ledger rebuild`; a running `permission-ledger worker expiry` adds requests within minutes"
    return HealthFinding("deadlines", False, text, hint)


async def _check_archive(store: Store, *, deep: bool) -> list[HealthFinding]:
    """Report files of the archive that are lost; nothing where no archive is set."""
    archive = archive_of(store)
    if await archive.url() is None:
        return []
    hint = "bring them back from a copy of the archive; `permission-ledger verify --all` names their sessions"
    try:
        lost = await archive.lost(await archive.files(), deep=deep)
    except (ArchiveError, MissingExtraError) as error:
        return [HealthFinding("archive", False, f"it cannot be read: {error.text}", "bring its place back")]
    if lost:
        return [
            HealthFinding("archive", False, f"{len(lost)} files with sealed sessions are lost: {_some(lost)}", hint)
        ]
    return [HealthFinding("archive", True, "no file is lost" + ("" if deep else ", as far as was looked"))]


async def _suspects(store: Store, *, deep: bool) -> AsyncIterator[list[StreamKey]]:
    """Iterate over sessions that the index seems to lack, by the views, and over a sample of streams (`deep`: all)."""
    found: list[StreamKey] = []
    async for some in lacking(store):
        found += [StreamKey("session", one) for one in some]
        if len(found) >= SAMPLE_COUNT and not deep:
            break
    yield found
    async for keys in paged(streams_of(store), KEYS_AT_ONCE_COUNT) if deep else _sample(store):
        yield keys


def check_freezes(freezes: Sequence[Freeze], behind: Sequence[int]) -> list[HealthFinding]:
    """Report the freezes in force, and the partitions `behind` that do not enforce them. Pure."""
    found = [HealthFinding("freeze", False, one.sentence, _unfreeze(one)) for one in freezes]
    if behind:
        text = f"{len(behind)} of the partitions do not have the newest freeze or its end yet"
        found.append(HealthFinding("freeze", False, text, "repeat `permission-ledger freeze` or `unfreeze`"))
    return found or [HealthFinding("freeze", True, "nothing is frozen")]


def _unfreeze(one: Freeze) -> str:
    if one.project is None:
        return "when it may go on: `permission-ledger unfreeze`"
    return f"when it may go on: `permission-ledger unfreeze --project {one.project}`"


def check_tokens(tokens: Sequence[Token], now_ms: int) -> HealthFinding:
    """Report agents' tokens that reach the sessions of others. They are intended, so that is no problem. Pure."""
    held = [one for one in tokens if one.role == "agent" and one.use == "bearer" and one.in_force(now_ms)]
    wide = [one for one in held if one.everything]
    if not wide:
        return HealthFinding("tokens", True, f"{len(held)} of agents, each for its own sessions")
    named = ", ".join(f"{one.token_id} ({one.name})" for one in wide[:NAMED_COUNT]) + (
        " …" if len(wide) > NAMED_COUNT else ""
    )
    return HealthFinding(
        "tokens",
        True,
        f"{len(held)} of agents; made with --everything, so that they reach the sessions of ALL others: {named}",
        "`permission-ledger token revoke TOKEN`, and make one without --everything",
    )


def check_trust() -> list[HealthFinding]:
    """Report the trusted files whose content is not the one that this user trusted."""
    try:
        records = load_records()
    except TrustListError as error:
        return [HealthFinding("trust", False, error.text, error.hint)]
    bad = [
        HealthFinding(
            "trust",
            False,
            f"`{path}` is not as you trusted it: of its project's rules only the denies count",
            f"read it, then: {command}",
        )
        for _, path, command in no_longer_trusted(records)
    ]
    some = "1 project has a trusted file" if len(records) == 1 else f"{len(records)} projects have trusted files"
    return bad or [HealthFinding("trust", True, f"{some}, as trusted")]

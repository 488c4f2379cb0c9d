"""Every bound on what comes from outside, with its unit last."""

from __future__ import annotations

from typing import Final

ID_LENGTH_CHARS: Final = 200
"""Session, project, request, client and grant ids."""

NAME_LENGTH_CHARS: Final = 256
"""Permission names, tool names, agents, actors."""

PATTERN_COUNT: Final = 256
"""Patterns (or `always` entries) of one request."""

PATTERN_LENGTH_BYTES: Final = 64 * 1024
"""One pattern: the longest shell command that is judged at all."""

METADATA_BYTES: Final = 256 * 1024
"""Metadata, and likewise a tool's input, as JSON."""

MESSAGE_BYTES: Final = 16 * 1024
"""Feedback of a person, a reason, a cause."""

POLICY_BYTES: Final = 512 * 1024
"""A ruleset as it is stored in the log."""

EVENT_BYTES: Final = 1024 * 1024
"""One encoded event."""

EVENTS_PER_APPEND_COUNT: Final = 512
"""Events of one append; what is more leaves in the next."""

JSON_DEPTH_LEVELS: Final = 64
"""Nesting of metadata and tool input."""

PARTITION_COUNT_DEFAULT: Final = 256
PARTITION_COUNT_MAX: Final = 4096

DURATION_MS_MAX: Final = 3650 * 86_400_000
"""Ten years: longer is a mistake; `none` means never."""

TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: RFC 3339 writes no later time."""

ENTRY_MS_MAX: Final = TIME_MS_MAX - DURATION_MS_MAX
"""The latest time of an entry: so that with any duration added it can be written, too."""

CONFLICT_TAIL_COUNT: Final = 256
"""Entries that a conflict returns with its answer; the rest is read page by page.

Also in `ledger/stores/append.lua`."""

PAGE_COUNT: Final = 1000
"""Entries of one XRANGE page."""

INLINE_WAKE_UP_BYTES: Final = 1024
"""A wake-up carries the events themselves up to this size, else only the last id.

Also in `ledger/stores/append.lua`."""

FEED_LENGTH_COUNT: Final = 1000
"""Entries that a partition's feed keeps; a projector that fell behind scans the streams.

Also in `ledger/stores/append.lua`."""

LEASE_MS: Final = 30_000
"""How long a client counts as connected without a renewal."""

LOCK_REQUEST_MS: Final = 10_000
"""After so long a requested input lock passes to the one who asked."""

PLUGIN_SECONDS: Final = 1.0
"""How long one decider may take, unless it says otherwise."""

GIVE_UP_SECONDS: Final = 10.0
"""How long a write without an answer is retried before it is reported as in doubt."""

REASON_LENGTH_CHARS: Final = 1000
"""What is kept of the reason or the failure of a decider."""

SWEEP_SECONDS: Final = 15.0
"""How often a process that waits looks by itself, in case a wake-up was lost."""

STREAMS_KEPT_COUNT: Final = 1024
"""Folds that a process keeps although nobody uses them just now."""

POLICIES_KEPT_COUNT: Final = 256
"""Compiled policies, with what they remember, that a process keeps; the one not used for the longest time goes first."""

SETTLE_GRACE_MS: Final = 250
"""A waiter settles its own request so long after the deadline, should no expiry worker have done it."""

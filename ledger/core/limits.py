"""All bounds on input from outside, with the unit last in each name."""

from __future__ import annotations

TYPE_CHECKING = False  # `typing` is slow to import, and hooks need some of these
if TYPE_CHECKING:
    from typing import Final

ID_LENGTH_CHARS: Final = 200
"""Session, project, request, client and grant ids."""

NAME_LENGTH_CHARS: Final = 256
"""Permission names, tool names, agents, actors."""

PATTERN_COUNT: Final = 256
"""Patterns (or `always` entries) of one request."""

PATTERN_LENGTH_BYTES: Final = 64 * 1024
"""One pattern, and thus the longest shell command that is judged."""

METADATA_BYTES: Final = 256 * 1024
"""Metadata, and likewise a tool's input, as JSON."""

MESSAGE_BYTES: Final = 16 * 1024
"""Feedback of a person, a reason, a cause."""

POLICY_BYTES: Final = 512 * 1024
"""A ruleset as stored in the log."""

EVENT_BYTES: Final = 1024 * 1024
"""One encoded event."""

GRANT_USES_COUNT: Final = 1000
"""The largest limit on the uses of a grant; the fold keeps each use."""

EDITED_PATTERN_COUNT: Final = 16
"""Patterns that a person gives in place of the offered ones; each is judged before it counts."""

EVENTS_PER_APPEND_COUNT: Final = 512
"""Events of one append; further events are written by the next."""

OPERAND_COUNT: Final = 32
"""Files of one request that are executed or read as a program."""

OPERAND_PATH_BYTES: Final = 4096
"""The path of such a file (PATH_MAX of Linux)."""

OPERAND_PATH_COUNT: Final = 128
"""Paths among which one such file is looked for."""

OPERAND_FILE_BYTES: Final = 32 * 1024 * 1024
"""One such file, whose SHA-256 is computed; of a larger one only the size is known.

Also in `workers/transport/operand_files.py`."""

OPERANDS_BYTES: Final = 128 * 1024 * 1024
"""All such files of one request.

Also in `workers/transport/operand_files.py`."""

JSON_DEPTH_LEVELS: Final = 64
"""Nesting of metadata and tool input."""

PARTITION_COUNT_DEFAULT: Final = 256
PARTITION_COUNT_MAX: Final = 4096

DURATION_MS_MAX: Final = 3650 * 86_400_000
"""Ten years: a longer duration is an error; `none` means never."""

TIME_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999, the last one of RFC 3339."""

ENTRY_MS_MAX: Final = TIME_MS_MAX - DURATION_MS_MAX
"""The latest time of an entry, so that its sum with any duration is a valid time."""

CONFLICT_TAIL_COUNT: Final = 256
"""Entries returned with a conflict; the rest is read page by page.

Also in `ledger/stores/redis/append.lua`."""

PAGE_COUNT: Final = 1000
"""Entries of one XRANGE page."""

INLINE_WAKE_UP_BYTES: Final = 1024
"""A wake-up has the events up to this size, else only the last id.

Also in `ledger/stores/redis/append.lua`."""

FEED_LENGTH_COUNT: Final = 1000
"""Entries of a partition's feed after trimming; a projector with a larger lag scans the streams.

Also in `ledger/stores/redis/append.lua`."""

LEASE_MS: Final = 30_000
"""The duration of a client's lease, after which it counts as disconnected."""

LEAST_GAIN_MS: Final = 60_000
"""The default of the least time that a connecting client must give an unattended request to be recorded."""

THINKING_MS: Final = 5 * 60_000
"""The time from the ask to which an attended request is extended by itself, and that each extension by hand adds."""

EXTENDED_MS: Final = 7 * 86_400_000
"""The longest time from the ask to which a request can be extended."""

LEAST_EXTENSION_MS: Final = 1000
"""An extension that would give less is none."""

PRESENT_COUNT: Final = 16
"""Present clients that one event names."""

RECORDED_CLIENTS_COUNT: Final = 64
"""Clients in the state of a session beyond which those named by asks are left out; decisions do not need them."""

LOCK_REQUEST_MS: Final = 10_000
"""The time after which a requested input lock passes to the requester."""

REDACTED_COUNT: Final = 5000
"""Entries that one event redacts; the rest is redacted by the next."""

FREEZES_COUNT: Final = 1000
"""Projects that are frozen at a time; each flag holds them all."""

DEVICES_PER_PERSON_COUNT: Final = 10
"""Devices of one person that receive push messages."""

ENDPOINT_LENGTH_CHARS: Final = 2048
"""The address of a push subscription; real ones take 150 to 800."""

MUTED_SERVICES_COUNT: Final = 64
"""Services of one person that send nothing."""

HOLDS_COUNT: Final = 10_000
"""Legal holds that are in force at a time."""

PLUGIN_SECONDS: Final = 1.0
"""The default timeout of a decider."""

GIVE_UP_SECONDS: Final = 10.0
"""The time for which a write without a reply is retried before it is reported as in doubt."""

REASON_LENGTH_CHARS: Final = 1000
"""The stored length of a decider's reason or failure."""

SWEEP_SECONDS: Final = 15.0
"""The interval at which a waiting process reads without a wake-up, in case one was lost."""

POLICIES_KEPT_COUNT: Final = 256
"""Compiled policies, with their caches, that a process keeps; the least recently used one is evicted."""

SETTLE_GRACE_MS: Final = 250
"""The delay after a deadline at which a waiter settles its request if no expiry worker has done so."""

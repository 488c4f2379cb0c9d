"""A day of people, agents and workers, played faster: all of its durations are divided by one factor.

A server's own clock cannot be moved, so the deadlines are shortened and the clock is left alone. The lease of a
client (30 s) and that of an archiver's turn (120 s) are constants of the ledger and stay as long as they are.
"""

from __future__ import annotations

import hashlib
import random
from typing import Final, NamedTuple, TypeVar

from ledger import Timeouts
from ledger.core.policy import ReplyKind

C = TypeVar("C", bound=str)

SPEED: Final = 24.0
"""An hour plays a day."""

ATTENDED_SECONDS: Final = 60.0
UNATTENDED_SECONDS: Final = 600.0
CLAIM_SECONDS: Final = 900.0
IDLE_SECONDS: Final = 1800.0
"""The age at which an open session is sealed."""

ROUND_SECONDS: Final = 240.0
"""The interval between two rounds of an archiver."""

THINK_SECONDS: Final = 30.0
"""The mean time of an agent between two calls, of a call, and of a person before an answer."""

SHIFT_SECONDS: Final = 3600.0
"""A person is connected for one shift and away for the next."""

REDACTION_SECONDS: Final = 600.0
KILL_SECONDS: Final = 120.0
SAMPLE_SECONDS: Final = 60.0

CALLS_COUNT: Final = 8
"""Calls of a session."""

CLOSED_SHARE: Final = 0.75
"""The share of sessions that their agent closes; the others are sealed when they are idle."""

LATE_SHARE: Final = 0.05
"""The share of sessions after which the agent reports a late end in an older one, which is sealed by then."""

IGNORED_EVERY_COUNT: Final = 8
"""Every so many-th request is answered by nobody, and expires."""

PROJECTS_COUNT: Final = 8

RULES: Final = (
    {"permission": "bash", "pattern": "*", "action": "ask"},
    {"permission": "bash", "pattern": "git *", "action": "allow"},
    {"permission": "bash", "pattern": "rm *", "action": "deny"},
)
KINDS: Final = {"git show": 6, "rm": 1, "make": 8, "npm run": 1}
"""Commands and their weights: allowed, denied, asked, and asked and withdrawn."""

WITHDRAWN: Final = "npm run"
REPLIES: Final[dict[ReplyKind, int]] = {"once": 14, "session": 2, "reject": 3, "always": 1}


class Day(NamedTuple):
    """The durations of a day at a speed, in seconds."""

    speed: float = SPEED

    def seconds(self, seconds: float) -> float:
        return seconds / self.speed

    def text(self, seconds: float) -> str:
        """Return a duration for the command line."""
        return f"{round(1000 * self.seconds(seconds))}ms"

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(
            attended=self.seconds(ATTENDED_SECONDS),
            unattended=self.seconds(UNATTENDED_SECONDS),
            cap=self.seconds(2 * UNATTENDED_SECONDS),
        )

    @property
    def claim_seconds(self) -> float:
        return self.seconds(CLAIM_SECONDS)

    def thought(self, chance: random.Random) -> float:
        """Return a time to think, in seconds; few are much longer than the mean."""
        return min(chance.expovariate(1 / self.seconds(THINK_SECONDS)), 4 * self.seconds(THINK_SECONDS))


def command_of(request_id: str, kind: str) -> str:
    return f"{kind} {word_of(request_id)}"


def word_of(request_id: str) -> str:
    """Return the word that stands in this request's command, and in no other."""
    return "w" + hashlib.sha256(request_id.encode()).hexdigest()[:16]


def is_ignored(request_id: str) -> bool:
    """Return whether nobody answers this request."""
    return int(hashlib.sha256(request_id.encode()).hexdigest()[-4:], 16) % IGNORED_EVERY_COUNT == 0


def chosen(chance: random.Random, weights: dict[C, int]) -> C:
    return chance.choices(list(weights), list(weights.values()))[0]

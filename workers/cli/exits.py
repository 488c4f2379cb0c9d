"""CONTRACT's exit codes. Nothing but 0 is an allow."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final


class Exit(IntEnum):
    DONE = 0
    OUR_FAULT = 1
    USAGE = 2
    DENIED = 3
    REJECTED = 4
    EXPIRED = 5
    CANCELLED = 6
    PENDING = 7
    UNREACHABLE = 8
    UNKNOWN = 9
    ANSWERED_OTHERWISE = 10
    FINDINGS = 11
    BAD_INPUT = 12
    CLAIMED = 13
    FROZEN = 14
    INTERRUPTED = 130
    CLOSED_PIPE = 141


MEANINGS: Final = {
    Exit.DONE: "allowed, or done",
    Exit.OUR_FAULT: "an error in this program",
    Exit.USAGE: "wrong usage",
    Exit.DENIED: "denied by a rule",
    Exit.REJECTED: "rejected by a person, with or without feedback",
    Exit.EXPIRED: "expired; also a reply that came after the deadline",
    Exit.CANCELLED: "cancelled; also a command on a closed session",
    Exit.PENDING: "still pending",
    Exit.UNREACHABLE: "the ledger cannot be reached, or the outcome is in doubt",
    Exit.UNKNOWN: "no request, session or grant has this id",
    Exit.ANSWERED_OTHERWISE: "already answered otherwise",
    Exit.FINDINGS: "problems found (verify, rebuild --verify, doctor, policy lint and test); also a damaged stream",
    Exit.BAD_INPUT: "bad input or configuration",
    Exit.CLAIMED: "claimed by another runner, or the call has run",
    Exit.FROZEN: "frozen: nothing may be allowed or run now",
    Exit.INTERRUPTED: "interrupted with Ctrl-C",
    Exit.CLOSED_PIPE: "the reader of the output closed it",
}

WORST_FIRST: Final = (
    Exit.OUR_FAULT,
    Exit.UNREACHABLE,
    Exit.FINDINGS,
    Exit.BAD_INPUT,
    Exit.FROZEN,
    Exit.CLAIMED,
    Exit.UNKNOWN,
    Exit.DENIED,
    Exit.CANCELLED,
    Exit.EXPIRED,
    Exit.PENDING,
    Exit.ANSWERED_OTHERWISE,
    Exit.DONE,
)
"""The possible codes of several replies, the worst first."""


def worst(codes: Sequence[Exit]) -> Exit:
    """Return the exit code of a command with several results."""
    return min(codes, key=WORST_FIRST.index)


OF_OUTCOME: Final = {
    "allowed": Exit.DONE,
    "denied": Exit.DENIED,
    "rejected": Exit.REJECTED,
    "corrected": Exit.REJECTED,
    "expired": Exit.EXPIRED,
    "cancelled": Exit.CANCELLED,
    None: Exit.PENDING,
}
"""The exit code by a request's outcome; None is a pending request."""

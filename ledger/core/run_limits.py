"""The limits between an answer, the run of its call and the end of that run, as arguments of callers."""

from __future__ import annotations

import math

import msgspec

from ledger.core.durations import SECOND_MS, format_duration, parse_duration
from ledger.core.errors import InputError


class RunLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits in seconds; None states nothing.

    `approval_lifetime` is the time after a person's answer within which its call must begin (infinity: no limit);
    `claim_timeout` is the time after which a claim without a recorded end is ended.
    """

    approval_lifetime: float | None = None
    claim_timeout: float | None = None

    @classmethod
    def read(cls, approval_lifetime: str | None, claim_timeout: str | None, *, are_options: bool = False) -> RunLimits:
        """Return the limits of durations as text; None states nothing.

        With `are_options` errors name them as options of a command. Raises InputError.
        """
        if claim_timeout == "none":
            name = _named("claim_timeout", are_options)
            raise InputError(f"the {name} cannot be `none`: a claim whose runner died would stay open for ever")
        return cls(
            approval_lifetime=_seconds(approval_lifetime, _named("approval_lifetime", are_options)),
            claim_timeout=_seconds(claim_timeout, _named("claim_timeout", are_options)),
        )

    def over(self, standing: RunLimits) -> RunLimits:
        """Return these, with those of `standing` where they state nothing."""
        return RunLimits(
            approval_lifetime=standing.approval_lifetime if self.approval_lifetime is None else self.approval_lifetime,
            claim_timeout=standing.claim_timeout if self.claim_timeout is None else self.claim_timeout,
        )

    def described(self) -> str | None:
        """Return them as text; None where they state nothing."""
        said = [
            f"{text} {_text(value)}"
            for text, value in (("approvals count", self.approval_lifetime), ("claims end after", self.claim_timeout))
            if value is not None
        ]
        return ", ".join(said) or None


def _named(field: str, is_option: bool) -> str:
    return f"--{field.replace('_', '-')}" if is_option else field


def _seconds(text: str | None, what: str) -> float | None:
    if text is None:
        return None
    ms = parse_duration(text, what)
    return math.inf if ms is None else ms / SECOND_MS


def _text(seconds: float) -> str:
    return "without a limit" if seconds == math.inf else format_duration(round(seconds * SECOND_MS))

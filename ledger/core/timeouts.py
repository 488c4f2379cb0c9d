"""Deadlines of requests, and the limits between an answer and the end of its call's run, as arguments of callers."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from ledger.core.errors import InputError
from ledger.core.events import Settings
from ledger.core.limits import LEAST_GAIN_MS
from ledger.core.times import SECOND_MS, check_duration_ms, format_duration, parse_duration


class Timeouts(msgspec.Struct, frozen=True, kw_only=True):
    """Deadlines in seconds; None means never. `betcode.md`: 60 s attended, 7 days unattended, at most 30 days.

    `least_gain` is the least time that a connecting client must give an unattended request to extend it (of a short
    unattended time: a tenth); 0 counts every connection, as `betcode.md` does.
    """

    attended: float | None = 60
    unattended: float | None = 7 * 86400
    cap: float | None = 30 * 86400
    least_gain: float = LEAST_GAIN_MS / SECOND_MS

    @classmethod
    def of(cls, settings: Settings) -> Timeouts:
        """Return the deadlines of a session's settings."""
        known = (settings.attended_ms, settings.unattended_ms, settings.cap_ms)
        attended, unattended, cap = (None if ms is None else ms / SECOND_MS for ms in known)
        least_gain = settings.least_gain_ms / SECOND_MS
        return cls(attended=attended, unattended=unattended, cap=cap, least_gain=least_gain)

    def stated(self, texts: Mapping[str, str | None], label: str) -> Timeouts:
        """Return these with the durations of the texts, by field; None leaves a field unchanged.

        `label` is the field's label in errors, with `{}` for its name. Raises InputError.
        """
        durations = {
            field: parse_duration(text, label.format(field)) for field, text in texts.items() if text is not None
        }
        return replace(self, **{field: None if ms is None else ms / SECOND_MS for field, ms in durations.items()})

    def described(self) -> str:
        """Return both deadlines as text."""
        ms = self.as_ms()
        return f"{format_duration(ms['attended_ms'])} attended, {format_duration(ms['unattended_ms'])} unattended"

    def as_ms(self) -> dict[str, int | None]:
        """Return the members of `Settings` in ms. Raises InputError for a duration out of range."""
        return {
            "attended_ms": _ms(self.attended, "attended time"),
            "unattended_ms": _ms(self.unattended, "unattended time"),
            "cap_ms": _ms(self.cap, "longest time"),
            "least_gain_ms": _least_gain_ms(self.least_gain),
        }


def _ms(seconds: object, what: str) -> int | None:
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InputError(f"the {what} must be a number of seconds, or None for never, not {seconds!a}")
    return check_duration_ms(round(seconds * 1000), what)


def _least_gain_ms(seconds: object) -> int:
    if seconds == 0 and not isinstance(seconds, bool):
        return 0
    ms = _ms(seconds, "least gain")
    if ms is None:
        raise InputError("the least gain must be a number of seconds")
    return ms


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
            f"{text} {'without a limit' if value == math.inf else format_duration(round(value * SECOND_MS))}"
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

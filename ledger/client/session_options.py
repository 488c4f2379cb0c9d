"""The rules and settings of a session to open, from the arguments of `Ledger.session`. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from ledger.core.errors import InputError
from ledger.core.events import Settings
from ledger.core.policy import Layer, PolicySource, Rule
from ledger.core.timeouts import Timeouts
from ledger.core.times import seconds_as_ms
from ledger.policy.demands import MEMBER, demands_in
from ledger.policy.dialects import dialect_of
from ledger.policy.loader import merge
from ledger.session.state import SessionState

UNLIMITED_MS: Final = -1
"""The approval lifetime of `Ledger.session` that means never."""


def run_limits(approval_lifetime: float | None, claim_timeout: float | None) -> dict[str, int | None]:
    """Return the settings of an approval's lifetime (infinity: no limit) and a claim's timeout, given in seconds.

    None leaves a setting unchanged. Raises InputError.
    """
    lifetime_ms = (
        UNLIMITED_MS if approval_lifetime == math.inf else seconds_as_ms(approval_lifetime, "approval lifetime")
    )
    return {"approval_lifetime_ms": lifetime_ms, "claim_timeout_ms": seconds_as_ms(claim_timeout, "claim timeout")}


def policy_source_of(
    rules: Sequence[Rule | Mapping[str, Any]] | Mapping[str, Any] | None,
    dialect: str,
    options: Mapping[str, Any] | None,
) -> PolicySource | None:
    """Return the rules of a program as a policy; None without rules. Raises InputError."""
    if rules is None:
        return None
    spoken = dialect_of(PolicySource(dialect))
    if isinstance(rules, Mapping) and spoken.language.sections and spoken.language.sections.isdisjoint(rules):
        # An object without any section is an error, not "no rules".
        raise InputError(
            f"rules given as an object are a whole configuration, with `{spoken.language.section}` in it; this one has only "
            f"{', '.join(f'`{name}`' for name in list(rules)[:5]) or 'nothing'}"
        )
    given: dict[str, Any] = {"rules": merge(rules)} if not isinstance(rules, Mapping) else _of_config(rules)
    layer = Layer("session", **given)
    return PolicySource(dialect=dialect, layers=(layer,), options=dict(options or {}))


def _of_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members of a layer: the configuration as its dialect reads it, and its demands on answers."""
    kept = {name: value for name, value in config.items() if name != MEMBER}
    return {"config": kept, "demands": demands_in(config)}


def settings_of(
    state: SessionState, source: PolicySource, timeouts: Timeouts | None, **named: str | int | None
) -> Settings:
    """Return the given settings over the current ones; a new session starts with those of its rules' dialect.

    A duration of `UNLIMITED_MS` means never. Raises InputError.
    """
    changes: dict[str, Any] = {}
    if state.opened_ms is None:
        dialect = dialect_of(source)
        changes["cascade_reject"] = dialect.answers.cascade_reject
        changes["extending"] = dialect.answers.extending(source)
    if timeouts is not None:
        changes.update(timeouts.as_ms())
    given = {name: value for name, value in named.items() if value is not None}
    changes.update({name: None if value == UNLIMITED_MS else value for name, value in given.items()})
    try:
        return msgspec.convert({**msgspec.to_builtins(state.settings), **changes}, Settings)
    except msgspec.ValidationError as error:
        raise InputError(f"a setting of session `{state.session_id}` is not valid: {error}") from error

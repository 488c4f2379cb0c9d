"""A policy from outside: of the form of `ledger.core.policy.PolicySource`, and with no member that would say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from ledger.core.errors import InputError
from ledger.core.policy import DemandRule, Layer, PolicySource, Rule

_PARTS: Final[Mapping[str, type[msgspec.Struct]]] = {"layers": Layer, "rules": Rule, "demands": DemandRule}
"""The members that are lists of further members."""


def given_policy(value: Any) -> PolicySource:
    """Return a policy. Raises InputError for another form.

    An unknown member is refused: of a layer with `trustd: false` the rules would count in full.
    """
    try:
        source = msgspec.convert(value, PolicySource)
    except msgspec.ValidationError as error:
        raise InputError(f"the policy is not of the form `{{dialect, layers, options}}`: {error}") from error
    unknown = next(_unknown(value, PolicySource, ""), None)
    if unknown is not None:
        raise InputError(f"the policy has the unknown member `{unknown[:80]}`")
    return source


def _unknown(value: Mapping[str, Any], kind: type[msgspec.Struct], path: str) -> Iterator[str]:
    for name, member in value.items():
        if name not in kind.__struct_fields__:
            yield f"{path}{name}"
        elif name in _PARTS:
            for number, one in enumerate(member):
                yield from _unknown(one, _PARTS[name], f"{path}{name}[{number}].")
